"""Laws of the explorer's files that need no network."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from attenio import __version__
from attenio.errors import InvalidInput
from attenio.explorer import packages, site


def test_the_page_has_the_version_and_asks_for_nothing_outside() -> None:
    for name in site.PAGE:
        text = site.page_file(name).decode("utf-8")
        assert "http://" not in text and "https://" not in text and "{{" not in text
    assert __version__ in site.page_file("index.html").decode("utf-8")


def test_the_sources_have_what_the_page_imports_and_no_kernels() -> None:
    names = set(zipfile.ZipFile(io.BytesIO(site.source_zip())).namelist())
    assert {"attenio/explorer/answers.py", "attenio/catalogue/machines.yaml", "yaml/__init__.py"} <= names
    assert not [name for name in names if name.startswith(("attenio/kernels/", "attenio/cli/"))]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="holds something else; give a new folder"):
        site.build(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("place", ["/proc/nope", "file/folder"])
def test_a_folder_that_cannot_be_made_is_refused_in_one_line(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from attenio.cli import main

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing kept"))
    (tmp_path / "file").write_text("")
    assert main(["explore", "--build", str(tmp_path / place)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_npm_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages.shutil, "which", lambda _: None)
    with pytest.raises(InvalidInput, match=r"npm is not here; install Node\.js"):
        packages.packages()


def test_a_package_that_was_not_tested_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def pack(*_: Any, cwd: Path, **__: Any) -> None:
        (cwd / "some.tgz").write_bytes(b"something else")

    monkeypatch.setattr(packages.subprocess, "run", pack)
    with pytest.raises(InvalidInput, match="is not the package that was tested"):
        packages._fetched("npm", packages.PYODIDE, tmp_path)


@pytest.mark.parametrize("port", ["70000", "-1", "x"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    from attenio.cli import main

    assert main(["explore", "--port", port]) == 2
    assert "port is" in capsys.readouterr().err


def test_the_page_needs_nothing_that_a_browser_does_not_have() -> None:
    """Pyodide has NumPy and PyYAML beside the standard library; all views are asked where nothing else is there."""
    program = """
import sys
for name in ("ml_dtypes", "rich", "typer", "click", "torch", "triton", "plotly", "numba", "networkx", "ortools",
             "scipy", "pyarrow", "pandas", "dask", "amaranth", "IPython"):
    sys.modules[name] = None
import json
from attenio.explorer import respond
from attenio.explorer.answers import VIEWS
for view in VIEWS:
    assert "error" not in json.loads(respond(json.dumps({"view": view, "address": "n=64&d=8"}))), view
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-600:]
