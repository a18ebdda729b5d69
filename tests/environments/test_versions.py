"""Laws of what the check of versions installs; the check itself is ``make versions``."""

import json

from packaging.version import Version

from attenio.cli.app import app

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


def test_something_of_every_extra_is_tried() -> None:
    assert set(every_extra()) == set(OF_EXTRA) and set(extras()) < set(every_extra())


def test_every_command_is_asked_for_its_help() -> None:
    commands = json.loads(OPTION_NAMES.read_text(encoding="utf-8"))
    names = {command.name for command in app.registered_commands}
    assert {name for name in commands if " " not in name} == names
