from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import largest_absolute, lower_bounds
from attenio.errors import AttenioError, InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.masks import BlockSparse, Causal, Dense, Documents, SharedPrefix, SlidingWindow
from attenio.planning import SweepGrid, SweepResult, best_plan, sweep
from attenio.planning.sweeping.solve import ABSENT, GRADIENT_TILE_NAMES, TILE_NAMES
from attenio.workload import Direction

LAWS = settings(max_examples=15, deadline=None, derandomize=True)
MASKS = [
    Dense(),
    Causal(),
    SlidingWindow(width=5),
    SlidingWindow(width=3, causal=False),
    Documents(lengths=(7, 5)),
    SharedPrefix(length=4),
    BlockSparse(layout=((True, False), (True, True)), query_block=6, key_block=6),
]


def some(values: list, most: int = 2) -> st.SearchStrategy[list]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    small, large = draw(st.integers(2, 500)), draw(st.integers(501, 4000))
    levels = (MemoryLevel(name="L1", capacity_bytes=small), MemoryLevel(name="L2", capacity_bytes=large, units=3))
    return Machine(name="random", levels=(*levels, MemoryLevel(name="DRAM")))


@st.composite
def grids(draw: st.DrawFn) -> SweepGrid:
    return SweepGrid(
        n=draw(some([1, 7, 12, 40])),
        d=draw(some([1, 3, 8])),
        value_dim=draw(some([None, 2])),
        heads=draw(some([1, 4, 6])),
        kv_heads=draw(some([None, 1, 2])),
        batch=draw(some([1, 3])),
        masks=draw(some(MASKS, 3)),
        dtypes=draw(some(["fp16", "fp8", "fp32"])),
        accumulators=draw(some([None, "fp32", "fp16"])),
        fast_bytes=draw(st.lists(st.integers(1, 3000), min_size=1, max_size=3)),
        machines=draw(st.lists(machines(), max_size=1)),
        direction=draw(st.sampled_from(["forward", "forward", "backward"])),
    )


@LAWS
@given(grid=grids())
def test_every_point_has_the_plan_and_the_bound_it_has_alone(grid: SweepGrid) -> None:
    columns = sweep(grid).columns
    for point in range(0, len(grid), max(1, len(grid) // 25)):
        machine = grid.computers[grid.positions(point, point + 1)["machines"][0]]
        found = {name: values[point] for name, values in columns.items()}
        try:
            workload = grid.workload(point)
            plan = best_plan(workload, machine)
        except AttenioError as problem:
            assert found["dataflow"] is None
            assert found["moved_words"] == ABSENT
            assert isnan(found["gap"])
            assert found["reason"] == str(problem)
            continue
        names = TILE_NAMES if workload.direction is Direction.FORWARD else GRADIENT_TILE_NAMES
        tiles = {name: found[name] for name in names if found[name] != ABSENT}
        assert (found["dataflow"], tiles) == (plan.dataflow.value, dict(plan.tiles))
        assert (found["moved_words"], found["peak_words"]) == (plan.moved_words, plan.peak_words)
        floor = largest_absolute(lower_bounds(workload, machine)).words
        assert found["lower_bound_words"] == floor
        assert found["gap"] == plan.moved_words / max(floor, 1)
        assert found["reason"] is None
        asked = (workload.queries, workload.d, workload.value_dim, workload.kv_heads, workload.batch, machine.name)
        names = ("queries", "d", "value_dim", "kv_heads", "batch", "machine")
        assert tuple(found[name] for name in names) == asked


def test_infeasible_and_impossible_points_have_a_reason_and_no_plan() -> None:
    grid = SweepGrid(n=[8], d=[4], heads=[3], kv_heads=[2, 3], masks=["dense", "window:9"], fast_bytes=[2, 4096])
    reasons = sweep(grid).columns["reason"].tolist()
    uneven = "3 query heads cannot share 2 KV heads evenly; make kv_heads divide 3"
    wide = "window 9 is wider than the 8 keys; use a window up to 8 or causal"
    assert reasons[:4] == [uneven] * 4
    assert reasons[4].startswith("no dataflow fits: the least demanding, standard, needs at least 3 words")
    assert reasons[5] is None
    assert reasons[6:] == [wide, wide]


def test_words_beyond_64_bits_have_a_reason_and_no_plan() -> None:
    grid = SweepGrid(n=[2**30], d=[2**16], heads=[1, 2**20], batch=[1, 2**20], fast_bytes=[2**12])
    columns = sweep(grid).columns
    assert columns["reason"][-1].startswith("moves more words than a column of 64-bit integers holds")
    assert columns["moved_words"][-1] == ABSENT
    assert columns["dataflow"][-1] is None


def test_a_sweep_is_of_one_pass_and_its_direction_tells_grids_apart() -> None:
    forward, backward = (SweepGrid(n=[8], d=[4], fast_bytes=[512], direction=way) for way in ("forward", "backward"))
    assert forward.fingerprint != backward.fingerprint
    assert sweep(backward).columns["dataflow"].tolist() == ["query-stationary"]
    with pytest.raises(InvalidInput, match="a sweep plans one pass; make its direction forward or backward"):
        SweepGrid(n=[8], d=[4], fast_bytes=[512], direction="training")


def test_progress_counts_points_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attenio.planning.sweeping.run._CHUNK", 5)
    seen: list[tuple[int, int]] = []
    sweep(SweepGrid(n=range(1, 13), d=[4], fast_bytes=[512]), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(5, 12), (10, 12), (12, 12)]


@LAWS
@given(grid=grids(), chunk=st.integers(1, 50))
def test_chunks_make_no_difference(grid: SweepGrid, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attenio.planning.sweeping.run._CHUNK", chunk)
        cut = list(SweepResult.rows(sweep(grid)))
    assert cut == list(sweep(grid).rows())


def test_bounds_of_the_largest_points_are_those_they_have_alone() -> None:
    grid = SweepGrid(
        n=[2**30], d=[2**10], heads=[2**10], kv_heads=[1, None], masks=["dense", "causal"], fast_bytes=[2**20]
    )
    columns = sweep(grid).columns
    for point in range(len(grid)):
        floor = largest_absolute(lower_bounds(grid.workload(point), grid.computers[0])).words
        assert columns["lower_bound_words"][point] == (floor if floor < 2**63 else ABSENT)
