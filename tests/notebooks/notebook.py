"""Notebooks from the tutorials: their text becomes Markdown cells, their doctests code cells with what they print.

``python tests/notebooks/notebook.py`` writes all of them anew, after running every cell.
"""

import ast
import contextlib
import doctest
import io
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TUTORIALS = {name: ROOT / "docs" / "tutorials" / f"{name}.md" for name in ("engineer", "architect", "theorist")}


def notebook_path(name: str) -> Path:
    return ROOT / "notebooks" / f"{name}.ipynb"


def cells_of(page: str) -> list[dict[str, Any]]:
    """The cells of a page, code without outputs."""
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(re.split(r"```\{doctest\}\n(.*?)```\n", page, flags=re.DOTALL)):
        if number % 2:
            source = "".join(example.source for example in doctest.DocTestParser().get_examples(part))
            source = re.sub(r"  # doctest:.*", "", source)
            cells.append(
                {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
            )
        elif part.strip():
            plain = re.sub(r"\{term\}`([^`<]+?)(?: <[^`]*>)?`", r"\1", part.strip())
            plain = re.sub(r"\]\(\.\./([\w/.-]+)\)", r"](../docs/\1)", plain)
            cells.append({"cell_type": "markdown", "metadata": {}, "source": plain})
    for count, cell in enumerate(cells):
        cell["id"] = f"cell-{count}"
    return cells


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as a notebook does: what it prints, and its last value as text and, where it has one, as HTML."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        data = {"text/plain": re.sub(r" at 0x[0-9a-f]+", "", repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_()
        outputs.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data})
    return outputs


def notebook_of(page: str) -> dict[str, Any]:
    """The notebook of a page, every cell run."""
    cells, names = cells_of(page), {}
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["outputs"] = run_cell(cell["source"], names)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    for name, page in TUTORIALS.items():
        text = json.dumps(notebook_of(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
        notebook_path(name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
