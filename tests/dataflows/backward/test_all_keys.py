"""All keys stay under a causal mask while rows pass, and their gradients come tile by tile."""

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
from attenio.planning.words.all_keys import AllKeys, Sizes, all_keys_floor, best_all_keys, held_words, words_of_tiles
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form


def words_and_room(problem, tiles):
    """Counted tile by tile, from the matrix of required scores."""
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    b, s = min(tiles["first_keys"], m), min(tiles["standing_rows"], g * n)
    end = problem.required.sum(axis=1)  # every row begins with the first key
    done, old, room = m, [], []  # keys that leave, the last tile first; rows that have met earlier tiles
    while done:
        before = next(f for f in range(done + 1) if f + b + f // w >= done)
        old.append(g * int((end > m - before).sum()))
        room.append((m - before) * (d + dv) + (done - before) * (d + dv) * w)
        done = before
    again = [max(0, rows - s) for rows in old]
    moved = g * (problem.touched_rows * (d + dv) + n * d) + (problem.touched_keys + m) * (d + dv)
    moved += sum(again) * (d + dv + 2 * w) + max(again) * w
    return moved, max(room) + (s + 1) * (d + dv + 2 * w) + (d + 2) * w


@QUICK
@given(grouped_workloads(), st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    queries, keys = max(workload.queries, 2), max(workload.keys, 2)
    some = replace(workload, queries=queries, keys=keys, mask=Causal())
    tiles = Tiles.of(
        first_keys=data.draw(st.integers(1, keys + 1)),
        standing_rows=data.draw(st.integers(0, workload.group * queries + 1)),
    )
    problems = counted(some, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(some.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, words_and_room)


@pytest.mark.parametrize(("share", "times"), [(2.2, 0.9), (2.7, 0.75), (3.3, 0.8), (3.9, 0.9)])
def test_heads_that_share_keys_move_less_while_all_keys_stay(share, times):
    n, d, heads = 256, 16, 8
    workload = Workload(n=n, d=d, heads=heads, kv_heads=1, mask="causal", direction="backward")
    plan = best_plan_for(workload, int(share * n * d))
    assert "first_keys" in plan.tiles
    assert plan.moved_words == execute(plan).moved_words < times * with_slots(workload, plan.fast_words)


def with_slots(workload, fast_words):
    """The best tiles of keys that stay with their gradients, beside one slot."""
    d, g = workload.d, workload.group
    every = (Tiles.of(key_tile=tile, kept_rows=1) for tile in range(1, (fast_words - g * 4 * d) // (4 * d)))
    found = (cost(workload, "kept-row-gradients", tiles) for tiles in every)
    return min(each.moved_words for each in found if each.peak_words <= fast_words)


@pytest.mark.parametrize("mask", ["dense", "window:2", "documents:2,2"])
def test_all_keys_stay_while_rows_pass_under_one_causal_mask(mask):
    tiles = Tiles.of(first_keys=1, standing_rows=0)
    with pytest.raises(InvalidInput, match="has first_keys of all keys that stay under one causal mask"):
        cost(Workload(n=4, d=2, mask=mask, direction="backward"), "kept-row-gradients", tiles)


def test_many_cases_are_searched_as_one_is_and_nothing_moves_less():
    d = 3
    for group, w in ((1, 1), (2, 1), (5, 2)):
        row = 2 * d + 2 * w
        phase = AllKeys("keys", "rows", 2 * d, 2 * d * w, row, row + (d + 2) * w, loads=row, once=w, group=group)
        shapes = [(n, m, fast) for n in (2, 9) for m in (2, 6, 20) for fast in range(30, 500, 41)]
        rows, keys, fast = (np.array(column) for column in zip(*shapes, strict=True))
        words, sizes = best_all_keys(phase, (rows, keys), fast)
        for place, (n, m, fast_words) in enumerate(shapes):
            moved, each = best_all_keys(phase, (n, m), fast_words)
            assert moved == words[place]
            assert each == tuple(int(size[place]) for size in sizes)
            every = (Sizes(b, s) for b in range(1, m + 1) for s in range(group * n + 1))
            fits = [some for some in every if held_words(phase, (n, m), some) <= fast_words]
            assert (each.keys >= 1) == bool(fits)
            if fits:
                assert moved == min(words_of_tiles(phase, (n, m), some) for some in fits)
                assert all_keys_floor(phase, (n, m), fast_words) <= moved
