"""``attenio report``: everything about one workload on one machine, as a page with plots."""

from pathlib import Path
from typing import Annotated

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import check_place, print_json, print_tables, progress_bar
from attenio.cli.question import DEFAULT_N, Question, asking
from attenio.errors import InvalidInput


@asking
def report(
    question: Question,
    out: Annotated[Path, typer.Option("--out", help="The page to write; it needs no network.", metavar="PATH")] = Path(
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
      attenio report --n 32K --d 128 --direction training --out step.html
    """
    check_place(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"report writes HTML, and {out} does not say so; use a name ending in .html")
    workload, machine = question.workload(DEFAULT_N), question.chosen_machine()
    notes = question.notes(workload)
    if workload.is_training:
        from attenio.report import training_answer, write_training_report
        from attenio.report.tables import training_tables

        step = training_answer(workload, machine)
        with progress_bar("drawing the report") as progress:
            written = write_training_report(out, workload, machine, progress=progress)
        value, tables = step.to_json(), training_tables(step)
    else:
        from attenio.report import answer, write_report
        from attenio.report.tables import plan_tables

        answered = answer(workload, machine)
        with progress_bar("drawing the report") as progress:
            written = write_report(out, workload, machine, progress=progress)
        value, tables = answered.to_json(), plan_tables(answered)
    if as_json:
        print_json({**value, "notes": list(notes), "report": str(written)})
        return
    print_tables(tables, *notes, f"\nThe plots are in {written}")
