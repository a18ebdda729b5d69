"""The notebooks run, and show what they showed when they were written."""

import importlib.util
import json
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("notebook", Path(__file__).with_name("notebook.py"))
assert spec is not None and spec.loader is not None
notebook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebook)


@pytest.mark.parametrize("name", notebook.TUTORIALS)
def test_a_notebook_is_its_tutorial_and_every_cell_gives_what_it_shows(name: str) -> None:
    if name == "engineer":
        pytest.importorskip("torch")
    page = notebook.TUTORIALS[name].read_text(encoding="utf-8")
    kept = json.loads(notebook.notebook_path(name).read_text(encoding="utf-8"))
    assert kept == notebook.notebook_of(page), "python tests/notebooks/notebook.py writes it anew"
    assert sum(cell["cell_type"] == "code" for cell in kept["cells"]) >= 3


@pytest.mark.parametrize("name", notebook.TUTORIALS)
def test_a_notebook_is_one_that_jupyter_opens(name: str) -> None:
    import nbformat

    nbformat.validate(nbformat.read(notebook.notebook_path(name), as_version=4))
