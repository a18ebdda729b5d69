"""``attenio bounds``: what any algorithm must move."""

from attenio.cli.cache import Cache
from attenio.cli.options import AsJson, taking
from attenio.cli.output import print_json, print_tables
from attenio.cli.paged_answer import PagedAnswer
from attenio.cli.question import DEFAULT_N, Question


@taking(Question, Cache)
def bounds(question: Question, cache: Cache, as_json: AsJson = False) -> None:
    """Lower bounds on the words moved, with how literally each may be taken, what it assumes and where it is proven.

    \b
    Examples:
      attenio bounds --n 128K --d 64
      attenio bounds --n 8K --mask causal --fast-bytes 64KB
      attenio bounds --model llama-3-70b --decode --machine h100 --json
      attenio bounds --n 8K --direction training
      attenio bounds --n 1M --d 64 --tolerance 0.01 --entry-bound 0.25
      attenio bounds --model llama-3-70b --decode --n 32K --kv-bits 8 --machine h200
      attenio bounds --model gpt-oss-120b-global --requests 64x8K --page-size 64 --machine h200
    """
    from attenio.report import floor

    if cache.has_pages:
        paged = cache.paged_workload(question, DEFAULT_N)
        PagedAnswer.of(paged, question.chosen_machine(), planned=False).show(as_json=as_json)
        return
    workload = cache.applied(question.workload(DEFAULT_N))
    floors, notes = floor(workload, question.chosen_machine()), question.notes(workload)
    if as_json:
        print_json({**floors.to_json(), "notes": list(notes)})
        return
    from attenio.report.tables import bounds_table

    print_tables(bounds_table(floors), *notes)
