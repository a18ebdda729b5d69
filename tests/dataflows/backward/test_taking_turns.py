"""Sums of some that pass are there when those of a tile are not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Dense
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.words.taking_turns import TakingTurns, best_of_many, best_taking_turns, turns_floor
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form


def of_group(sizes, first, travel, again):
    """Words of a group that is in hand at every second turn: it travels, or tiles come again; by hand, tile by tile."""
    count = len(sizes)
    if count == 1:
        return 0
    pairs = [(turn - 1, turn) for turn in range(first, count, 2)]
    alone = [tile for tile in range(count) if not any(tile in pair for pair in pairs)]
    if not pairs:
        return min(travel, again * sizes[1])
    travelling = travel * (len(pairs) - 1) + sum(min(travel, again * sizes[tile]) for tile in alone)
    return min(travelling, again * (sum(sizes) - sum(sizes[tile] for tile in pairs[0])))


def turns(stay, come, tiles, per_sum, own_sum, again):
    """Sizes of tiles, and words of both groups."""
    b, t, s = tiles
    sizes = [min(b, stay - start) for start in range(0, stay, b)]
    hand = max(1, min(b * own_sum // per_sum, t))
    first, second = min(come - s, hand), max(0, come - s - hand)
    assert second <= hand
    words = sum(of_group(sizes, start, 2 * per_sum * sums, again) for start, sums in ((1, first), (2, second)) if sums)
    return sizes, words


def of_rows(problem, tiles):
    n, m, d, dv, w = problem.g * problem.n, problem.m, problem.dk, problem.dv, problem.w
    b, t, s = min(tiles["key_tile"], m), min(tiles["turn_rows"], n), min(tiles["own_row_sums"], n)
    sizes, words = turns(m, n, (b, t, s), d * w, (d + dv) * w, d + dv)
    shuttling = len(sizes) - 1
    once = 0 if not shuttling else n - t if shuttling == 1 else min(n, 2 * (n - t))
    moved = n * (2 * d + 2 * dv + w) + 2 * m * (d + dv) + shuttling * (n - t) * (d + dv + 2 * w) + once * w + words
    return moved, b * (d + dv) + t * (d + dv + 2 * w) + s * d * w + max(b * (d + dv) * w, d * w) + 2 * w + 1


def of_keys(problem, tiles):
    n, m, d, dv, w = problem.g * problem.n, problem.m, problem.dk, problem.dv, problem.w
    a, t, s = min(tiles["stacked_rows"], n), min(tiles["turn_keys"], m), min(tiles["own_key_sums"], m)
    sizes, words = turns(n, m, (a, t, s), (d + dv) * w, d * w, d + dv + 3 * w)
    moved = n * (2 * d + 2 * dv + w) + 2 * m * (d + dv) + (len(sizes) - 1) * (m - t) * (d + dv) + words
    return moved, a * (d + dv + 2 * w) + t * (d + dv) + s * (d + dv) * w + max(a * d * w, (d + dv) * w) + 2 * w + 1


@st.composite
def tiles_for(draw, stay, come, *, per_sum, own_sum):
    """A tile, slots, and sums with places of their own so that the others are few enough."""
    tile, slots = draw(st.integers(1, stay + 1)), draw(st.integers(1, come + 1))
    hand = max(1, min(min(tile, stay) * own_sum // per_sum, slots, come))
    return tile, slots, draw(st.integers(max(0, come - 2 * hand), come + 1))


@QUICK
@given(grouped_workloads(), st.data())
def test_with_keys_that_stay_it_moves_and_holds_what_its_closed_form_says(workload, data):
    d, dv, rows = workload.d, workload.value_dim, workload.group * workload.queries
    b, t, s = data.draw(tiles_for(workload.keys, rows, per_sum=d, own_sum=d + dv))
    tiles = Tiles.of(turn_rows=t, key_tile=b, own_row_sums=s)
    problems = counted(replace(workload, mask=Dense()), by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, of_rows)


@QUICK
@given(grouped_workloads(), st.data())
def test_with_rows_that_stay_too(workload, data):
    d, dv, rows = workload.d, workload.value_dim, workload.group * workload.queries
    a, t, s = data.draw(tiles_for(rows, workload.keys, per_sum=d + dv, own_sum=d))
    tiles = Tiles.of(turn_keys=t, stacked_rows=a, own_key_sums=s)
    problems = counted(replace(workload, mask=Dense()), by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.QUERY_STATIONARY, tiles, problems, of_keys)


@pytest.mark.parametrize(
    ("rows", "keys", "tile", "fast_words", "words"),
    [(1, 4, "turn_rows", 53, 177), (2, 2, "turn_rows", 61, 149), (2, 2, "turn_keys", 69, 146), (3, 2, None, 75, 198)],
)
def test_small_problems_are_planned_with_it(rows, keys, tile, fast_words, words):
    plan = best_plan_for(Workload(queries=rows, keys=keys, d=8, direction="backward"), fast_words)
    assert plan.moved_words == execute(plan).moved_words == words
    assert {tile or "turn_keys"} <= set(plan.tiles)


@pytest.mark.parametrize(
    ("mask", "tiles", "complaint"),
    [
        ("causal", Tiles.of(turn_rows=1, key_tile=1, own_row_sums=3), "stacks rows where every row needs every key"),
        ("causal", Tiles.of(turn_keys=1, stacked_rows=1, own_key_sums=3), "stacks rows where every row needs"),
        (
            "dense",
            Tiles.of(turn_rows=1, key_tile=1, own_row_sums=1),
            "3 sums take turns, and 2 have room; make own_row",
        ),
        ("dense", Tiles.of(turn_keys=1, stacked_rows=2, own_key_sums=0), "4 sums take turns, and 2 have room; make"),
    ],
)
def test_two_groups_of_sums_take_turns_where_every_row_needs_every_key(mask, tiles, complaint):
    dataflow = "kept-row-gradients" if "turn_rows" in tiles else "query-stationary"
    with pytest.raises(InvalidInput, match=complaint):
        cost(Workload(n=4, d=2, mask=mask, direction="backward"), dataflow, tiles)


def test_many_cases_are_searched_as_one_is():
    d, dv, w = 3, 2, 1
    numbers = {"per_row": d + dv, "own_sum": (d + dv) * w, "per_slot": d + dv + 2 * w, "per_sum": d * w, "beside": 3}
    phase = TakingTurns("tile", "slots", "sums", **numbers, loads=d + dv + 2 * w, again=d + dv, once=w)
    shapes = [(stay, come, fast) for stay in (1, 2, 5, 7) for come in (1, 2, 3, 6) for fast in range(15, 90, 7)]
    stay, come, fast = (np.array(column) for column in zip(*shapes, strict=True))
    words, sizes = best_of_many(phase, (stay, come), fast)
    for place, (rows, keys, fast_words) in enumerate(shapes):
        each = best_taking_turns(phase, (rows, keys), fast_words, float("inf"))
        assert each == (words[place], tuple(int(size[place]) for size in sizes))
        assert turns_floor(phase, (rows, keys), fast_words) <= (each[0] if each[1].tile else float("inf"))
