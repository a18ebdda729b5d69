from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.masks import SharedPrefix
from attenio.masks.patterns import of_mask
from attenio.planning import (
    LevelTiles,
    best_plan,
    best_plan_for,
    candidates,
    candidates_for,
    nested_plan_with,
    plan_with,
    published_plan_for,
    training_candidates_for,
    training_plan_for,
)
from attenio.planning.best import Candidate
from attenio.planning.costs import cost, problems_of
from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
from attenio.planning.search.dataflow import best_tiles, contenders
from attenio.workload import Direction, Workload

from .strategies import all_tiles, costs, directed, workloads

QUICK = settings(max_examples=14, deadline=None, derandomize=True)
MANY = settings(max_examples=20, deadline=None, derandomize=True)


def best_or_none(workload: Workload, fast_words: int, dataflow: Dataflow | None = None) -> Plan | None:
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow)
    except DoesNotFit:
        return None


def applies(workload: Workload, dataflow: Dataflow) -> bool:
    return dataflow is not Dataflow.SPLIT_KEYS or problems_of(workload, dataflow).counts.most_keys > 1


@pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)
@QUICK
@given(data=st.data())
def test_no_tiles_of_a_dataflow_move_less_than_its_best_plan(dataflow: Dataflow, data: st.DataObject) -> None:
    # small where there are many tiles to combine
    sizes = {Dataflow.TILED_PRODUCTS: (3, 2), Dataflow.FUSED_VALUES: (5, 2), Dataflow.SPILLED_GRADIENTS: (5, 2)}
    sizes[Dataflow.RANK_ONE_TILING] = sizes[Dataflow.TWO_PASS] = (5, 2)
    sizes[Dataflow.KEPT_ROW_GRADIENTS] = sizes[Dataflow.QUERY_STATIONARY] = (5, 3)
    longest, widest = sizes.get(dataflow, (7, 3))
    workload = data.draw(workloads(longest=longest, widest=widest)).towards(dataflow.direction)
    if not applies(workload, dataflow):
        return
    if dataflow.direction is Direction.FORWARD and workload.value_dim <= workload.d:
        workload = replace(workload, values_in_keys=data.draw(st.booleans()))
    every = costs(workload, dataflow, all_tiles(workload, dataflow))
    smallest = min(found.peak_words for found in every)
    # around every memory at which something new fits, and in between
    for fast_words in {smallest - 1, *data.draw(st.lists(st.integers(smallest, smallest + 60), max_size=6))}:
        fits = [found.moved_words for found in every if found.peak_words <= fast_words]
        plan = best_or_none(workload, fast_words, dataflow)
        assert (plan.moved_words if plan else None) == min(fits, default=None)
        assert plan is None or plan.peak_words <= fast_words


@MANY
@given(workload=directed(longest=14, widest=6), fast_words=st.integers(1, 400))
def test_the_best_plan_is_the_best_of_all_dataflows(workload: Workload, fast_words: int) -> None:
    known = [dataflow for dataflow in Dataflow.towards(workload.direction) if applies(workload, dataflow)]
    each = [best_or_none(workload, fast_words, dataflow) for dataflow in known]
    words = [plan.moved_words for plan in each if plan is not None]
    best = best_or_none(workload, fast_words)
    assert (best.moved_words if best else None) == min(words, default=None)


@MANY
@given(workload=directed(longest=9, widest=3), fast_words=st.integers(1, 400))
def test_of_dataflows_that_move_the_same_words_the_preferred_one_is_the_best_plan(
    workload: Workload, fast_words: int
) -> None:
    best = best_or_none(workload, fast_words)
    if best is None:
        return
    for dataflow in contenders(workload.direction):
        plan = best_or_none(workload, fast_words, dataflow)
        if dataflow is Dataflow.STACKED_GROUPS and workload.group == 1 and not isinstance(workload.mask, SharedPrefix):
            continue  # there is nothing to stack
        if plan is not None and plan.moved_words == best.moved_words:
            assert best == plan
            return


@MANY
@given(workload=directed(longest=60, widest=9), fast_words=st.integers(3, 900), more=st.integers(1, 100))
def test_a_plan_never_loses_to_the_plan_of_a_smaller_memory(workload: Workload, fast_words: int, more: int) -> None:
    for dataflow in (None, *Dataflow.towards(workload.direction)):
        if dataflow is not None and not applies(workload, dataflow):
            continue
        small, large = best_or_none(workload, fast_words, dataflow), best_or_none(workload, fast_words + more, dataflow)
        if small is not None:
            assert large is not None
            assert large.moved_words <= small.moved_words


@MANY
@given(workload=directed(longest=60, widest=9), fast_words=st.integers(3, 900))
def test_a_plan_states_its_exact_cost_and_beats_no_bound(workload: Workload, fast_words: int) -> None:
    for candidate in candidates_for(workload, fast_words, units=4):
        plan = candidate.plan
        if plan is None:
            assert candidate.reason
            assert candidate.needed_words is None or candidate.needed_words > fast_words
            continue
        found = cost(workload, plan.dataflow, plan.tiles)
        assert (plan.moved_words, plan.peak_words) == (found.moved_words, found.peak_words)
        assert plan.peak_words <= plan.fast_words == fast_words
        assert plan.moved_words >= largest_ordinary(bounds_for(workload, fast_words)).words


@QUICK
@given(data=st.data())
def test_gradients_of_heads_that_share_keys_which_every_row_needs_are_those_of_one_head_with_all_rows(
    data: st.DataObject,
) -> None:
    rows, keys, d, value_dim, heads = (data.draw(st.integers(1, most)) for most in (9, 9, 6, 6, 4))
    widths = {"keys": keys, "d": d, "value_dim": value_dim, "batch": 2, "direction": "backward"}
    together = Workload(queries=rows, heads=3 * heads, kv_heads=3, **widths)
    alone = Workload(queries=heads * rows, heads=3, **widths)
    fast_words = data.draw(st.integers(1, 6 * (keys + 1) * (d + value_dim)))
    plans = [best_or_none(each, fast_words, None) for each in (together, alone)]
    found, same = ((plan.dataflow, plan.tiles, plan.moved_words, plan.peak_words) if plan else None for plan in plans)
    assert found == same


def test_heads_that_share_keys_take_a_third_off_the_words_where_their_positions_would_just_not_fit() -> None:
    n, d, heads = 1024, 128, 16
    plan = best_plan_for(Workload(n=n, d=d, heads=heads, kv_heads=1, direction="backward"), int(2.7 * n * d))
    assert plan.tiles["waiting_keys"] == pytest.approx(2 / 3 * n, rel=0.02)
    again = (heads * n - plan.tiles["kept_rows"]) * (2 * d + 3)
    assert plan.moved_words == 3 * heads * n * d + 4 * n * d + again < 2 / 3 * (8 * heads * n * d)


@pytest.mark.parametrize(
    ("queries", "heads", "fast_words", "less"), [(1, 16, 512, 9), (4, 8, 1536, 4), (32, 16, 8192, 1.3)]
)
def test_in_small_memories_keys_are_read_once_for_tiles_of_rows_of_many_heads(
    queries: int, heads: int, fast_words: int, less: float
) -> None:
    workload = Workload(queries=queries, keys=512, d=128, heads=heads, kv_heads=1)
    plan = best_plan_for(workload, fast_words)
    alone = best_plan_for(Workload(queries=heads * queries, keys=512, d=128), fast_words)
    assert (plan.dataflow, plan.tiles, plan.moved_words) == (alone.dataflow, alone.tiles, alone.moved_words)
    others = (best_or_none(workload, fast_words, each) for each in (Dataflow.ATTENIO, Dataflow.KEPT_KEYS))
    assert less * plan.moved_words < min(each.moved_words for each in others if each)


def test_a_form_that_moves_one_word_less_than_the_best_so_far_is_found() -> None:
    plan = best_plan_for(Workload(n=2, d=1, direction="backward"), 12)
    assert plan.moved_words == cost(plan.workload, "kept-row-gradients", plan.tiles).moved_words == 23


@QUICK
@given(workload=workloads(longest=7, widest=3), fast_words=st.integers(10, 120))
def test_among_equal_words_attenio_takes_the_smallest_query_tile_then_the_largest_key_tile(
    workload: Workload, fast_words: int
) -> None:
    plan = best_or_none(workload, fast_words, Dataflow.ATTENIO)
    if plan is None:
        return
    every = [(tiles, cost(workload, Dataflow.ATTENIO, tiles)) for tiles in all_tiles(workload, Dataflow.ATTENIO)]
    equals = [tiles for tiles, c in every if c.peak_words <= fast_words and c.moved_words == plan.moved_words]
    rows = min(tiles["query_tile"] for tiles in equals)
    if problems_of(workload, Dataflow.ATTENIO).floors.kinks is None:
        rows = plan.tiles["query_tile"]  # a block-sparse layout: any of the equals
    keys = max(tiles["key_tile"] for tiles in equals if tiles["query_tile"] == rows)
    assert plan.tiles == Tiles.of(query_tile=rows, key_tile=keys)


@MANY
@given(workload=directed(longest=20, widest=6), fast_words=st.integers(1, 400))
def test_dataflows_that_do_not_contend_never_move_least(workload: Workload, fast_words: int) -> None:
    best = best_or_none(workload, fast_words)
    if best is not None:
        assert best.dataflow in contenders(workload.direction)


@pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)
def test_infeasibility_names_the_least_memory_that_would_do(dataflow: Dataflow) -> None:
    workload = Workload(n=100, d=129, direction=dataflow.direction)
    with pytest.raises(DoesNotFit, match=f"{dataflow.value} needs at least") as caught:
        best_plan_for(workload, 2, dataflow=dataflow)
    needed = int(str(caught.value).split("needs at least ")[1].split(" word")[0].replace(",", ""))
    assert best_plan_for(workload, needed, dataflow=dataflow).peak_words == needed
    with pytest.raises(DoesNotFit):
        best_plan_for(workload, needed - 1, dataflow=dataflow)


def test_attenio_with_width_129_needs_391_words() -> None:
    expected = r"attenio needs at least 391 words of fast memory \(query_tile=1 key_tile=1\); the machine has 256: "
    with pytest.raises(DoesNotFit, match=expected):
        best_plan(Workload(n=64, d=129), Machine.with_fast_bytes(512), dataflow="attenio")


def test_when_nothing_fits_the_least_demanding_dataflow_is_named() -> None:
    with pytest.raises(DoesNotFit, match="rank-one-tiling, needs at least 3 words of fast memory; the machine has 2"):
        best_plan_for(Workload(n=64, d=64), 2)
    assert best_plan_for(Workload(n=64, d=64), 3).dataflow is Dataflow.RANK_ONE_TILING


def test_one_key_cannot_be_split() -> None:
    with pytest.raises(DoesNotFit, match="split-keys has nothing to split with one key"):
        best_plan_for(Workload(queries=4, keys=1, d=8), 1000, dataflow="split-keys")


def test_given_tiles_are_planned_or_refused_with_their_need() -> None:
    workload, machine = Workload(n=64, d=8), Machine.with_fast_bytes(2 * 100)
    plan = plan_with(workload, machine, "attenio", Tiles.of(query_tile=4, key_tile=1))
    assert (plan.rule, plan.moved_words, plan.peak_words) == (TileRule.GIVEN, 2 * 64 * 8 * (1 + 16), 88)
    with pytest.raises(DoesNotFit, match="query_tile=5 key_tile=1 needs 108 words of fast memory; the machine has 100"):
        plan_with(workload, machine, "attenio", Tiles.of(query_tile=5, key_tile=1))


def test_unknown_dataflows_list_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput, match=r"unknown dataflow 'flash'; did you mean flash-attention-2\? choose one of standard, flat"
    ):
        best_plan(Workload(n=64, d=8), Machine.with_fast_bytes(4096), dataflow="flash")


def test_a_dataflow_of_the_other_direction_is_refused_in_one_line() -> None:
    workload = Workload(n=64, d=8)
    with pytest.raises(InvalidInput, match=r"two-pass is for the backward pass .* forward one; use one of standard, "):
        best_plan_for(workload, 1000, dataflow="two-pass")
    with pytest.raises(InvalidInput, match=r"attenio is for the forward pass .* backward one; use one of key-stat"):
        published_plan_for(workload.towards("backward"), 1000, "attenio")
    for dataflow in (None, "attenio", "two-pass"):
        with pytest.raises(InvalidInput, match=r"a training step .* use training_plan"):
            best_plan_for(workload.towards("training"), 1000, dataflow=dataflow)


def names(found: tuple[Candidate, ...]) -> set[tuple[str, str]]:
    return {(candidate.dataflow.value, candidate.rule.value) for candidate in found}


def test_candidates_are_every_dataflow_that_applies_with_best_and_published_tiles() -> None:
    machine = Machine.with_fast_bytes(65536)
    single = names(candidates(Workload(n=128, d=32), machine))
    grouped = names(candidates(Workload(n=128, d=32, heads=4, kv_heads=1), machine))
    both = {"standard", "flat", "flash-attention-1", "flash-attention-2", "attenio", "square-tiling", "split-keys"}
    derived = {"rank-one-tiling", "score-stationary", "kept-keys", "kept-rows"}
    expected = {(name, rule) for name in both for rule in ("best", "published")} | {(name, "best") for name in derived}
    assert single == expected
    assert grouped == expected | {("stacked-groups", "best")}
    backward = names(candidates(Workload(n=128, d=32, direction="backward"), machine))
    gradients = {
        "key-stationary",
        "query-stationary",
        "two-pass",
        "tiled-products",
        "fused-values",
        "spilled-gradients",
        "kept-row-gradients",
    }
    assert backward == {(name, "best") for name in gradients} | {("key-stationary", "published")}
    decode = names(candidates(Workload(queries=1, keys=1, d=32), machine))
    assert decode == {pair for pair in expected if pair[0] != "split-keys"}


@pytest.mark.parametrize("mask", ["dense", "causal", "window:4096", "window:777:both"])
@pytest.mark.parametrize("fast_words", [64, 10**4, 10**6, 2**59])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_plans_of_the_longest_sequences_are_exact_integers(direction: str, mask: str, fast_words: int) -> None:
    shape = Workload(n=2**30, d=2**10, heads=2**10, kv_heads=2**5, batch=2**10, mask=mask)
    workload = shape.towards(direction)
    plan = best_plan_for(workload, fast_words)
    assert type(plan.moved_words) is int
    assert plan.moved_words >= workload.compulsory_words
    assert plan.peak_words <= fast_words
    if fast_words == 2**59 and direction == "forward":
        assert plan.moved_words == workload.compulsory_words


def test_a_layout_that_was_planned_before_is_planned_as_if_it_were_new() -> None:
    asked = [(heads, d, words) for words in (40, 700, 9000) for d in (8, 3) for heads in (1, 4)]

    def planned(forget: bool) -> list[Plan]:
        found = []
        for heads, d, words in asked:
            if forget:
                of_mask._kept.cache_clear()
            workload = Workload(n=150, d=d, heads=heads, kv_heads=1, mask="longformer:32:16:16")
            found += [each.plan for each in candidates_for(workload, words) if each.plan is not None]
            found.append(best_plan_for(workload, words))
        return found

    of_mask._kept.cache_clear()
    assert planned(forget=False) == planned(forget=True)


def test_doubling_the_memory_halves_the_leading_term() -> None:
    workload = Workload(n=2**20, d=64)
    words = [best_plan_for(workload, 2**k).moved_words - 2 * 2**20 * 64 for k in range(16, 22)]
    for large, small in pairwise(words):
        assert 1.9 < large / small < 2.1


@MANY
@given(workload=directed(longest=30, widest=6), fast_words=st.integers(3, 600))
def test_a_search_finds_the_words_that_its_tiles_cost(workload: Workload, fast_words: int) -> None:
    for dataflow in Dataflow.towards(workload.direction):
        found = best_tiles(problems_of(workload, dataflow), dataflow, fast_words)
        if found is not None:
            assert found.moved_words == cost(workload, dataflow, found.tiles).moved_words


TAKING_WORDS: dict[str, Any] = {
    "best": best_plan_for,
    "candidates": candidates_for,
    "published": lambda workload, words: published_plan_for(workload, words, "flash-attention-2"),
    "training": training_plan_for,
    "training candidates": training_candidates_for,
    "nested": lambda workload, words: nested_plan_with(
        workload, (words,), 1, (LevelTiles(query_tile=1, key_tile=1),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", [None, "64KB", -1, 4096.5, float("nan"), 10**30, True, int], ids=str)
@pytest.mark.parametrize("name", TAKING_WORDS)
def test_what_is_no_size_of_a_fast_memory_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(InvalidInput, match=r"fast memory \(words\) is"):
        TAKING_WORDS[name](Workload(n=64, d=8), wrong)


@pytest.mark.parametrize("name", TAKING_WORDS)
def test_words_are_planned_for_workloads_only(name: str) -> None:
    with pytest.raises(InvalidInput, match="workload is None; give a Workload"):
        TAKING_WORDS[name](None, 4096)


@pytest.mark.parametrize("call", [best_plan_for, candidates_for, training_plan_for, training_candidates_for])
def test_what_is_no_granularity_is_refused(call: Any) -> None:
    with pytest.raises(InvalidInput, match="granularity is 64; give a Granularity"):
        call(Workload(n=64, d=8), 4096, granularity=64)


def test_tiles_of_levels_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match="query_tile is 0"):
        LevelTiles(query_tile=0, key_tile=1)
    with pytest.raises(InvalidInput, match="tile of a level is 8; give LevelTiles"):
        nested_plan_with(Workload(n=64, d=8), (4096,), 1, (8,))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="tiles for 0 levels and words of 1"):
        nested_plan_with(Workload(n=64, d=8), (4096,), 1, ())
