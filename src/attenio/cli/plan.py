"""``attenio plan``: the best dataflow and tiles, and how far they are from what must be moved."""

from attenio.cli.output import print_json, print_tables
from attenio.cli.question import DEFAULT_N, AsJson, DataflowName, Question, asking, dataflow_named

__all__ = ["plan"]


@asking
def plan(question: Question, dataflow: DataflowName = None, as_json: AsJson = False) -> None:
    """The plan that moves the fewest words, every other dataflow beside it, and the gap to the best certified bound.

    \b
    Examples:
      attenio plan --n 131072 --d 64 --machine attenio-512k
      attenio plan --n 128K --fast-bytes 512KB --dataflow flash-attention-2
      attenio plan --model llama-3-70b --n 32K --machine h100 --json
      attenio plan --model deepseek-v3 --decode --keys 64K --batch 16
      attenio plan --n 8K --mask window:1024 --dtype bf16 --accumulator fp32
    """
    from attenio.report import answer

    workload = question.workload(DEFAULT_N)
    found = answer(workload, question.chosen_machine(), dataflow=dataflow_named(dataflow))
    notes = question.notes(workload)
    if as_json:
        print_json({**found.to_json(), "notes": list(notes)})
        return
    from attenio.report.tables import plan_tables

    print_tables(plan_tables(found), *notes)
