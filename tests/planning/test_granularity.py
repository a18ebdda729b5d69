"""Plans that keep to a machine's granularity: the exact minimum over all tiles of whole units, ragged ends included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue import machine_named
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.granularity import FREE_TILES, Granularity
from attenio.machine import Machine, MemoryLevel
from attenio.planning import (
    Plan,
    SweepGrid,
    best_plan,
    best_plan_for,
    candidates,
    candidates_for,
    nested_plan,
    sweep,
    training_plan,
    training_plan_for,
)
from attenio.planning.costs import problems_of
from attenio.planning.plan import Dataflow, TileRule, Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.tile_sizes import keeps_to_granularity
from attenio.planning.search.dataflow import ONE_BY_ONE
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.workload import Workload

from .search.test_rectangles import exhaustive, forms, rooms
from .strategies import all_tiles, costs, directed, workloads

QUICK = settings(max_examples=11, deadline=None, derandomize=True)
LAWS = settings(max_examples=20, deadline=None, derandomize=True)
UNITS = st.builds(Granularity, rows=st.sampled_from([1, 2, 3, 4]), keys=st.sampled_from([1, 2, 3]))


def best_or_none(
    workload: Workload, fast_words: int, granularity: Granularity, dataflow: Dataflow | None = None
) -> Plan | None:
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow, granularity=granularity)
    except DoesNotFit:
        return None


@pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)
@QUICK
@given(data=st.data(), granularity=UNITS)
def test_no_tiles_of_whole_units_move_less_than_the_best_plan(
    dataflow: Dataflow, data: st.DataObject, granularity: Granularity
) -> None:
    sizes = {Dataflow.TILED_PRODUCTS: (4, 2), Dataflow.FUSED_VALUES: (5, 2), Dataflow.SPILLED_GRADIENTS: (6, 2)}
    sizes[Dataflow.RANK_ONE_TILING] = (5, 2)
    longest, widest = sizes.get(dataflow, (8, 3))
    workload = data.draw(workloads(longest=longest, widest=widest)).towards(dataflow.direction)
    if dataflow in ONE_BY_ONE and not granularity.is_free:
        assert best_or_none(workload, 10**6, granularity, dataflow) is None
        return
    problems = problems_of(workload, dataflow, granularity)
    every_tile = all_tiles(workload, dataflow)
    if dataflow is Dataflow.SPLIT_KEYS:  # which splits as little as it may
        half = -(-problems.counts.most_keys // (2 * granularity.keys)) * granularity.keys
        every_tile = [
            Tiles.of(**{**tiles, "keys_per_split": half})
            for tiles in every_tile
            if tiles["keys_per_split"] == 1 and half < problems.counts.most_keys
        ]
    in_slots = {
        "kept_keys",
        "ring_keys",
        "ring_rows",
        "row_sums",
        "key_sums",
        "late_rows",
        "turn_rows",
        "last_keys",
        "first_keys",
        "exchanged_positions",
        "turn_keys",
        "masked_turn_rows",
        "masked_turn_keys",
    }  # one score at a time
    in_slots.add("whole_rows")  # one element at a time, as others
    if dataflow is Dataflow.SCORE_STATIONARY:
        in_slots.add("resident_rows")
    allowed = [
        tiles
        for tiles in every_tile
        if keeps_to_granularity(problems, tiles) and (granularity.is_free or in_slots.isdisjoint(tiles))
    ]
    every = costs(workload, dataflow, allowed)
    if not every:
        assert best_or_none(workload, 10**6, granularity, dataflow) is None
        return
    smallest = min(found.peak_words for found in every)
    for fast_words in {smallest - 1, *data.draw(st.lists(st.integers(smallest, smallest + 90), max_size=5))}:
        fits = [found.moved_words for found in every if found.peak_words <= fast_words]
        plan = best_or_none(workload, fast_words, granularity, dataflow)
        assert (plan.moved_words if plan else None) == min(fits, default=None)
        assert plan is None or (plan.peak_words <= fast_words and keeps_to_granularity(problems, plan.tiles))


@LAWS
@given(workload=directed(longest=20, widest=4), fast_words=st.integers(1, 600), granularity=UNITS)
def test_the_best_plan_is_the_best_of_all_dataflows_at_the_granularity(
    workload: Workload, fast_words: int, granularity: Granularity
) -> None:
    found = candidates_for(workload, fast_words, granularity=granularity)
    words = [each.plan.moved_words for each in found if each.plan is not None and each.rule is TileRule.BEST]
    best = best_or_none(workload, fast_words, granularity)
    assert (best.moved_words if best else None) == min(words, default=None)
    free = best_or_none(workload, fast_words, FREE_TILES)
    assert best is None or (free is not None and free.moved_words <= best.moved_words)
    published = [each for each in found if each.rule is TileRule.PUBLISHED]
    assert published == [each for each in candidates_for(workload, fast_words) if each.rule is TileRule.PUBLISHED]


@LAWS
@given(workload=workloads(longest=70), units=UNITS, data=st.data(), heads=st.integers(1, 4))
def test_no_multiple_of_the_unit_beats_the_best_query_tile(
    workload: Workload, units: Granularity, data: st.DataObject, heads: int
) -> None:
    for problems in (Problems.separate(workload, units), Problems.stacked(workload, units)):
        split = -(-problems.counts.most_keys // 2)
        live, loads, visits = (data.draw(st.integers(least, 7)) for least in (0, 1, 0))
        form = RowWords(problems=problems, live=live, loads=loads, visits=visits, split=split, heads=heads)
        sizes = {*range(form.unit, problems.counts.most_rows + 1, form.unit), problems.counts.most_rows}
        most = data.draw(st.sampled_from(sorted(sizes)))
        words = {tile: form.words(tile) for tile in sizes if tile <= most}
        found, tile = best_row_tile(form, most)
        assert found == words[tile] == min(words.values())
        assert tile == min(tile for tile in words if words[tile] == found) or form.kinks is None


@LAWS
@given(workload=workloads(longest=40), units=UNITS, fits=rooms(), data=st.data())
def test_no_tile_of_whole_units_beats_the_best_rectangle(
    workload: Workload, units: Granularity, fits: tuple[Room, ...], data: st.DataObject
) -> None:
    form = forms(Problems.separate(workload, units), data)
    problems = form.problems
    every = {
        rows: found
        for rows, found in exhaustive(form, fits).items()
        if rows % units.rows == 0 or rows == problems.counts.most_rows
    }
    best = best_rectangle(form, fits)
    assert (best is None) == (not every)
    assert max(every, default=0) == max(min(row_room(problems, room) for room in fits), 0)
    if best is not None:
        assert best.words == min(words for words, _ in every.values())
        assert (best.words, best.keys) == every[best.rows]
        assert best.keys % units.keys == 0 or best.keys == problems.counts.most_keys


@pytest.mark.parametrize("mask", ["causal", "window:1000", "window:999:both"])
@pytest.mark.parametrize("most", [192, 1984, 40_000, 65_537])
def test_the_best_multiple_for_a_long_sequence_is_the_best_of_a_full_enumeration(mask: str, most: int) -> None:
    workload = Workload(queries=65_537, keys=65_999, d=1, mask=mask)
    problems = Problems.separate(workload, Granularity(rows=64, keys=16))
    form = RowWords(problems=problems, live=64, loads=128)
    tiles = np.append(np.arange(64, most + 1, 64), [most] if most == 65_537 else [])
    words = form.words_of(tiles.astype(np.int64))
    first = int(np.argmin(words))
    assert best_row_tile(form, int(tiles[-1])) == (int(words[first]), int(tiles[first]))


@QUICK
@given(workload=directed(longest=14, widest=3), fast_words=st.integers(40, 900), granularity=UNITS)
def test_a_run_of_a_plan_at_a_granularity_counts_what_the_plan_says(
    workload: Workload, fast_words: int, granularity: Granularity
) -> None:
    for candidate in candidates_for(workload, fast_words, granularity=granularity):
        if candidate.plan is not None and candidate.rule is TileRule.BEST:
            run = execute(candidate.plan)
            assert run.moved_words == candidate.plan.moved_words
            assert run.peak_words == candidate.plan.peak_words


def granular(units: Granularity, *words: int) -> Machine:
    levels = [MemoryLevel(name=f"L{k}", capacity_bytes=2 * size) for k, size in enumerate(words)]
    units_of = dict.fromkeys([Workload(n=1, d=1).dtype], units)
    return Machine(name="tensor cores", levels=(*levels, MemoryLevel(name="slow")), granularity=units_of)


@QUICK
@given(workload=workloads(longest=60), units=UNITS, words=st.integers(60, 900), more=st.integers(2, 9))
def test_tiles_of_a_nested_plan_are_of_whole_units_at_every_level(
    workload: Workload, units: Granularity, words: int, more: int
) -> None:
    machine = granular(units, words, words * more)
    try:
        plan = nested_plan(workload, machine)
    except DoesNotFit:
        return
    problems = Problems.stacked(workload, units)
    for tiles in plan.tiles:
        sizes = Tiles.of(query_tile=tiles.query_tile, key_tile=tiles.key_tile, head_tile=plan.head_tile)
        assert keeps_to_granularity(problems, sizes)
    assert all(peak <= fast for peak, fast in zip(plan.peak_words, plan.fast_words, strict=True))
    assert execute(plan).moved_words == plan.moved_words


@QUICK
@given(workload=workloads(longest=12, widest=3), units=UNITS, fast_words=st.integers(40, 700))
def test_a_training_step_is_made_of_passes_at_the_granularity(
    workload: Workload, units: Granularity, fast_words: int
) -> None:
    try:
        step = training_plan_for(workload, fast_words, granularity=units)
    except DoesNotFit:
        return
    for plan in (step.forward, step.backward):
        assert keeps_to_granularity(problems_of(plan.workload, plan.dataflow, units), plan.tiles)
    assert step == training_plan(workload, granular(units, fast_words))


def test_tensor_core_machines_plan_in_whole_units_and_say_what_else_would_do() -> None:
    workload, h100 = Workload(n=5000, d=128, mask="causal"), machine_named("h100")
    inner = Machine(name="sm", levels=(h100.levels[0], h100.levels[1]), granularity=h100.granularity)
    plan, free = best_plan(workload, inner), best_plan(workload, inner.with_free_tiles())
    assert plan.tiles["query_tile"] % 64 == plan.tiles["key_tile"] % 16 == 0
    assert free.tiles["last_rows"] % 64 and free.moved_words < plan.moved_words
    assert {c.plan for c in candidates(workload, inner) if c.plan and c.dataflow is plan.dataflow} >= {plan}
    single = Workload(n=5000, d=128, mask="causal", dtype="fp32")  # which tensor cores do not compute here
    assert best_plan(single, inner) == best_plan(single, inner.with_free_tiles())
    tiny = granular(Granularity(rows=64, keys=16), 1000)
    with pytest.raises(DoesNotFit, match=r"needs at least .* tiles of 64 rows and 16 keys, and --free-tiles plans"):
        best_plan(workload, tiny)
    with pytest.raises(DoesNotFit, match=r"attenio needs .* \(query_tile=64 key_tile=16\)"):
        best_plan(workload, tiny, dataflow="attenio")
    assert best_plan(workload, tiny.with_free_tiles()).peak_words <= 1000


def test_a_sweep_plans_machines_at_their_granularity() -> None:
    machines = [machine_named("h100"), machine_named("h100").with_free_tiles(), machine_named("a100")]
    lengths, masks = [100, 3000, 70_001], ["causal", "prefix:64:full"]
    grid = SweepGrid(n=lengths, d=[128], masks=masks, machines=machines, dtypes=["bf16"])
    for point, row in enumerate(sweep(grid).rows()):
        machine = machines[point % 3]
        assert row["moved_words"] == best_plan(grid.workload(point), machine).moved_words
