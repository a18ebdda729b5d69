"""Tiles of keys under a causal mask until all rows that are left fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Causal
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.words.causal_sums import CausalSums, best_causal_sums, best_of_many, held_words, sums_floor
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form


def words_and_room(problem, tiles):
    """Counted turn by turn, from the matrix of required scores."""
    m, d, dv, w, g = problem.m, problem.dk, problem.dv, problem.w, problem.g
    b, last, sums = min(tiles["key_tile"], m), min(tiles["last_keys"], m), min(tiles["standing_sums"], problem.n)
    end = problem.required.sum(axis=1)  # every row begins with the first key
    turns = [min(start + b, m - last) for start in range(0, m - last, b)]
    left = [int((end > key).sum()) for key in turns]
    remaining = left[-1] if left else problem.touched_rows
    stay = min(tiles["standing_rows"], remaining)
    moved = g * (problem.touched_rows * (d + 2 * dv + w) + problem.n * d) + (problem.touched_keys + m) * (d + dv)
    moved += g * sum((rows - stay) * (d + dv + 2 * w) + max(0, rows - sums) * 2 * d * w for rows in left)
    moved += g * (left[0] - stay) * w if left else 0
    row = g * (d + dv + 2 * w)
    in_tiles = b * (d + dv) * (1 + w) + (stay + 1) * row + (sums + 1) * g * d * w if left else 0
    at_end = (d + dv) * (1 + w) + min(problem.n, last) * (row + g * d * w) if last else 0
    return moved, max(in_tiles, at_end) + 2 * w + 1


@QUICK
@given(grouped_workloads(), st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    queries, keys = max(workload.queries, 2), max(workload.keys, 2)
    some = replace(workload, queries=queries, keys=keys, mask=Causal())
    tiles = Tiles.of(
        last_keys=data.draw(st.integers(0, keys + 1)),
        key_tile=data.draw(st.integers(1, keys + 1)),
        standing_sums=data.draw(st.integers(0, queries + 1)),
        standing_rows=data.draw(st.integers(0, queries + 1)),
    )
    problems = counted(some, by_group=True)
    obeys_its_closed_form(some.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, words_and_room)


@pytest.mark.parametrize(("share", "less"), [(1.25, 0.975), (1.5, 0.97), (2, 0.955), (2.5, 0.97)])
def test_sums_that_stay_until_all_rows_do_move_less_than_slots(share, less):
    n, d = 256, 16
    workload = Workload(n=n, d=d, mask="causal", direction="backward")
    plan = best_plan_for(workload, int(share * n * d))
    assert "last_keys" in plan.tiles
    assert plan.moved_words == execute(plan).moved_words < less * best_with_slots(workload, plan.fast_words)


def best_with_slots(workload, fast_words):
    """The best tiles of keys that keep whole rows in slots, with their sums."""
    n, d = workload.queries, workload.d
    slots = {tile: (fast_words - 3 - tile * 4 * d) // (3 * d + 2) for tile in range(1, n + 1)}
    every = (Tiles.of(key_tile=tile, kept_rows=min(count, n)) for tile, count in slots.items() if count >= 1)
    return min(cost(workload, "kept-row-gradients", tiles).moved_words for tiles in every)


@pytest.mark.parametrize("mask", ["dense", "window:2", "documents:2,2"])
def test_the_last_keys_pass_rows_that_stay_under_one_causal_mask(mask):
    tiles = Tiles.of(last_keys=1, key_tile=1, standing_sums=1, standing_rows=1)
    with pytest.raises(InvalidInput, match="the last keys pass rows that stay under one causal mask"):
        cost(Workload(n=4, d=2, mask=mask, direction="backward"), "kept-row-gradients", tiles)


def test_many_cases_are_searched_as_one_is():
    d, w = 3, 1
    numbers = {"per_key": 4 * d, "per_row": 2 * d + 2, "per_sum": d, "beside": 3, "loads": 2 * d + 2, "travels": 2 * d}
    phase = CausalSums("tile", "last", "sums", "rows", **numbers, once=w)
    shapes = [(n, m, fast) for n in (2, 5, 24, 40) for m in (2, 6, 30) for fast in range(30, 700, 41)]
    rows, keys, fast = (np.array(column) for column in zip(*shapes, strict=True))
    words, sizes = best_of_many(phase, (rows, keys), fast)
    for place, (n, m, fast_words) in enumerate(shapes):
        moved, each = best_causal_sums(phase, (n, m), fast_words)
        assert moved == words[place]
        if each.tile:
            assert each == tuple(int(size[place]) for size in sizes)
            assert held_words(phase, (n, m), each) <= fast_words
            assert sums_floor(phase, (n, m), fast_words) <= moved
