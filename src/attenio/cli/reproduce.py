"""``attenio reproduce``: published figures, computed again."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import SOON_SECONDS, plain_table, print_json, print_tables, progress_bar, prose
from attenio.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attenio.report.experiments import Experiment

_FIGURES = ("fig10", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16", "fig17", "table3")
_COMPRESSION = "compression"


def reproduce(
    figure: Annotated[str, typer.Argument(help="fig10 to fig17, table3, compression, or all.", metavar="FIGURE")],
    as_json: AsJson = False,
) -> None:
    """A published figure computed again and set beside the printed numbers.

    "compression" is the argument of Saha and Ye (2024) as an experiment: epochs of two runs are sent as messages, from
    which every score is read back. "all" are the figures and the table.

    \b
    Examples:
      attenio reproduce fig11
      attenio reproduce fig10 --json
      attenio reproduce all --json
      attenio reproduce compression
    """
    wanted = figure.lower()
    if wanted == "all":
        reproduced = []
        with progress_bar("reproducing", first_line_s=SOON_SECONDS) as progress:
            for number, name in enumerate(_FIGURES):
                if progress is not None:
                    progress(number, len(_FIGURES))
                reproduced.append(_reproduced(name))
        if as_json:
            values = [value for value, _ in reproduced]
            print_json({"figures": values, "rows": [row for value in values for row in value["rows"]]})
            return
        print_tables(*(table for _, tables in reproduced for table in tables))
        return
    if wanted == _COMPRESSION:
        _compression(as_json=as_json)
        return
    if wanted not in _FIGURES:
        from attenio.names import did_you_mean

        meant = f"fig{figure}" if figure.isdigit() else figure
        hint = did_you_mean(meant, (*_FIGURES, _COMPRESSION, "all"))
        raise InvalidInput(
            f"unknown figure {figure!r}; {hint}choose one of {', '.join(_FIGURES)}, {_COMPRESSION} or all"
        )
    value, tables = _reproduced(wanted)
    if as_json:
        print_json(value)
    else:
        print_tables(*tables)


def _compression(*, as_json: bool) -> None:
    from dataclasses import asdict

    from attenio.fast_products.experiment import compression_experiment

    done = compression_experiment()
    if as_json:
        print_json({"figure": _COMPRESSION, "rows": [asdict(row) for row in done]})
        return
    names = ("scores", "message", "allowed", "floor", "published")
    table = plain_table("run", ("epoch", "right"), *((name, "right") for name in names), "read back")
    for row in done:
        counts = (row.scores, row.message_words, row.budget_words, row.floor_words)
        published, read = f"{row.published_floor_words:.1f}", "all" if row.recovered else "NOT ALL"
        table.add_row(row.run, str(row.number), *(f"{count:,}" for count in counts), published, read)
    caption = (
        "Words of a message from which a receiver who knows neither Q nor K reads every score of an epoch; what the"
        " theorem allows it (fast memory and the words moved), the proven floor, and the published one."
    )
    print_tables(prose(caption), "", table)


def _reproduced(name: str) -> "tuple[dict[str, Any], tuple[RenderableType, ...]]":
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
