import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import largest_ordinary, lower_bounds
from attenio.errors import DoesNotFit
from attenio.machine import Machine, MemoryLevel
from attenio.planning.nested import LevelTiles, nested_plan, nested_plan_with
from attenio.workload import Workload

QUICK = settings(max_examples=20, deadline=None, derandomize=True)


@st.composite
def machines(draw):
    capacities = sorted(draw(st.sets(st.integers(64, 20_000), min_size=2, max_size=3)))
    rates = draw(st.booleans())
    levels = [
        MemoryLevel(name=f"L{k}", capacity_bytes=2 * words, bandwidth_bytes_per_s=100.0 / (k + 1) if rates else None)
        for k, words in enumerate(capacities)
    ]
    return Machine(name="random", levels=(*levels, MemoryLevel(name="slow", bandwidth_bytes_per_s=1.0)))


@st.composite
def workloads(draw):
    kv_heads = draw(st.integers(1, 2))
    return Workload(
        queries=draw(st.integers(1, 300)),
        keys=draw(st.integers(1, 300)),
        d=draw(st.sampled_from([4, 8, 16])),
        heads=kv_heads * draw(st.integers(1, 4)),
        kv_heads=kv_heads,
        mask=draw(st.sampled_from(["dense", "causal"])),
    )


@QUICK
@given(workload=workloads(), machine=machines())
def test_every_level_holds_its_tiles_and_no_boundary_beats_its_bound(workload, machine):
    try:
        plan = nested_plan(workload, machine)
    except DoesNotFit:
        assume(False)
    for boundary, peak, moved in zip(machine.boundaries, plan.peak_words, plan.moved_words, strict=True):
        assert peak <= boundary.fast_words(workload.dtype)
        assert moved >= largest_ordinary(lower_bounds(workload, machine, boundary=boundary)).words


@QUICK
@given(workload=workloads(), machine=machines())
def test_without_bandwidths_nothing_tried_moves_less_to_the_slowest_memory(workload, machine):
    bare = Machine(
        name="bare",
        levels=tuple(MemoryLevel(name=level.name, capacity_bytes=level.capacity_bytes) for level in machine.levels),
    )
    try:
        timed, bare_plan = nested_plan(workload, machine), nested_plan(workload, bare)
    except DoesNotFit:
        assume(False)
    assert bare_plan.moved_words[-1] <= timed.moved_words[-1]


def rated(inner: float, outer: float) -> Machine:
    levels = (
        MemoryLevel(name="near", capacity_bytes=1024),
        MemoryLevel(name="middle", capacity_bytes=16384, bandwidth_bytes_per_s=inner),
    )
    return Machine(name="rated", levels=(*levels, MemoryLevel(name="far", bandwidth_bytes_per_s=outer)))


@pytest.mark.parametrize("n", [256, 300, 1000])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (1.0, 1000.0), (3.0, 1.0)])
def test_a_plan_for_these_bandwidths_is_faster_than_the_one_that_moves_least_to_the_slowest_memory(n, rates):
    def slowest_seconds(plan):
        return max(words / rate for words, rate in zip(plan.moved_words, rates, strict=True))

    workload = Workload(n=n, d=16)
    timed, frugal = nested_plan(workload, rated(*rates)), nested_plan(workload, rated(1e6, 1.0))
    assert slowest_seconds(timed) < slowest_seconds(frugal)
    assert timed.moved_words[-1] > frugal.moved_words[-1]


def test_a_level_too_small_for_one_row_is_named_with_what_it_needs():
    tiny = MemoryLevel(name="registers", capacity_bytes=64)
    machine = Machine(name="toy", levels=(tiny, MemoryLevel(name="L2", capacity_bytes=8192), MemoryLevel(name="DRAM")))
    with pytest.raises(DoesNotFit, match="at least 260 words at level registers of toy, which has 32"):
        nested_plan(Workload(n=64, d=64), machine)


def test_tiles_that_do_not_fit_are_refused_with_their_size():
    tiles = (LevelTiles(query_tile=4, key_tile=4), LevelTiles(query_tile=8, key_tile=8))
    with pytest.raises(DoesNotFit, match=r"need 280 words at level 1, which has 100"):
        nested_plan_with(Workload(n=64, d=8), (1000, 100), 1, tiles)


def test_planning_does_not_walk_the_sequence():
    """A dense problem has as many row tiles as the outer level asks for, whatever the length of the tiles."""
    levels = (MemoryLevel(name="SM", capacity_bytes=2**18), MemoryLevel(name="L2", capacity_bytes=2**40))
    machine = Machine(name="wide", levels=(*levels, MemoryLevel(name="HBM")))
    plan = nested_plan(Workload(n=2**30, d=64), machine)
    assert plan.moved_words[-1] == 4 * 2**30 * 64


def test_a_decode_gives_keys_the_memory_that_its_few_rows_leave():
    levels = (MemoryLevel(name="SM", capacity_bytes=2**18), MemoryLevel(name="L2", capacity_bytes=2**25))
    machine = Machine(name="small GPU", levels=(*levels, MemoryLevel(name="HBM")))
    workload = Workload(queries=1, keys=2**17, d=128, heads=32, kv_heads=8)
    plan = nested_plan(workload, machine)
    assert plan.moved_words[-1] == workload.compulsory_words
    assert plan.moved_words[0] <= 1.01 * workload.compulsory_words
