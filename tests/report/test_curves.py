from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue import machine_named
from attenio.machine import Machine
from attenio.masks import BlockSparse, SlidingWindow
from attenio.report.curves import Curves, along_length, along_memory, lengthened
from attenio.workload import Workload

from .strategies import machines, workloads

LAW = settings(deadline=None, derandomize=True, max_examples=8)


def no_plan_beats_the_floor(curves: Curves) -> None:
    assert len(curves.floors) == len(curves.values)
    assert list(curves.values) == sorted(set(curves.values))
    for plans in [*curves.best.values(), *curves.published.values()]:
        for plan, floor in zip(plans, curves.floors, strict=True):
            assert plan is None or plan.moved_words >= floor.words


@LAW
@given(workload=workloads(), machine=machines())
def test_along_length_no_plan_beats_the_floor_and_the_workload_is_a_point(workload: Workload, machine: Machine) -> None:
    curves = along_length(workload, machine)
    no_plan_beats_the_floor(curves)
    assert workload.keys in curves.values


@LAW
@given(workload=workloads(), machine=machines())
def test_along_memory_no_plan_beats_the_floor_more_never_hurts_and_regimes_follow_each_other(
    workload: Workload, machine: Machine
) -> None:
    curves = along_memory(workload, machine)
    no_plan_beats_the_floor(curves)
    assert machine.slowest_boundary.fast_words(workload.dtype) in curves.values
    for plans in curves.best.values():
        words = [plan.moved_words for plan in plans if plan is not None]
        assert words == sorted(words, reverse=True)
    for before, after in zip(curves.regimes, curves.regimes[1:], strict=False):
        assert before.stop_words == after.start_words
    last = curves.regimes[-1]
    assert last.name == "all fits"
    least = [min(p.moved_words for plans in curves.best.values() if (p := plans[i])) for i in range(len(curves.values))]
    flat = {words for words, value in zip(least, curves.values, strict=True) if value >= last.start_words}
    assert len(flat) == 1


def test_the_crossover_is_a_little_above_the_theorems_d_squared() -> None:
    d = 64
    regimes = along_memory(Workload(n=8192, d=d), machine_named("attenio-512k")).regimes
    assert [regime.name for regime in regimes] == ["small cache", "large cache", "all fits"]
    assert d**2 < regimes[1].start_words < 1.1 * d**2


@LAW
@given(workload=workloads(), octaves=st.integers(0, 4))
def test_lengthening_keeps_everything_but_the_length(workload: Workload, octaves: int) -> None:
    longer = lengthened(workload, octaves)
    assert longer is not None
    assert lengthened(workload, 0) == workload
    assert longer.keys >= workload.keys
    assert (longer.group, longer.d, longer.batch) == (workload.group, workload.d, workload.batch)
    assert type(longer.mask) is type(workload.mask)


def test_a_window_stays_as_wide_and_blocks_have_only_whole_sizes() -> None:
    window = Workload(n=64, d=8, mask="window:16")
    assert lengthened(window, 1).mask == SlidingWindow(width=16)  # type: ignore[union-attr]
    assert lengthened(window, -3).mask == SlidingWindow(width=8)  # type: ignore[union-attr]
    blocks = Workload(n=64, d=8, mask=BlockSparse(layout=((True,),), query_block=64, key_block=64))
    assert lengthened(blocks, 0.5) is None
    layout = Workload(n=256, d=8, mask="longformer:128:64")
    assert lengthened(layout, 1).mask == layout.mask  # type: ignore[union-attr]
    assert lengthened(layout, -2) is None


def test_progress_is_told_every_step() -> None:
    told: list[tuple[int, int]] = []
    workload, machine = Workload(n=16, d=4), machine_named("toy-1k-words")
    curves = along_length(workload, machine, progress=lambda done, total: told.append((done, total)))
    assert told == [(k + 1, len(curves.values)) for k in range(len(curves.values))]
