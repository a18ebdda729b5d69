"""Laws of the names of options: they are ours, whatever version of Typer reads them."""

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.models import OptionInfo

from attenio.cli.app import app, command_line

# Also read by tests/environments, which compares it with the help that old and new versions print.
NAMES: dict[str, list[str]] = json.loads((Path(__file__).parent / "option_names.json").read_text(encoding="utf-8"))


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for group, prefix in (
        (app, ""),
        *((each.typer_instance, f"{each.typer_instance.info.name} ") for each in app.registered_groups),
    ):
        for command in group.registered_commands:
            assert command.name is not None, f"{command.callback} has no name of its own"
            yield prefix + command.name, command.callback


def _said(function: Callable[..., Any]) -> Iterator[tuple[str, list[str]]]:
    """Every option's parameter, and the names declared for it."""
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                # in an annotation, Typer keeps the first name where a default would be
                names = [each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str)]
                yield name, [each for names in names for each in names.split("/")]


FUNCTIONS = dict(_functions())


@pytest.mark.parametrize("command", FUNCTIONS)
def test_every_option_says_its_own_name(command: str) -> None:
    for parameter, names in _said(FUNCTIONS[command]):
        assert names, f"{command}: {parameter} leaves its name to Typer"
        assert all(name.startswith("--") for name in names)


@pytest.mark.parametrize("command", FUNCTIONS)
def test_options_keep_the_names_that_people_have_typed_before(command: str) -> None:
    assert [name for _, names in _said(FUNCTIONS[command]) for name in names] == NAMES[command]


def test_typer_offers_the_names_that_were_said() -> None:
    offered: dict[str, list[str]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
            offered[" ".join(path)] = [name for name in names if name.startswith("-")]
        for name, each in (inner or {}).items():
            walk(each, (*path, name))

    walk(command_line(), ())
    assert offered == NAMES
