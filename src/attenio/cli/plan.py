"""``attenio plan``: the best dataflow and tiles, and how far they are from what must be moved."""

from typing import TYPE_CHECKING

from attenio.cli.options import AsJson
from attenio.cli.output import print_json, print_tables
from attenio.cli.question import (
    DEFAULT_N,
    DataflowName,
    Question,
    asking,
    dataflow_named,
    refuse_dataflow_of_step,
)

if TYPE_CHECKING:
    from attenio.workload import Workload


@asking
def plan(question: Question, dataflow: DataflowName = None, as_json: AsJson = False) -> None:
    """The plan that moves the fewest words, every other dataflow beside it, and the gap to the best certified bound.

    \b
    Examples:
      attenio plan --n 131072 --d 64 --machine attenio-512k
      attenio plan --n 128K --fast-bytes 512KB --dataflow flash-attention-2
      attenio plan --model llama-3-70b --n 32K --machine h100 --json
      attenio plan --n 32K --d 128 --machine h100 --free-tiles
      attenio plan --model deepseek-v3 --decode --keys 64K --batch 16
      attenio plan --n 8K --mask window:1024 --dtype bf16 --accumulator fp32
      attenio plan --n 32K --d 128 --direction training
      attenio plan --n 1M --d 64 --tolerance 0.01 --entry-bound 0.25
    """
    workload = question.workload(DEFAULT_N)
    if workload.is_training:
        _plan_step(question, workload, dataflow, as_json=as_json)
        return
    from attenio.report import answer

    answered = answer(workload, question.chosen_machine(), dataflow=dataflow_named(dataflow))
    notes = question.notes(workload)
    if as_json:
        print_json({**answered.to_json(), "notes": list(notes)})
        return
    from attenio.report.tables import plan_tables

    print_tables(plan_tables(answered), *notes)


def _plan_step(question: Question, workload: "Workload", dataflow: str | None, *, as_json: bool) -> None:
    from attenio.report import training_answer

    refuse_dataflow_of_step(dataflow)
    answered, notes = training_answer(workload, question.chosen_machine()), question.notes(workload)
    if as_json:
        print_json({**answered.to_json(), "notes": list(notes)})
        return
    from attenio.report.tables import training_tables

    print_tables(training_tables(answered), *notes)
