"""Outputs that give way to values, and values to outputs, at the turn from one tile of dense rows to the next."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Dense
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .games import is_a_legal_game
from .laws import QUICK, counted, is_as_one_by_one, is_right, obeys_its_closed_form, planned, sizes, total, workloads


def closed_form(problem, tiles):
    m, d, dv, w, rows = problem.m, problem.dk, problem.dv, problem.w, problem.g * problem.n
    a, s = min(tiles["stacked_rows"], rows), min(tiles["exchanged_keys"], m // 2)
    count = -(-rows // a)
    held = [a * (d + (dv + 2) * w) + d + dv]
    if count > 1 and s:
        held += [a * (d + (dv + 2) * w) + s * (d + 1) + 2 * w, a * (d + 3 * w) + s * (d + dv) + 2 * w]
    return rows * (d + dv) + (count * m - (count - 1) * s) * (d + dv), max(held) + 2 * w


def some_tiles(draw, workload):
    return sizes(draw, stacked_rows=workload.group * workload.queries + 1, exchanged_keys=workload.keys + 1)


@QUICK
@given(workloads(), st.data())
def test_keys_at_turns_move_and_hold_what_their_closed_form_says_and_compute_attention(workload, data):
    dense = replace(workload, mask=Dense())
    problems, tiles = counted(dense, by_group=True), some_tiles(data.draw, dense)
    obeys_its_closed_form(dense, Dataflow.KEPT_KEYS, tiles, problems, closed_form)
    each = cost(dense, "kept-keys", tiles)
    assert (each.moved_words, each.peak_words) == total(problems, closed_form, tiles)


@QUICK
@given(workloads(), st.data())
def test_a_run_with_keys_at_turns_is_a_legal_game_at_its_counted_words(workload, data):
    dense = replace(workload, mask=Dense())
    assume(dense.heads * dense.batch * dense.queries * dense.keys <= 120)
    is_a_legal_game(dense, Dataflow.KEPT_KEYS, some_tiles(data.draw, dense))


def test_half_of_the_rows_and_half_of_the_keys_meet_in_the_room_of_three_halves():
    n, d = 96, 16
    half = n // 2
    room = half * (d + 3) + half * 2 * d + 4
    tiles = Tiles.of(stacked_rows=half, exchanged_keys=half)
    run = execute(planned(Workload(n=n, d=d), Dataflow.KEPT_KEYS, tiles, room))
    assert (run.moved_words, run.peak_words) == (5 * n * d, room)
    assert room < 1.6 * n * d


@pytest.mark.parametrize(("share", "most"), [(0.65, 0.97), (1.05, 0.93), (1.25, 0.975), (1.5, 0.94)])
def test_plans_keep_more_keys_at_turns_where_outputs_and_values_give_way_to_each_other(share, most):
    n, d = 128, 16
    workload = Workload(n=n, d=d)
    plan = best_plan_for(workload, int(share * n * d))
    assert "exchanged_keys" in plan.tiles and execute(plan).moved_words == plan.moved_words
    tile, slots = plan.tiles["stacked_rows"], plan.tiles["exchanged_keys"]
    beside = (plan.fast_words - tile * (2 * d + 2) - 2) // (2 * d)  # slots for whole keys beside whole rows
    assert beside < slots
    whole = cost(workload, "kept-keys", Tiles.of(query_tile=tile, kept_keys=max(beside, 1), value_columns=d))
    assert plan.moved_words <= most * whole.moved_words


def test_rows_that_take_their_turn_together_give_the_outputs_of_those_one_by_one():
    workload = Workload(queries=13, keys=17, d=5, value_dim=7, heads=2, kv_heads=1, dtype="fp32")
    tiles = Tiles.of(stacked_rows=6, exchanged_keys=5)
    plan = planned(workload, Dataflow.KEPT_KEYS, tiles, cost(workload, "kept-keys", tiles).peak_words)
    is_as_one_by_one(plan)


@pytest.mark.parametrize("features", [{"kv_bits": 8}, {"sinks": True}, {"softcap": 20.0}])
def test_keys_of_fewer_bits_sinks_and_caps_are_for_keys_at_turns_too(features):
    workload = Workload(queries=10, keys=21, d=8, value_dim=4, heads=2, kv_heads=1, **features)
    tiles = Tiles.of(stacked_rows=7, exchanged_keys=5)
    each = cost(workload, "kept-keys", tiles)
    run = execute(planned(workload, Dataflow.KEPT_KEYS, tiles, each.peak_words))
    assert (run.moved_words, run.peak_words) == (each.moved_words, each.peak_words)
    is_right(run)


def test_keys_at_turns_are_for_dense_rows_and_values_apart_from_keys():
    tiles = Tiles.of(stacked_rows=2, exchanged_keys=1)
    with pytest.raises(InvalidInput, match="stacks rows where every row needs every key, and the mask is causal"):
        cost(Workload(n=8, d=2, mask="causal"), "kept-keys", tiles)
    with pytest.raises(InvalidInput, match="values that are part of their keys cannot give way"):
        cost(Workload(n=8, d=2, values_in_keys=True), "kept-keys", tiles)
