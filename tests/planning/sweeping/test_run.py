from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import largest_ordinary, lower_bounds
from attenio.errors import AttenioError
from attenio.machine import Machine, MemoryLevel
from attenio.masks import BlockSparse, Causal, Dense, Documents, SharedPrefix, SlidingWindow
from attenio.planning import SweepGrid, SweepResult, best_plan, sweep, training_plan
from attenio.planning.sweeping.columns import ABSENT, CHOICES, numbers_of, plan_columns
from attenio.workload import Direction

LAWS = settings(max_examples=11, deadline=None, derandomize=True)
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
        direction=draw(st.sampled_from(list(Direction))),
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
            plan_on = training_plan if grid.direction is Direction.TRAINING else best_plan
            plan = plan_on(workload, machine)
        except AttenioError as problem:
            assert all(found[name] == (None if name in CHOICES else ABSENT) for name in plan_columns(grid.direction))
            assert isnan(found["gap"])
            assert found["reason"] == str(problem)
            continue
        planned = {name: found[name] for name in plan_columns(grid.direction)}
        expected = {
            name: CHOICES[name][number] if name in CHOICES else number for name, number in numbers_of(plan).items()
        }
        assert {name: value for name, value in planned.items() if value not in (None, ABSENT)} == expected
        floor = largest_ordinary(lower_bounds(workload, machine)).words
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
    assert reasons[4].startswith("no dataflow fits: the least demanding, rank-one-tiling, needs at least 3 words")
    assert reasons[5] is None
    assert reasons[6:] == [wide, wide]


def test_words_beyond_64_bits_have_a_reason_and_no_plan() -> None:
    grid = SweepGrid(n=[2**30], d=[2**16], heads=[1, 2**20], batch=[1, 2**20], fast_bytes=[2**12])
    columns = sweep(grid).columns
    assert columns["reason"][-1].startswith("moves more words than a column of 64-bit integers holds")
    assert columns["moved_words"][-1] == ABSENT
    assert columns["dataflow"][-1] is None


def test_the_direction_of_a_sweep_tells_grids_apart() -> None:
    grids = [SweepGrid(n=[8], d=[4], fast_bytes=[512], direction=way) for way in Direction]
    assert len({grid.fingerprint for grid in grids}) == len(grids)
    assert sweep(grids[1]).columns["dataflow"].tolist() == ["query-stationary"]


def test_a_training_step_has_columns_for_both_passes_and_for_what_is_saved() -> None:
    grid = SweepGrid(n=[64], d=[16], heads=[6], kv_heads=[2], batch=[3], fast_bytes=[24, 4000], direction="training")
    columns = sweep(grid).columns
    assert columns["saved"].tolist() == ["probabilities", "statistics"]
    assert columns["forward_dataflow"].tolist() == ["standard", "kept-keys"]
    assert columns["backward_dataflow"][0] == "tiled-products"
    assert columns["backward_gradient_rows"][0] >= 1
    assert columns["backward_gradient_rows"][1] == ABSENT
    extra = columns["moved_words"] - columns["forward_moved_words"] - columns["backward_moved_words"]
    assert extra.tolist() == [0, 64 * 6 * 3]


def test_progress_counts_points_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attenio.planning.sweeping.run._CHUNK", 5)
    seen: list[tuple[int, int]] = []
    sweep(SweepGrid(n=range(1, 13), d=[4], fast_bytes=[512]), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(5, 12), (10, 12), (12, 12)]


@settings(LAWS, max_examples=6)
@given(grid=grids(), chunk=st.integers(3, 50))
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
        floor = largest_ordinary(lower_bounds(grid.workload(point), grid.computers[0])).words
        assert columns["lower_bound_words"][point] == (floor if floor < 2**63 else ABSENT)


def test_points_whose_values_are_part_of_keys_have_the_plan_and_the_bound_they_have_alone() -> None:
    lists = {"queries": [1, 5], "keys": [64], "d": [4, 8], "value_dim": [6], "heads": [4], "kv_heads": [1]}
    grid = SweepGrid(**lists, fast_bytes=[256, 1024], values_in_keys=True)
    assert grid.fingerprint != replace(grid, values_in_keys=False).fingerprint
    rows = list(sweep(grid).rows())
    for point, row in enumerate(rows):
        if row["d"] < 6:
            assert row["moved_words"] is None
            assert "values in keys are 6 wide and keys 4" in row["reason"]
            continue
        workload = grid.workload(point)
        assert workload.values_in_keys
        assert row["moved_words"] == best_plan(workload, grid.computers[point % 2]).moved_words
        assert row["lower_bound_words"] == largest_ordinary(lower_bounds(workload, grid.computers[point % 2])).words


def test_steps_of_one_head_leave_outputs_in_fast_memory_and_those_of_several_do_not() -> None:
    grid = SweepGrid(
        n=[96],
        d=[8],
        heads=[1, 2],
        masks=["dense", "causal", "window:16"],
        fast_bytes=[600, 920, 4000, 6000],
        direction="training",
    )
    rows = list(sweep(grid).rows())
    for point, row in enumerate(rows):
        assert row["moved_words"] == training_plan(grid.workload(point), grid.computers[point % 4]).moved_words
    few_keys = SweepGrid(queries=[50], keys=[7], d=[8], masks=["causal"], fast_bytes=[454], direction="training")
    (one,) = sweep(few_keys).rows()
    assert (one["saved"], one["moved_words"]) == ("outputs", 1136)
    stays = [(row["heads"], row["mask"], row["fast_words"]) for row in rows if row["saved"] == "outputs"]
    assert stays == [(1, "dense", 3000), (1, "causal", 2000), (1, "causal", 3000), (1, "window:16", 460)]
