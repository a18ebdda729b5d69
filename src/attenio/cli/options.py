"""Groups of options that several commands share, each said once as a dataclass."""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import field, fields
from typing import Annotated, Any, get_type_hints

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of tables.")]


Completion = Callable[[str], list[str]]


def option(
    name: str, help: str, metavar: str, *, panel: str | None = "Workload", completion: Completion | None = None
) -> Any:
    """An option whose default its help tells, or that has none.

    Its name is said, not left to Typer: some versions make it from the parameter, some from the metavar.
    """
    return typer.Option(
        name, help=help, metavar=metavar, rich_help_panel=panel, show_default=False, autocompletion=completion
    )


def option_field(
    help: str,
    metavar: str | None = None,
    *,
    panel: str | None = "Workload",
    default: Any = None,
    show_default: bool = False,
    completion: Completion | None = None,
) -> Any:
    """A field of a group of options, which is an option of the same name; a shell offers what ``completion`` finds."""
    said: dict[str, Any] = {"help": help, "metavar": metavar, "rich_help_panel": panel, "show_default": show_default}
    said |= {} if completion is None else {"autocompletion": completion}
    return field(default=default, metadata=said)


def taking(*groups: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of dataclasses; it receives each of these as one value, as its first arguments."""

    def with_options_of_groups(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[len(groups) :]

        @functools.wraps(command)
        def with_options(**options: Any) -> None:
            values = [group(**{each.name: options.pop(each.name) for each in fields(group)}) for group in groups]
            command(*values, **options)

        shared = [parameter for group in groups for parameter in _parameters(group)]
        keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        with_options.__signature__ = inspect.Signature([*shared, *keyword_only])  # type: ignore[attr-defined]
        return with_options

    return with_options_of_groups


def _parameters(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        annotation = hints[each.name]
        if each.metadata:
            said = typer.Option(f"--{each.name.replace('_', '-')}", **each.metadata)
            annotation = Annotated[annotation, said]
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(each.name, kind, default=each.default, annotation=annotation)
