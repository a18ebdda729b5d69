"""``attenio report``: everything about one workload on one machine, as a page with plots."""

from pathlib import Path
from typing import Annotated

import typer

from attenio.cli.output import check_place, print_json, print_tables, progress_bar
from attenio.cli.question import DEFAULT_N, AsJson, Question, asking
from attenio.errors import InvalidInput

__all__ = ["report"]


@asking
def report(
    question: Question,
    out: Annotated[Path, typer.Option(help="The page to write; it needs no network.", metavar="PATH")] = Path(
        "report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Write a self-contained page: words against fast memory and against n, a roofline, and every gap; print the plan.

    \b
    Examples:
      attenio report
      attenio report --n 32K --d 128 --machine h100 --out h100.html
      attenio report --model mistral-7b --n 32K --machine a100 --json
    """
    from attenio.report import answer, write_report

    check_place(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"report writes HTML, and {out} does not say so; use a name ending in .html")
    workload, machine = question.workload(DEFAULT_N), question.chosen_machine()
    found, notes = answer(workload, machine), question.notes(workload)
    with progress_bar("drawing the report") as progress:
        written = write_report(out, workload, machine, progress=progress)
    if as_json:
        print_json({**found.to_json(), "notes": list(notes), "report": str(written)})
        return
    from attenio.report.tables import plan_tables

    print_tables(plan_tables(found), *notes, f"\nThe plots are in {written}")
