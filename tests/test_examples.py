import subprocess
import sys
from pathlib import Path

import pytest

# The example on several ranks runs in cluster/executor/test_processes.py, where PyTorch is imported once for all.
ELSEWHERE = "attention_on_ranks"
EXAMPLES = sorted(path for path in (Path(__file__).parents[1] / "examples").glob("*.py") if path.stem != ELSEWHERE)


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_recorded_beside_it(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stderr == ""
    assert done.stdout == example.with_suffix(".out").read_text(encoding="utf-8")
    assert done.returncode == 0
