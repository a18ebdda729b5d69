"""Groups of options that several commands share, each said once as a dataclass."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of tables.")]


def option(name: str, help: str, metavar: str, *, panel: str = "Workload") -> Any:
    """An option whose default its help tells, or that has none.

    Its name is said, not left to Typer: some versions make it from the parameter, some from the metavar.
    """
    return typer.Option(name, help=help, metavar=metavar, rich_help_panel=panel, show_default=False)


def taking(*groups: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of dataclasses; it receives each of these as one value, as its first arguments."""

    def with_options_of_groups(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[len(groups) :]

        @functools.wraps(command)
        def with_options(**options: Any) -> None:
            values = [group(**{field.name: options.pop(field.name) for field in fields(group)}) for group in groups]
            command(*values, **options)

        shared = [parameter for group in groups for parameter in _parameters(group)]
        keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        with_options.__signature__ = inspect.Signature([*shared, *keyword_only])  # type: ignore[attr-defined]
        return with_options

    return with_options_of_groups


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]
