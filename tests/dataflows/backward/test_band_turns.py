"""Under causal masks and windows sums take turns with those of a tile."""

from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Causal, SlidingWindow
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.words.band_turns import (
    BandTurns,
    Sizes,
    Steps,
    best_band_turns,
    best_of_many,
    held_words,
    turns_floor,
    words_of_turns,
)
from attenio.planning.words.turn_rooms import NEVER
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form


def schedule(needs, tile, slots, own, hand, travel):
    """Turn by turn, from the tiles that every position needs: positions of tiles that come again, those that pass again
    and those that leave, and sums that travel; a sum moves ``travel`` times as many words as a position of a tile.
    """
    ends = [max(need) // tile for need in needs]
    met = [{key // tile for key in need} for need in needs]
    stay = max(map(max, needs)) + 1
    waiting, turns = list(range(len(needs) - own)), {}
    while waiting:
        turn = ends[waiting[0]]
        ending = [each for each in waiting if ends[each] == turn]
        later = waiting[len(ending) :]
        while turn and later and -(-len(later) // hand) > (len(waiting) - 1) // hand:
            ending.append(later.pop(0))
        group = [each for each in ending if min(met[each]) <= turn]
        waiting = waiting[len(group) :]
        turns[turn] = group

    def kept_at(turn):
        both = [each for each in range(len(needs)) if {turn - 1, turn} <= met[each]]
        room = slots - sum(min(met[each]) == turn for each in turns.get(turn, []))
        if turn < ends[0] and len(both) > room:
            both = both[(ends[0] - turn) % 2 :]
        return both[:room]

    again = travelling = 0
    for turn, group in turns.items():
        there = {turn - 1, turn}
        moves = turn in (ends[0], ends[0] + 1) and not any(map(min, needs)) and len(group) * travel < tile
        before = range(turn - 2, -1 if 2 * len(group) * travel < tile else 0, -2) if moves else ()
        if group[-1] < slots + turn - ends[0] or slots >= len(needs):
            assert all({*group} <= {*kept_at(each)} for each in before if each)
            there |= {other for each in before for other in (each - 1, each)}
            travelling += len(group) * len(before)
        others = set().union(*(met[each] for each in group)) - there
        again += sum(min(stay, (other + 1) * tile) - other * tile for other in others)
    first = turns.get(0, [])  # one after the other; those in slots stay
    passing, gone = max(0, len(first) - slots), set(first[: max(0, len(first) - slots)])
    for turn in range(1, -(-stay // tile)):
        both = [each for each in range(len(needs)) if {turn - 1, turn} <= met[each]]
        begin, kept = [each for each in turns.get(turn, []) if min(met[each]) == turn], kept_at(turn)
        assert {*turns.get(turn, [])} <= {*kept, *begin}
        passing += len(both) - len(kept)
        gone |= {*both} - {*kept}
    return again, passing, len(gone), travelling


def rows_and_room(problem, tiles):
    """Keys stay; rows of all heads pass, position by position."""
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    b, slots, own = min(tiles["key_tile"], m), min(tiles["masked_turn_rows"], g * n), min(tiles["own_row_sums"], g * n)
    needs = [np.flatnonzero(row).tolist() for row in problem.required for _ in range(g)]
    hand = max(1, min(slots, b * (d + dv) // d))
    again, passing, gone, travelling = schedule(needs, b, slots, own, hand, d * w / (d + dv))
    moved = g * n * (2 * d + 2 * dv + w) + 2 * m * (d + dv)
    moved += again * (d + dv) + passing * (d + dv + 2 * w) + gone * w + travelling * 2 * d * w
    held = b * (d + dv) + slots * (d + dv + 2 * w) + own * d * w + 2 * w + 1
    return moved, held + max(b * (d + dv) * w, d * w)


def keys_and_room(problem, tiles):
    """Rows stay, from the last one on."""
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    a, slots, own = min(tiles["query_tile"], n), min(tiles["masked_turn_keys"], m), min(tiles["own_key_sums"], m)
    needs = [np.flatnonzero(column).tolist() for column in problem.required[::-1, ::-1].T]
    hand = max(1, min(slots, a * g * d // (d + dv)))
    again, passing, _, travelling = schedule(needs, a, slots, own, hand, (d + dv) * w / (g * (d + dv + 3 * w)))
    moved = g * n * (2 * d + 2 * dv + w) + 2 * m * (d + dv)
    moved += g * again * (d + dv + 3 * w) + passing * (d + dv) + travelling * 2 * (d + dv) * w
    held = g * a * (d + dv + 2 * w) + slots * (d + dv) + own * (d + dv) * w + 2 * w + 1
    return moved, held + max(g * a * d * w, (d + dv) * w)


@pytest.mark.parametrize(
    ("dataflow", "names", "counts"),
    [
        (Dataflow.KEPT_ROW_GRADIENTS, ("masked_turn_rows", "key_tile", "own_row_sums"), rows_and_room),
        (Dataflow.QUERY_STATIONARY, ("masked_turn_keys", "query_tile", "own_key_sums"), keys_and_room),
    ],
)
@QUICK
@given(workload=grouped_workloads(), data=st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(
    dataflow, names, counts, workload, data
):
    queries = max(workload.queries, 2)
    keys = queries + data.draw(st.integers(0, 3))
    width = data.draw(st.integers(keys - queries + 1, keys))
    mask = data.draw(st.sampled_from([Causal(), SlidingWindow(width=width, causal=data.draw(st.booleans()))]))
    some = replace(workload, queries=queries, keys=keys, mask=mask).towards("backward")
    tile, slots = data.draw(st.integers(1, keys)), data.draw(st.integers(1, keys))
    most = keys * workload.group
    for own in range(data.draw(st.integers(0, most)), most + 1):  # until all the others have turns
        tiles = Tiles.of(**dict(zip(names, (slots, tile, own), strict=True)))
        try:
            cost(some, dataflow, tiles)
        except InvalidInput:
            continue
        break
    else:  # rows begin with several tiles under a window, or nothing turns
        return
    obeys_its_closed_form(some, dataflow, tiles, counted(some, by_group=True, heads_as_rows=True), counts)


@pytest.mark.parametrize(("queries", "keys", "fast_words"), [(2, 3, 53), (3, 3, 53), (8, 12, 230)])
def test_the_best_plan_of_few_rows_and_keys_turns_and_moves_what_it_says(queries, keys, fast_words):
    workload = Workload(queries=queries, keys=keys, d=8, mask="causal", direction="backward")
    plan = best_plan_for(workload, fast_words)
    assert not {"masked_turn_rows", "masked_turn_keys"}.isdisjoint(plan.tiles)
    assert plan.moved_words == execute(plan).moved_words


@pytest.mark.parametrize("mask", ["dense", "documents:2,2", "window:4"])
@pytest.mark.parametrize(
    ("dataflow", "names"),
    [
        ("kept-row-gradients", ("masked_turn_rows", "key_tile", "own_row_sums")),
        ("query-stationary", ("masked_turn_keys", "query_tile", "own_key_sums")),
    ],
)
def test_they_are_for_one_causal_or_window_mask(mask, dataflow, names):
    workload = Workload(queries=4, keys=8 if mask == "window:4" else 4, d=2, mask=mask, direction="backward")
    with pytest.raises(InvalidInput, match="are for one causal or window mask"):
        cost(workload, dataflow, Tiles.of(**dict.fromkeys(names, 1)))


def test_a_sum_without_a_turn_asks_for_a_place():
    workload = Workload(n=4, d=2, mask="causal", direction="backward")
    tiles = {"masked_turn_rows": 1, "key_tile": 2}
    with pytest.raises(InvalidInput, match=r"own_row_sums is 0, and some of the 4 others have no turn; give 1$"):
        cost(workload, "kept-row-gradients", Tiles.of(**tiles, own_row_sums=0))
    assert cost(workload, "kept-row-gradients", Tiles.of(**tiles, own_row_sums=1)).moved_words


def every_size(phase, steps, fast_words):
    """The fewest words of any sizes that fit."""
    come, stay = steps[:2]
    every = (Sizes(*each) for each in product(range(1, stay + 1), range(1, come + 1), range(come + 1)))
    fit = (sizes for sizes in every if held_words(phase, steps, sizes) <= fast_words)
    return min((words_of_turns(phase, steps, sizes) for sizes in fit), default=NEVER)


@pytest.mark.parametrize("across", [True, False])
def test_no_sizes_move_less_than_those_found_in_one_case_or_in_many(across):
    d = 3
    numbers = {"per_row": 2 * d, "own_sum": 2 * d, "per_slot": 2 * d + 2, "per_sum": d, "beside": 3}
    phase = BandTurns("tile", "slots", "sums", **numbers, loads=2 * d + 2, again=2 * d, once=1, across=across)
    shapes = [
        (come, come + right, left, right, fast)
        for come in (2, 5, 9)
        for right in (0, 2)
        for left in (2, 99)
        for fast in range(30, 300, 61)
        if right + 1 < come + right and left >= come + right - come
    ]
    *steps, fast = (np.array(column) for column in zip(*shapes, strict=True))
    words, sizes = best_of_many(phase, Steps(*steps), fast, np.full(len(shapes), NEVER))
    assert (words < NEVER).any()
    for place, (*numbers, fast_words) in enumerate(shapes):
        one, least = Steps(*numbers), every_size(phase, Steps(*numbers), fast_words)
        assert least == words[place]
        assert turns_floor(phase, one, fast_words) <= least or least == NEVER
        found = best_band_turns(phase, one, fast_words, least)
        assert found == (least, tuple(int(size[place]) for size in sizes))
        if found[1].tile:
            assert held_words(phase, one, found[1]) <= fast_words
            assert words_of_turns(phase, one, found[1]) == least


@pytest.mark.parametrize("across", [True, False])
def test_beyond_so_many_rows_or_keys_nothing_is_searched(across):
    phase = BandTurns("tile", "slots", "sums", 6, 6, 8, 3, 3, loads=8, again=6, once=1, across=across)
    assert turns_floor(phase, Steps(16, 16, 16, 0), 60) < inf
    assert turns_floor(phase, Steps(17, 16, 17, 0), 60) == inf
