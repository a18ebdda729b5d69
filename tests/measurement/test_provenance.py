import re
from pathlib import Path

import pytest

from attenio.measurement import provenance as module
from attenio.measurement.provenance import provenance


def test_it_says_version_commit_and_day_and_nothing_else() -> None:
    assert re.fullmatch(r"attenio \S+(, commit [0-9a-f]{12}\+?)?, \d{4}-\d\d-\d\d", str(provenance()))


def test_outside_a_checkout_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACKAGE", tmp_path)
    assert provenance().commit is None


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert provenance().commit is None
