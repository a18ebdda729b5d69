"""Laws of ``attenio rtl`` on the command line."""

import sys
from pathlib import Path
from typing import Any

import pytest

from attenio.accelerator.rtl import build, installed

ASKED = ("rtl", "build", "--machine", "attenio-64k", "--n", "32", "--d", "16", "--out")


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_built(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "built", lambda *_: pytest.fail("built before the folder was tried"))
    (tmp_path / "file").write_text("")
    assert "cannot make the folder" in attenio(*ASKED, tmp_path / "file").mistake
    assert "cannot make the folder" in attenio(*ASKED, tmp_path / "file" / "inside").mistake


def test_what_is_built_is_said_before_it_is(attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> dict[str, Any]:
        print("built", file=sys.stderr)
        return {}

    monkeypatch.setattr(build, "write_verilog", nothing)
    monkeypatch.setattr(installed.shutil, "which", lambda name: None)
    said = attenio(*ASKED, tmp_path / "new", "--json")
    assert said.json["parts"] == {}
    not_linted = "attenio: Verilator is not installed: the files were not linted"
    assert said.json["lint"] is None
    assert said.err.splitlines() == ["attenio: building 2,048 MACs and their controller", "built", not_linted]
