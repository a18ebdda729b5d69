"""``attenio plan``: the best dataflow and tiles, and how far they are from what must be moved."""

from typing import TYPE_CHECKING

from attenio.cli.cache import Cache
from attenio.cli.devices import Devices, asking_devices, idle_notes
from attenio.cli.options import AsJson
from attenio.cli.output import SOON_SECONDS, print_aside, print_json, print_tables, progress_bar
from attenio.cli.paged_answer import PagedAnswer
from attenio.cli.question import DEFAULT_N, DataflowName, Question, dataflow_named, refuse_dataflow_of_step
from attenio.errors import InvalidInput
from attenio.quantities import show_count

if TYPE_CHECKING:
    from attenio.workload import Workload

# Devices from which on a plan of causal work takes seconds.
_MANY_DEVICES = 1024


@asking_devices
def plan(
    question: Question, cache: Cache, devices: Devices, dataflow: DataflowName = None, as_json: AsJson = False
) -> None:
    """The plan that moves the fewest words, every other dataflow beside it, and the gap to the best certified bound.

    With --page-size or --requests, the plan for requests whose keys lie in pages, shared ones read once where that
    moves less. With --devices or --topology, how to spread it over many devices: what each sends, holds and waits for.

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
      attenio plan --model llama-3-70b --decode --n 32K --batch 64 --kv-bits 8 --machine h200
      attenio plan --model llama-3-70b --requests 64x33K --shared-prefix 32K --page-size 64 --kv-bits 8 --machine h200
      attenio plan --model llama-3-70b --n 1M --machine h100 --devices 64 --device-memory 80GB --topology dgx-h100:8x8
    """
    if cache.has_pages:
        _plan_pages(question, cache, devices, dataflow, as_json=as_json)
        return
    workload = cache.applied(question.workload(DEFAULT_N))
    if devices.are_asked:
        # what a model has is left out, as the notes say; what was asked for is refused
        workload = workload if cache.has_forms else workload.plain
        _plan_devices(question, devices, workload, dataflow, as_json=as_json)
        return
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


def _plan_pages(question: Question, cache: Cache, devices: Devices, dataflow: str | None, *, as_json: bool) -> None:
    if devices.are_asked:
        cache.refuse_pages("plans for many devices know")
    if dataflow is not None:
        raise InvalidInput(f"--dataflow {dataflow} is of sequences; pages have one way, leave it out")
    paged = cache.paged_workload(question, DEFAULT_N)
    PagedAnswer.of(paged, question.chosen_machine()).show(as_json=as_json)


def _plan_step(question: Question, workload: "Workload", dataflow: str | None, *, as_json: bool) -> None:
    from attenio.report import training_answer

    refuse_dataflow_of_step(dataflow)
    answered, notes = training_answer(workload, question.chosen_machine()), question.notes(workload)
    if as_json:
        print_json({**answered.to_json(), "notes": list(notes)})
        return
    from attenio.report.tables import training_tables

    print_tables(training_tables(answered), *notes)


def _plan_devices(
    question: Question, devices: Devices, workload: "Workload", dataflow: str | None, *, as_json: bool
) -> None:
    from attenio.report import answer, training_answer
    from attenio.report.cluster import cluster_answer
    from attenio.report.cluster_tables import cluster_tables

    if dataflow is not None:
        raise InvalidInput(f"--dataflow {dataflow} is of one device; leave it out, or leave the devices out")
    question.refuse_tolerance("many devices are planned for")
    machine = devices.on_topology(question).chosen_machine()
    cluster = devices.cluster(machine)
    if cluster.devices >= _MANY_DEVICES and str(workload.mask) == "causal":
        print_aside(f"counting the words of strips on {show_count(cluster.devices, 'device')} one by one")
    with progress_bar("planning for many devices", first_line_s=SOON_SECONDS) as progress:
        spread = cluster_answer(workload, cluster, devices.chosen_grid, progress=progress)
    notes = (*question.notes(workload), *devices.notes(question, [machine], [workload.dtype]), *idle_notes(cluster))
    if as_json:
        alone = training_answer(workload, machine) if workload.is_training else answer(workload, machine)
        print_json({**alone.to_json(), "cluster": spread.to_json(), "notes": list(notes)})
        return
    print_tables(cluster_tables(spread), *notes)
