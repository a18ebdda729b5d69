"""Values that give way to outputs where tiles of causal rows meet keys that were kept."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Causal
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .games import is_a_legal_game
from .laws import QUICK, counted, is_as_one_by_one, is_right, obeys_its_closed_form, planned, sizes, workloads


@st.composite
def causal(draw):
    """Several causal rows, each with a key of its own."""
    workload = replace(draw(workloads()), mask=Causal())
    assume(1 < workload.queries <= workload.keys)
    return workload


def some_tiles(draw, workload):
    rows = workload.queries + 1
    return sizes(draw, exchanged_rows=rows, exchanges=4, last_rows=rows, kept_keys=workload.keys + 1)


def closed_form(problem, tiles):
    n, d, dv, w, required = problem.n, problem.dk, problem.dv, problem.w, problem.required
    b, a, exchanges = tiles["exchanged_rows"], tiles["last_rows"], tiles["exchanges"]
    ends = [n]
    while ends[0] - a > min(exchanges, (n - 1) // b) * b:
        ends.insert(0, ends[0] - a)
    first = len(ends)
    while ends[0] - b > 0 and len(ends) - first < exchanges:
        ends.insert(0, ends[0] - b)
    needed = [int(required[:end].any(axis=0).sum()) for end in ends]
    row, slot, query = d + (dv + 2) * w, d + dv, d + 3 * w
    read, held = needed[0], [needed[0] * slot + row]
    own = needed[0]
    for number in range(1, len(ends)):
        rows, kept = ends[number] - ends[number - 1], 0
        if number <= len(ends) - first:
            kept = min(tiles["kept_keys"], own)
            held += [kept * slot + rows * query, kept * (d + 1) + rows * row]
        read, own = read + needed[number] - kept, needed[number] - needed[number - 1]
        held.append(rows * row + slot)
    return n * (d + dv) + read * slot, max(held) + 2 * w


@QUICK
@given(causal(), st.data())
def test_rows_that_exchange_move_and_hold_what_their_closed_form_says_and_compute_attention(workload, data):
    tiles = some_tiles(data.draw, workload)
    obeys_its_closed_form(workload, Dataflow.KEPT_KEYS, tiles, counted(workload), closed_form)
    each, peak = cost(workload, "kept-keys", tiles), [closed_form(p, tiles)[1] for p, _ in counted(workload)]
    assert each.peak_words == max(peak)
    assert each.moved_words == sum(closed_form(p, tiles)[0] * times for p, times in counted(workload))


@QUICK
@given(causal(), st.data())
def test_a_run_with_exchanges_is_a_legal_game_at_its_counted_words(workload, data):
    assume(workload.heads * workload.batch * workload.queries * workload.keys <= 150)
    is_a_legal_game(workload, Dataflow.KEPT_KEYS, some_tiles(data.draw, workload))


def test_half_more_than_all_queries_in_fast_memory_is_enough_to_move_every_word_once_under_a_causal_mask():
    n, d = 96, 16
    half = n // 2
    room = half * (d + 3) + half * 2 * d + 2  # queries with one column of outputs and statistics, keys and values
    tiles = Tiles.of(exchanged_rows=half, exchanges=1, last_rows=half, kept_keys=half)
    run = execute(planned(Workload(n=n, d=d, mask="causal"), Dataflow.KEPT_KEYS, tiles, room))
    assert run.moved_words == run.plan.workload.compulsory_words == 4 * n * d
    assert run.peak_words == room < 1.6 * n * d


@pytest.mark.parametrize(("share", "most"), [(1.0, 4.9), (1.25, 4.45), (1.5, 4.15), (1.65, 4.0)])
def test_plans_exchange_values_for_outputs_from_about_as_many_words_as_queries_have(share, most):
    n, d = 128, 16
    plan = best_plan_for(Workload(n=n, d=d, mask="causal"), int(share * n * d))
    assert "exchanged_rows" in plan.tiles and plan.moved_words <= most * n * d
    assert execute(plan).moved_words == plan.moved_words


def test_keys_that_pass_together_give_the_outputs_of_those_that_pass_one_by_one():
    workload = Workload(queries=23, keys=25, d=5, value_dim=7, heads=2, kv_heads=1, dtype="fp32", mask="causal")
    tiles = Tiles.of(exchanged_rows=6, exchanges=2, last_rows=4, kept_keys=5)
    plan = planned(workload, Dataflow.KEPT_KEYS, tiles, cost(workload, "kept-keys", tiles).peak_words)
    is_as_one_by_one(plan)


@pytest.mark.parametrize("features", [{"kv_bits": 8}, {"sinks": True}, {"softcap": 20.0}])
def test_keys_of_fewer_bits_sinks_and_caps_are_for_rows_that_exchange_too(features):
    workload = Workload(queries=20, keys=21, d=8, value_dim=4, mask="causal", **features)
    tiles = Tiles.of(exchanged_rows=7, exchanges=2, last_rows=7, kept_keys=5)
    each = cost(workload, "kept-keys", tiles)
    run = execute(planned(workload, Dataflow.KEPT_KEYS, tiles, each.peak_words))
    assert (run.moved_words, run.peak_words) == (each.moved_words, each.peak_words)
    is_right(run)


def test_exchanges_are_for_causal_rows_with_a_key_each_and_values_apart_from_keys():
    tiles = Tiles.of(exchanged_rows=2, exchanges=1, last_rows=2, kept_keys=1)
    for workload in (
        Workload(n=8, d=2),
        Workload(n=8, d=2, mask="window:3"),
        Workload(queries=8, keys=7, d=2, mask="causal"),
    ):
        with pytest.raises(InvalidInput, match="values give way to outputs under one causal mask with a key for every"):
            cost(workload, "kept-keys", tiles)
    with pytest.raises(InvalidInput, match="values that are part of their keys cannot give way"):
        cost(Workload(n=8, d=2, mask="causal", values_in_keys=True), "kept-keys", tiles)
