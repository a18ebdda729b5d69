"""A browser's NumPy has integers of 32 bits unless told otherwise, and words need 64."""

import ast
from pathlib import Path

import attenio

SOURCE = Path(attenio.__file__).parent
ELSEWHERE = ("kernels", "cli")  # what a browser has not


def without_type(file: Path) -> list[str]:
    """Calls of ``np.arange`` that leave the type of integers to NumPy."""
    text = file.read_text(encoding="utf-8")
    if "np.arange" not in text:  # most files, which need not be parsed
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    ranges = [call for call in calls if ast.unparse(call.func) == "np.arange"]
    return [
        f"{file.relative_to(SOURCE)}:{call.lineno}"
        for call in ranges
        if all(keyword.arg != "dtype" for keyword in call.keywords)
    ]


def test_ranges_of_integers_say_how_wide_they_are() -> None:
    files = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in ELSEWHERE]
    assert len(files) > 200
    assert [place for file in files for place in without_type(file)] == []
