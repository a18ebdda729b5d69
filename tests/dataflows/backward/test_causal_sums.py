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
from attenio.planning.sweeping.rings import best_of_many
from attenio.planning.words.causal_sums import CausalSums, best_causal_sums, held_words, sums_floor
from attenio.planning.words.turn_rooms import TurnRoom
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form


def words_and_room(problem, tiles):
    """Counted turn by turn, from the matrix of required scores."""
    m, d, dv, w, g = problem.m, problem.dk, problem.dv, problem.w, problem.g
    last, sums = min(tiles["last_keys"], m), min(tiles["standing_sums"], problem.n)
    b = min(tiles["key_tile"], m - last)
    end = problem.required.sum(axis=1)  # every row begins with the first key
    turns = list(range(m - last, 0, -b))[::-1] if last < m else []
    left = [int((end > key).sum()) for key in turns]
    stay = [min(tiles["exchanged_positions"], b, rows) if m <= problem.n else 0 for rows in left]
    alone = not turns and not sums  # all rows have all of their keys when they come
    after_first = left[0] if turns else 0 if alone else problem.touched_rows  # they read outputs and log-sum-exps
    moved = g * (problem.touched_rows * (d + dv) + after_first * (dv + w) + problem.n * d)
    moved += (problem.touched_keys + m) * (d + dv)
    for rows, here in zip(left, stay, strict=True):
        moved += g * ((rows - here) * (d + dv + 2 * w) + max(0, rows - here - sums) * 2 * d * w)
    moved += g * (left[0] - stay[0]) * w if left else 0
    row, key, dq = g * (d + dv + 2 * w), d + dv, g * d * w
    room = [0]
    for rows, here in zip(left, stay, strict=True):
        room.append(sums * dq + b * key * (1 + w) + row + dq)
        if here:
            column = here * g  # of dO, that comes before one of dV leaves
            without = max(0, min(here, rows - sums))
            values = max(b * key * w + here * (row - g * dv) + column, b * (d + 1) * w + here * row)
            room.append(sums * dq + b * key + max(values, here * row + without * dq))
    if last:
        rows, here = min(problem.n, last), stay[-1] if stay else 0
        all_sums = rows * dq + key * w
        some_sums = (last - rows) * key + min(rows, here + sums) * dq + max(key * w, 0 if here else dq)
        room.append(rows * row + key + (some_sums if alone else min(all_sums, some_sums)))
    return moved, max(room) + 2 * w + 1


@QUICK
@given(grouped_workloads(), st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    queries, keys = max(workload.queries, 2), max(workload.keys, 2)
    some = replace(workload, queries=queries, keys=keys, mask=Causal())
    tiles = Tiles.of(
        last_keys=data.draw(st.integers(0, keys + 1)),
        key_tile=data.draw(st.integers(1, keys + 1)),
        standing_sums=data.draw(st.integers(0, queries + 1)),
        exchanged_positions=data.draw(st.integers(0, queries + 1)),
    )
    problems = counted(some, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(some.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, words_and_room)


@pytest.mark.parametrize(("share", "less"), [(0.75, 0.96), (1, 0.94), (1.5, 0.89), (2, 0.88), (2.5, 0.88)])
def test_positions_that_stay_at_turns_and_for_the_last_keys_move_less_than_slots(share, less):
    n, d = 256, 16
    workload = Workload(n=n, d=d, mask="causal", direction="backward")
    plan = best_plan_for(workload, int(share * n * d))
    assert "last_keys" in plan.tiles
    assert plan.moved_words == execute(plan).moved_words < less * best_with_slots(workload, plan.fast_words)


def test_everything_moves_once_as_soon_as_all_rows_fit_without_their_sums():
    n, d = 12, 16
    workload = Workload(n=n, d=d, mask="causal", direction="backward")
    room = n * (2 * d + 2) + 4 * d + 3
    plan = best_plan_for(workload, room)
    assert plan.moved_words == execute(plan).moved_words == 7 * n * d
    assert best_plan_for(workload, room - 1).moved_words > plan.moved_words


def best_with_slots(workload, fast_words):
    """The best tiles of keys that keep whole rows in slots, with their sums."""
    n, d = workload.queries, workload.d
    slots = {tile: (fast_words - 3 - tile * 4 * d) // (3 * d + 2) for tile in range(1, n + 1)}
    every = (Tiles.of(key_tile=tile, kept_rows=min(count, n)) for tile, count in slots.items() if count >= 1)
    return min(cost(workload, "kept-row-gradients", tiles).moved_words for tiles in every)


@pytest.mark.parametrize("mask", ["dense", "window:2", "documents:2,2"])
def test_the_last_keys_pass_rows_that_stay_under_one_causal_mask(mask):
    tiles = Tiles.of(last_keys=1, key_tile=1, standing_sums=1, exchanged_positions=1)
    with pytest.raises(InvalidInput, match="has last_keys, which pass rows that stay, under one causal mask"):
        cost(Workload(n=4, d=2, mask=mask, direction="backward"), "kept-row-gradients", tiles)


def test_many_cases_are_searched_as_one_is():
    d, w = 3, 1
    row, query = 2 * d + 2, d + 3
    room = TurnRoom(4 * d, 2 * d, d + 1, row, query, per_sum=d, beside=3)
    phase = CausalSums("tile", "last", "sums", "exchanged", room, loads=row, travels=2 * d, once=w, reads=d + w)
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
