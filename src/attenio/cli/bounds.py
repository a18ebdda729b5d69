"""``attenio bounds``: what any algorithm must move."""

from attenio.cli.options import AsJson
from attenio.cli.output import print_json, print_tables
from attenio.cli.question import DEFAULT_N, Question, asking


@asking
def bounds(question: Question, as_json: AsJson = False) -> None:
    """Lower bounds on the words moved, with how literally each may be taken, what it assumes and where it is proven.

    \b
    Examples:
      attenio bounds --n 128K --d 64
      attenio bounds --n 8K --mask causal --fast-bytes 64KB
      attenio bounds --model llama-3-70b --decode --machine h100 --json
      attenio bounds --n 8K --direction training
      attenio bounds --n 1M --d 64 --tolerance 0.01 --entry-bound 0.25
    """
    from attenio.report import floor

    workload = question.workload(DEFAULT_N)
    floors, notes = floor(workload, question.chosen_machine()), question.notes(workload)
    if as_json:
        print_json({**floors.to_json(), "notes": list(notes)})
        return
    from attenio.report.tables import bounds_table

    print_tables(bounds_table(floors), *notes)
