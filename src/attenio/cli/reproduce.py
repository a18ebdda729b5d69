"""``attenio reproduce``: published figures, computed again."""

from typing import Annotated

import typer

from attenio.cli.output import print_json, print_tables
from attenio.cli.question import AsJson

__all__ = ["reproduce"]


def reproduce(
    figure: Annotated[str, typer.Argument(help="Which figure: fig11.", metavar="FIGURE")], as_json: AsJson = False
) -> None:
    """A published figure computed again and set beside the printed numbers.

    \b
    Examples:
      attenio reproduce fig11
      attenio reproduce fig11 --json
    """
    from attenio.report import reproduce as reproduced

    found = reproduced(figure)
    if as_json:
        print_json(found.to_json())
        return
    from attenio.report.tables import reproduction_table

    print_tables(reproduction_table(found))
