"""Rows of all heads that share keys stacked into tiles, with groups of value columns inside."""

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
from .laws import QUICK, counted, is_as_one_by_one, obeys_its_closed_form, planned, sizes, workloads


def closed_form(problem, tiles):
    m, dk, dv, w, rows = problem.m, problem.dk, problem.dv, problem.w, problem.g * problem.n
    a, s, c = min(tiles["stacked_rows"], rows), min(tiles["kept_keys"], m), min(tiles["value_columns"], dv)
    count, groups = -(-rows // a), -(-dv // c)
    over_tiles, over_groups = (count - 1) * s, count * (groups - 1) * (m if s == m else s - 1)
    moved = rows * (dk + dv)
    if groups == 1:
        moved += (count * m - over_tiles) * (dk + dv)
    else:
        moved += (count * groups * m - over_tiles - over_groups) * dk + count * m * dv
    slots = s * (dk + dv) if groups == 1 else s * dk + c
    return moved, a * (dk + (c + 2) * w) + slots + 2 * w


def some_tiles(draw, workload):
    rows = workload.group * workload.queries + 1
    return sizes(draw, stacked_rows=rows, kept_keys=workload.keys + 1, value_columns=workload.value_dim + 1)


@QUICK
@given(workloads(), st.data())
def test_stacked_rows_move_and_hold_what_their_closed_form_says_and_compute_attention(workload, data):
    dense = replace(workload, mask=Dense())
    problems = counted(dense, by_group=True)
    obeys_its_closed_form(dense, Dataflow.KEPT_KEYS, some_tiles(data.draw, dense), problems, closed_form)


@QUICK
@given(workloads(), st.data())
def test_a_run_with_stacked_rows_is_a_legal_game_at_its_counted_words(workload, data):
    dense = replace(workload, mask=Dense())
    assume(dense.heads * dense.batch * dense.queries * dense.keys <= 120)
    is_a_legal_game(dense, Dataflow.KEPT_KEYS, some_tiles(data.draw, dense))


@pytest.mark.parametrize(("keys", "rows", "slots"), [(41, 15, 13), (4, 1, 1), (5, 4, 2)])
@pytest.mark.parametrize("columns", [3, 7])
def test_keys_taken_in_together_move_the_words_and_give_the_outputs_of_those_taken_in_one_by_one(
    keys, rows, slots, columns
):
    workload = Workload(queries=19, keys=keys, d=5, value_dim=7, heads=2, kv_heads=1, dtype="fp32")
    tiles = Tiles.of(stacked_rows=rows, kept_keys=slots, value_columns=columns)
    plan = planned(workload, Dataflow.KEPT_KEYS, tiles, cost(workload, "kept-keys", tiles).peak_words)
    is_as_one_by_one(plan)


def test_wide_values_in_groups_inside_a_tile_load_queries_once():
    n, d, dv = 256, 16, 32
    workload = Workload(n=n, d=d, value_dim=dv)
    plan = best_plan_for(workload, n * d * 19 // 20)
    assert plan.tiles["stacked_rows"] == n // 2 and plan.tiles["value_columns"] < dv
    run = execute(plan)
    assert run.trace.loads["Q"] == n * d and run.moved_words == plan.moved_words
    outside = cost(workload, "kept-keys", Tiles.of(query_tile=n // 2, kept_keys=1, value_columns=11))
    assert plan.moved_words < 0.86 * outside.moved_words


def test_two_groups_of_columns_beat_two_passes_of_whole_rows_once_all_queries_and_half_of_the_outputs_fit():
    n, d = 256, 32
    for share in (1.65, 1.8, 1.95):
        plan = best_plan_for(Workload(n=n, d=d), int(share * n * d))
        assert (plan.tiles["stacked_rows"], plan.tiles["value_columns"]) == (n, d // 2)
        # queries, outputs and values once, keys twice but for those that are kept
        assert plan.moved_words == 5 * n * d - (plan.tiles["kept_keys"] - 1) * d


@pytest.mark.parametrize(("n", "d", "dv"), [(256, 16, 64), (64, 8, 40)])
def test_a_group_for_every_column_reads_keys_once_where_each_has_a_slot(n, d, dv):
    workload, held = Workload(n=n, d=d, value_dim=dv), n // 2 * (d + 3) + n * d + 3
    plan = best_plan_for(workload, held)
    assert plan.tiles == Tiles.of(stacked_rows=n // 2, kept_keys=n, value_columns=1)
    run = execute(plan)
    assert run.moved_words == plan.moved_words == n * (d + dv) + n * d + 2 * n * dv and run.peak_words <= held
    eight = cost(workload, "kept-keys", Tiles.of(stacked_rows=n // 2, kept_keys=n - n // 4, value_columns=8))
    assert plan.moved_words < eight.moved_words


def test_few_rows_beside_many_keys_have_few_groups():
    workload = Workload(queries=16, keys=512, d=8, value_dim=64)
    plan = best_plan_for(workload, 700)
    groups = -(-64 // plan.tiles["value_columns"])
    assert plan.tiles["stacked_rows"] == 16 and 1 < groups < 4
    eight = cost(workload, "kept-keys", Tiles.of(stacked_rows=16, kept_keys=39, value_columns=13))
    assert eight.peak_words <= 700 and execute(plan).moved_words == plan.moved_words < 0.87 * eight.moved_words


def test_heads_that_share_keys_pass_them_back_and_forth_together():
    queries, keys, d, heads = 16, 64, 8, 4
    workload = Workload(queries=queries, keys=keys, d=d, heads=heads, kv_heads=1)
    held, slots = heads * queries // 2, 8
    tiles, room = Tiles.of(stacked_rows=held, kept_keys=slots, value_columns=d), held * (2 * d + 2) + slots * 2 * d + 2
    run = execute(planned(workload, Dataflow.KEPT_KEYS, tiles, room))
    assert run.moved_words == 2 * d * (heads * queries + 2 * keys - slots)
    assert best_plan_for(workload, room).moved_words <= run.moved_words


def test_rows_are_stacked_where_every_row_needs_every_key():
    tiles = Tiles.of(stacked_rows=2, kept_keys=1, value_columns=2)
    with pytest.raises(InvalidInput, match="stacks rows where every row needs every key, and the mask is causal"):
        cost(Workload(n=4, d=2, mask="causal"), "kept-keys", tiles)
