"""``attenio reproduce``: published figures, computed again."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.output import plain_table, print_json, print_tables, progress_bar, prose
from attenio.cli.question import AsJson
from attenio.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attenio.report.experiments import Experiment

__all__ = ["reproduce"]

_FIGURES = ("fig10", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16", "fig17", "table3")


def reproduce(
    figure: Annotated[str, typer.Argument(help="fig10 to fig17, table3, or all.", metavar="FIGURE")],
    as_json: AsJson = False,
) -> None:
    """A published figure computed again and set beside the printed numbers.

    \b
    Examples:
      attenio reproduce fig11
      attenio reproduce fig10 --json
      attenio reproduce all --json
    """
    wanted = figure.lower()
    if wanted == "all":
        found = []
        with progress_bar("reproducing") as progress:
            for number, name in enumerate(_FIGURES):
                if progress is not None:
                    progress(number, len(_FIGURES))
                found.append(_found(name))
        if as_json:
            values = [value for value, _ in found]
            print_json({"figures": values, "rows": [row for value in values for row in value["rows"]]})
            return
        print_tables(*(table for _, tables in found for table in tables))
        return
    if wanted not in _FIGURES:
        from attenio.names import did_you_mean

        hint = did_you_mean(figure, (*_FIGURES, "all"))
        raise InvalidInput(f"unknown figure {figure!r}; {hint}choose one of {', '.join(_FIGURES)} or all")
    value, tables = _found(wanted)
    if as_json:
        print_json(value)
    else:
        print_tables(*tables)


def _found(name: str) -> "tuple[dict[str, Any], tuple[RenderableType, ...]]":
    if name == "fig11":
        from attenio.report import reproduce as reproduced
        from attenio.report.tables import reproduction_table

        volumes = reproduced(name)
        return volumes.to_json(), (reproduction_table(volumes),)
    from attenio.report.experiments import experiment

    done = experiment(name)
    return done.to_json(), _tables(done)


def _tables(done: "Experiment") -> "tuple[RenderableType, ...]":
    table = plain_table(
        "dataflow", "quantity", ("d", "right"), (done.rows[0].axis, "right"), ("published", "right"), ("value", "right")
    )
    for row in done.rows:
        at = f"{row.at:,}" if isinstance(row.at, int) else row.at
        published = "" if row.published is None else f"{row.published:g}"
        d = "" if row.d is None else str(row.d)
        table.add_row(row.dataflow, row.quantity, d, at, published, f"{row.value:.4g}")
    return prose(f"{done.figure}: {done.title}. {done.caption}"), table
