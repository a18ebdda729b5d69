"""``attenio run --direction training``: both passes executed, on what the first one really saved."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.cli.long_runs import warn_of_long_run
from attenio.cli.output import finite, plain_table, print_json, print_tables, progress_bar, prose
from attenio.cli.question import Question
from attenio.plain_values import plain_fields

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.dataflows import Run, TrainingRun
    from attenio.workload import Workload


def run_step(question: Question, workload: "Workload", *, seed: int, trace: Path | None, as_json: bool) -> None:
    """Execute the best training step and print what was counted beside what was planned."""
    from attenio.dataflows import execute
    from attenio.report import training_answer

    answered, notes = training_answer(workload, question.chosen_machine()), question.notes(workload)
    warn_of_long_run(answered.plan.forward, answered.plan.backward)
    begin = time.perf_counter()
    with progress_bar("running a training step") as progress:
        done = execute(answered.plan, seed=seed, record=trace is not None, progress=progress)
    seconds = time.perf_counter() - begin
    if trace is not None:
        from attenio.cli.trace_file import write_trace

        write_trace(trace, [event for run in done.runs for event in run.trace.events])
    if as_json:
        counted = _counted(done)
        print_json(
            {
                **answered.to_json(),
                **counted,
                "run": {**counted, "seed": seed, "seconds": seconds},
                "notes": list(notes),
            }
        )
        return
    from attenio.report.tables import question_line
    from attenio.report.training import between_passes

    print_tables(question_line(answered), "", _table(done), prose(between_passes(done.plan)), *notes)


def _counted(done: "TrainingRun") -> dict[str, Any]:
    return {
        **_counts(done),
        "passes": [
            {"dataflow": run.plan.dataflow.value, "direction": run.plan.dataflow.direction.value, **_counts(run)}
            for run in done.runs
        ],
    }


def _counts(done: "Run | TrainingRun") -> dict[str, Any]:
    return {**plain_fields(done, "moved_words", "peak_words"), "max_abs_error": finite(done.max_abs_error)}


def _table(done: "TrainingRun") -> "Table":
    numbers = ((name, "right") for name in ("counted (words)", "peak (words)", "largest absolute error"))
    table = plain_table("pass", "dataflow", *numbers)
    for run in done.runs:
        table.add_row(
            run.plan.dataflow.direction.value,
            run.plan.dataflow.value,
            f"{run.moved_words:,}",
            f"{run.peak_words:,}",
            f"{run.max_abs_error:.3g}",
        )
    table.add_row(
        "all",
        f"{done.plan.saved.value} saved",
        f"{done.moved_words:,}",
        f"{done.peak_words:,}",
        f"{done.max_abs_error:.3g}",
    )
    table.add_row("planned", "", f"{done.plan.moved_words:,}", f"{done.plan.peak_words:,}", "")
    return table
