"""``attenio doctor``: what is installed, what will run, what is missing, and whether results are right."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import plain_table, print_json, print_tables, progress_bar, prose

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attenio.measurement.installation import Backend, Extra
    from attenio.measurement.self_check import Check

_WRONG = 1


def doctor(
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Also check that results are right, in about ten seconds.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """What is installed here, which kernels will run, what is missing and how to get it, and whether results are right.

    The exit status is 1 if a result is wrong.

    \b
    Examples:
      attenio doctor
      attenio doctor --no-check --json
    """
    from attenio.measurement.installation import backends, core, extras
    from attenio.measurement.self_check import self_check

    found, kernels = extras(), backends()
    checked: tuple[Check, ...] = ()
    if check:
        with progress_bar("checking results") as progress:
            checked = self_check(progress)
    if as_json:
        print_json(
            {
                "versions": core(),
                "extras": [{**asdict(each), "is_there": each.is_there, "remedy": each.remedy} for each in found],
                "backends": [asdict(each) for each in kernels],
                "checks": [asdict(each) for each in checked],
            }
        )
    else:
        versions = ", ".join(f"{name} {version}" for name, version in core().items())
        print_tables(prose(versions), "", _extras(found), *_remedies(found), "", _backends(kernels), *_checks(checked))
    if not all(each.held for each in checked):
        raise typer.Exit(_WRONG)


def _extras(found: "tuple[Extra, ...]") -> "RenderableType":
    table = plain_table("extra", "for", "packages")
    for each in found:
        packages = ", ".join(f"{name} {version or '(missing)'}" for name, version in each.packages.items())
        table.add_row(each.name, each.purpose, packages)
    return table


def _remedies(found: "tuple[Extra, ...]") -> "list[RenderableType]":
    missing = [each.name for each in found if not each.is_there]
    if not missing:
        return [prose("Nothing is missing.")]
    from attenio.errors import how_to_install

    return [prose(f"To get what is missing: {how_to_install(','.join(missing))}")]


def _backends(kernels: "tuple[Backend, ...]") -> "RenderableType":
    table = plain_table("attention() by", "runs here", "on what, or why not")
    for each in kernels:
        table.add_row(each.name, "yes" if each.runs else "no", each.why)
    return table


def _checks(checked: "tuple[Check, ...]") -> "list[RenderableType]":
    if not checked:
        return []
    table = plain_table("law", "holds", "found", ("seconds", "right"))
    for each in checked:
        held = "-" if each.found.startswith("not checked") else "yes" if each.held else "NO"
        table.add_row(each.law, held, each.found, f"{each.seconds:.1f}")
    wrong = sum(not each.held for each in checked)
    told = "Results are right." if not wrong else f"{wrong} of {len(checked)} laws do not hold here."
    return ["", table, prose(told)]
