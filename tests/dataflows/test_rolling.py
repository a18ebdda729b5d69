"""Rows, or keys, that come and go one by one: forward and backward, against counts from the matrix."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attenio import Machine
from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Causal, SlidingWindow
from attenio.planning import best_plan_for, plan_with
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .games import is_a_legal_game
from .laws import QUICK, counted, obeys_its_closed_form, workloads


@st.composite
def windows(draw):
    """Workloads with a window of which no row needs all keys, and no key all rows."""
    workload = draw(workloads())
    assume(min(workload.queries, workload.keys) > 1)
    width = draw(st.integers(1, workload.keys))
    some = replace(workload, mask=SlidingWindow(width=width, causal=draw(st.booleans())))
    required = counted(some)[0][0].required
    assume(not required[-1, 0] and not required[0, -1])
    return some


def causal_or_windows():
    """Rows of which the first does not need the last key."""
    causal = workloads().map(lambda workload: replace(workload, mask=Causal()))
    return st.one_of(windows(), causal.filter(lambda workload: not counted(workload)[0][0].required[0, -1]))


def reads(required, held, slots):
    """Turns of keys with ``held`` rows, less those for which slots have kept a key; the better of both orders."""
    total = sum(-(-int(needing.sum()) // held) for needing in required.T)
    return total - max(kept(each, held, slots) for each in (required, required[::-1, ::-1]))


def kept(required, held, slots):
    """Keys that slots have kept for their second turn where rows come in their order."""
    firsts = {}
    for needing in required.T:
        rows = np.flatnonzero(needing)
        if len(rows):
            firsts[int(rows[0])] = len(rows)  # of keys with the same first row, the last
    start, most = min(firsts), held if slots >= held else slots - 1
    return sum(needed > held and (first - start) % held < most for first, needed in firsts.items())


def forward_form(problem, tiles):
    a, slots = min(tiles["rolling_rows"], problem.n), min(tiles["kept_keys"], problem.m)
    n, d, dv, w = problem.n, problem.dk, problem.dv, problem.w
    moved = problem.touched_rows * d + n * dv + reads(problem.required, a, slots) * (d + dv)
    return moved, a * (d + (dv + 2) * w) + slots * (d + dv) + 2 * w


def backward_form(problem, tiles):
    b, slots = min(tiles["rolling_keys"], problem.m), min(tiles["kept_rows"], problem.n)
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    state = 2 * (d + 1) * w
    moved = (problem.touched_keys + m) * (d + dv)
    moved += g * (reads(problem.required.T, b, slots) * (d + dv + w + state))
    moved -= g * (problem.touched_rows * (state - dv) - n * d)
    # rows that meet all of their keys at once read neither their outputs nor a log-sum-exp
    at_once = sum(0 < int(needed.sum()) <= b for needed in problem.required)
    moved -= g * at_once * (dv + w)
    return moved, b * (d + dv) * (1 + w) + slots * g * (d + dv + (d + 2) * w) + 2 * w + 1


@QUICK
@given(causal_or_windows(), st.data())
def test_rolling_rows_move_and_hold_what_their_closed_form_says_and_compute_attention(workload, data):
    held, slots = data.draw(st.integers(1, workload.queries + 1)), data.draw(st.integers(1, workload.keys + 1))
    tiles = Tiles.of(rolling_rows=held, kept_keys=slots)
    obeys_its_closed_form(workload, Dataflow.KEPT_KEYS, tiles, counted(workload), forward_form)


@QUICK
@given(windows(), st.data())
def test_rolling_keys_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    held, slots = data.draw(st.integers(1, workload.keys + 1)), data.draw(st.integers(1, workload.queries + 1))
    tiles, problems = Tiles.of(rolling_keys=held, kept_rows=slots), counted(workload, by_group=True)
    backward = workload.towards("backward")
    obeys_its_closed_form(backward, Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, backward_form)


def form_with_sums(problem, tiles):
    """As without, but that visits which find the sums move them no more."""
    b, slots, sums = min(tiles["rolling_keys"], problem.m), min(tiles["kept_rows"], problem.n), tiles["waiting_sums"]
    (moved, peak), state = backward_form(problem, tiles), 2 * (problem.dk + 1) * problem.w
    read = reads(problem.required.T, b, slots)
    if slots < b:
        more = min(slots + sums - (slots + sums == b), problem.n)
        moved -= problem.g * state * (read - reads(problem.required.T, b, more))
    fewer = read - reads_beside_a_ring(problem, (b, slots, sums), read)
    moved -= problem.g * fewer * (problem.dk + problem.dv + problem.w)
    return moved, peak + sums * problem.g * (problem.dk + 1) * problem.w


def reads_beside_a_ring(problem, sizes, otherwise):
    """Visits of rows if the first ones stay until they are done, where that makes fewer of them."""
    (b, slots, _), required, first = sizes, problem.required.T, rows_in_a_ring(problem, sizes)
    each = max((required, required[::-1, ::-1]), key=lambda order: kept(order, b, slots))
    longest, leave = int(problem.required.sum(axis=1).max()), b - slots + 1
    if each[0].sum() != 1 or not b < longest <= 2 * b or min(required.shape) < 4 * b:
        return otherwise
    visits = [-(-int(needed.sum()) // b) for needed in each.T]
    stays = [number < first or (number - first) % b >= leave for number in range(len(visits))]
    return min(otherwise, sum(count - (count > 1 and stay) for count, stay in zip(visits, stays, strict=True)))


def rows_in_a_ring(problem, sizes):
    """The most first rows that may stay: in the steps until b keys are held all fits beside one row that passes."""
    (b, slots, sums), d, dv, w, g = sizes, problem.dk, problem.dv, problem.w, problem.g
    key, row, both = (d + dv) * (1 + w), g * (d + dv + (d + 2) * w), g * (d + 1) * w
    room, leave = b * key + (slots - 1) * row + sums * both, b - slots + 1
    for first in range(b - 1, -1, -1):
        held = [(b + first - 1) * row + key]  # the last row that comes beside keys that pass, but for its own room
        for keys in range(b + 1):
            left, done = min(keys, leave), max(0, keys - (b - first))
            held.append(keys * key + (b + first - done - left) * row + left * both)
        if max(held) <= room:
            return first if sums >= leave else 0
    return 0


@st.composite
def long_windows(draw):
    """Windows of which half are few keys, with slots and places for all sums that wait."""
    b = draw(st.integers(2, 5))
    n, slots = 4 * b + draw(st.integers(-1, 6)), draw(st.integers(1, b))
    width, d = draw(st.integers(b + 1, 2 * b)), draw(st.sampled_from((3, 8, 16)))
    mask = SlidingWindow(width=width, causal=draw(st.sampled_from((True, True, False))))
    sizes = {
        "d": d,
        "value_dim": draw(st.sampled_from((d, d, 2, 4 * d))),
        "heads": draw(st.integers(1, 2)),
        "kv_heads": 1,
    }
    dtype = draw(st.sampled_from(("fp32", "fp16")))
    queries = n + draw(st.sampled_from((0, 0, 2)))
    workload = Workload(queries=queries, keys=n, mask=mask, dtype=dtype, direction="backward", **sizes)
    return workload, Tiles.of(rolling_keys=b, kept_rows=slots, waiting_sums=b - slots + draw(st.integers(0, 2)))


@QUICK
@given(long_windows())
def test_the_first_rows_stay_where_that_fits_and_are_moved_and_held_as_their_closed_form_says(case):
    workload, tiles = case
    problems = counted(workload, by_group=True)
    obeys_its_closed_form(workload, Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, form_with_sums)


def test_the_first_rows_of_a_window_come_once_at_three_words_for_each_of_its_keys_and_columns():
    n, d, window = 256, 32, 64
    workload = Workload(n=n, d=d, mask=f"window:{window}", direction="backward")
    plan = best_plan_for(workload, 3 * d * window)
    b, slots, sums = (plan.tiles[name] for name in ("rolling_keys", "kept_rows", "waiting_sums"))
    assert (b, slots + sums) == (window // 2, window // 2 + 1)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    # seven halves of a window come twice, of which some rows leave; the first half but for a few does not
    (problem, _), *_ = counted(workload, by_group=True)
    leave, first = b - slots + 1, rows_in_a_ring(problem, (b, slots, sums))
    once = 7 * n * d + (n - b) * (d + 1)
    away = 6 * leave + min(leave, b - first)
    assert first > slots
    assert plan.moved_words == once + away * (2 * d + 1)


@QUICK
@given(windows(), st.data())
def test_sums_that_wait_are_moved_and_held_as_their_closed_form_says(workload, data):
    held, slots = data.draw(st.integers(1, workload.keys + 1)), data.draw(st.integers(1, workload.queries + 1))
    tiles = Tiles.of(rolling_keys=held, kept_rows=slots, waiting_sums=data.draw(st.integers(0, workload.queries + 1)))
    backward, problems = workload.towards("backward"), counted(workload, by_group=True)
    obeys_its_closed_form(backward, Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, form_with_sums)


def form_with_key_sums(problem, tiles):
    """Rows that roll, head after head: a key's first visit loads no sums, and its last one stores gradients."""
    a, slots, sums = (
        min(tiles["rolling_rows"], problem.n),
        min(tiles["kept_keys"], problem.m),
        tiles["waiting_key_sums"],
    )
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    read = found = reads(problem.required, a, slots)
    if slots < a:
        found = reads(problem.required, a, min(slots + sums - (slots + sums == a), m))
    moved = g * (problem.touched_rows * (d + 2 * dv + w) + n * d + read * (d + dv) + found * 2 * w * (d + dv))
    moved += (m - 2 * w * problem.touched_keys) * (d + dv)
    return moved, a * (d + dv + (d + 2) * w) + slots * (d + dv) * (1 + w) + sums * (d + dv) * w + 2 * w + 1


@QUICK
@given(windows(), st.data())
def test_rolling_rows_and_sums_of_keys_that_wait_compute_the_gradient(workload, data):
    held, slots = data.draw(st.integers(1, workload.queries + 1)), data.draw(st.integers(1, workload.keys + 1))
    sums = data.draw(st.integers(0, workload.keys + 1))
    tiles = Tiles.of(rolling_rows=held, kept_keys=slots, waiting_key_sums=sums)
    backward, problems = workload.towards("backward"), counted(workload, by_group=True)
    obeys_its_closed_form(backward, Dataflow.QUERY_STATIONARY, tiles, problems, form_with_key_sums)


def test_half_of_a_window_in_rows_moves_less_than_half_of_it_in_keys_where_these_just_do_not_fit():
    n, d, window = 512, 16, 64
    workload = Workload(n=n, d=d, mask=f"window:{window}", direction="backward")
    plan = best_plan_for(workload, 2 * d * window)
    assert plan.dataflow is Dataflow.QUERY_STATIONARY and plan.tiles["rolling_rows"] == window // 2
    assert execute(plan).moved_words == plan.moved_words
    keys = best_plan_for(workload, 2 * d * window, dataflow="kept-row-gradients")
    assert plan.moved_words < 0.95 * keys.moved_words


def test_sums_wait_before_rows_stay_and_save_two_words_for_one():
    n, d, window = 512, 16, 64
    workload = Workload(n=n, d=d, mask=f"window:{window}", direction="backward")
    room = 32 * 4 * d + 3 * d + 2 + 3  # half of the keys of a window, and a row that passes
    words = []
    for sums in (0, 8, 16, 24):
        plan = best_plan_for(workload, room + sums * (d + 1), dataflow="kept-row-gradients")
        if sums:
            assert plan.tiles == Tiles.of(rolling_keys=32, kept_rows=1, waiting_sums=sums)
        assert execute(plan).moved_words == plan.moved_words
        words.append(plan.moved_words)
    often, last = divmod(n - 32, 32)  # rows that need more than half of the keys of a window, the last ones first
    spared = [often * sums + min(last, sums) for sums in (0, 8, 16, 24)]
    assert [(words[0] - each) / (2 * (d + 1)) for each in words] == spared


@QUICK
@given(causal_or_windows(), st.data())
def test_a_run_with_rolling_rows_is_a_legal_game_at_its_counted_words(workload, data):
    required = counted(workload)[0][0].required
    assume(required.any(axis=1).all() and workload.heads * workload.batch <= 2)
    tiles = Tiles.of(rolling_rows=data.draw(st.integers(1, 4)), kept_keys=data.draw(st.integers(1, 4)))
    is_a_legal_game(workload, Dataflow.KEPT_KEYS, tiles)


def test_half_of_a_window_in_rows_reads_keys_twice_and_more_slots_read_the_fewer_of_them_again():
    n, d, window = 512, 16, 64
    workload, words = Workload(n=n, d=d, mask=f"window:{window}"), []
    for slots in (1, 9, 17, 25):
        plan = best_plan_for(workload, 32 * (2 * d + 2) + slots * 2 * d + 2)
        assert plan.tiles == Tiles.of(rolling_rows=32, kept_keys=slots)
        assert execute(plan).moved_words == plan.moved_words
        words.append(plan.moved_words)
    twice = n - 32  # the last rows see the last keys at once
    assert [(each - 4 * n * d) // (2 * d) for each in words] == [twice * (32 - kept) // 32 for kept in (0, 8, 16, 24)]


def test_causal_rows_that_roll_read_each_key_once_for_every_tile_of_rows_after_it():
    n, d, held = 512, 16, 72
    plan = best_plan_for(Workload(n=n, d=d, mask="causal"), held * (2 * d + 2) + 2 * d + 2)
    assert plan.tiles == Tiles.of(rolling_rows=held, kept_keys=1)
    assert execute(plan).moved_words == plan.moved_words == 2 * d * (n + sum(-(-(n - j) // held) for j in range(n)))


def test_rolling_tiles_are_for_masks_whose_ends_move():
    machine = Machine.with_fast_bytes(4096)
    for flow, tiles, masks in (
        ("kept-keys", Tiles.of(rolling_rows=4, kept_keys=1), ("dense",)),
        ("kept-row-gradients", Tiles.of(rolling_keys=4, kept_rows=1), ("causal", "dense", "window:64")),
        ("query-stationary", Tiles.of(rolling_rows=4, kept_keys=1, waiting_key_sums=0), ("causal", "dense")),
    ):
        for mask in masks:
            workload = Workload(n=64, d=8, mask=mask, direction="forward" if flow == "kept-keys" else "backward")
            with pytest.raises(InvalidInput, match=rf"has rolling_.* the mask is {mask}"):
                plan_with(workload, machine, flow, tiles)
