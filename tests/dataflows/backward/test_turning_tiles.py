"""Tiles of keys of dense problems between which rows stay, as gradients of both give way to each other."""

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
from attenio.planning.sweeping.stacked_rows import best_of_many_turning
from attenio.planning.words.turn_rooms import TurnRoom
from attenio.planning.words.turning_tiles import TurningTiles, best_turning_tiles, held_words, turns_floor
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form
from .test_staying_sums import best_with_slots, compulsory


def words_and_room(problem, tiles):
    """Counted turn by turn."""
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    b, s, x = min(tiles["key_tile"], m), min(tiles["standing_sums"], n), min(tiles["exchanged_positions"], n // 2)
    row, key, dQ = g * (d + dv + 2 * w), d + dv, g * d * w
    moved, left = compulsory(problem), set()
    room = [s * dQ + b * key * (1 + w) + row + dQ]
    for turn, _ in enumerate(range(b, m, b)):
        stay = range(x) if turn % 2 == 0 else range(x, 2 * x)
        goes = set(range(n)).difference(stay)
        travels = sum(position < n - s for position in goes)
        moved += len(goes) * row + travels * 2 * dQ + len(goes - left) * g * w
        left |= goes
        without = sum(position < n - s for position in stay)
        values = max(b * key * w + x * (row - g * dv + g), b * (d + 1) * w + x * row)
        room.append(s * dQ + b * key + max(values, x * row + without * dQ))
    return moved, max(room) + 2 * w + 1


@QUICK
@given(grouped_workloads(), st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    tiles = Tiles.of(
        exchanged_positions=data.draw(st.integers(0, workload.queries // 2 + 1)),
        key_tile=data.draw(st.integers(1, workload.keys + 1)),
        standing_sums=data.draw(st.integers(0, workload.queries + 1)),
    )
    problems = counted(replace(workload, mask=Dense()), by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, words_and_room)


@pytest.mark.parametrize(("share", "less"), [(1, 0.96), (1.25, 0.93), (2, 0.95)])
def test_rows_that_stay_at_turns_move_less_than_slots(share, less):
    n, d = 256, 16
    workload = Workload(n=n, d=d, direction="backward")
    plan = best_plan_for(workload, int(share * n * d))
    assert "exchanged_positions" in plan.tiles
    assert plan.moved_words == execute(plan).moved_words < less * best_with_slots(workload, plan.fast_words)


@pytest.mark.parametrize("mask", ["causal", "window:2"])
def test_rows_stay_at_turns_where_every_row_needs_every_key(mask):
    tiles = Tiles.of(exchanged_positions=1, key_tile=2, standing_sums=0)
    with pytest.raises(InvalidInput, match="positions stay at turns where every row needs every key"):
        cost(Workload(n=4, d=2, mask=mask, direction="backward"), "kept-row-gradients", tiles)


def test_many_cases_are_searched_as_one_is():
    d, row = 3, 8
    room = TurnRoom(4 * d, 2 * d, d + 1, row, d + 3, per_sum=d, beside=3)
    phase = TurningTiles("tile", "sums", "exchanged", room, loads=row, travels=2 * d, once=1)
    shapes = [(n, m, fast) for n in (1, 2, 5, 24, 40) for m in (2, 6, 30) for fast in range(30, 700, 41)]
    rows, keys, fast = (np.array(column) for column in zip(*shapes, strict=True))
    words, sizes = best_of_many_turning(phase, (rows, keys), fast)
    for place, (n, m, fast_words) in enumerate(shapes):
        moved, each = best_turning_tiles(phase, (n, m), fast_words)
        assert moved == words[place]
        if each.tile:
            assert each == tuple(int(size[place]) for size in sizes)
            assert held_words(phase, (n, m), each) <= fast_words
            assert turns_floor(phase, (n, m), fast_words) <= moved
