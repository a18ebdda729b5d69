"""A last tile with more rows than others, whose outputs it holds in more groups of columns."""

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


def stacked(problem, rows, tile, slots, width):
    """Words of the keys that tiles of some rows read, and words held."""
    m, d, dv, w = problem.m, problem.dk, problem.dv, problem.w
    tiles, slots, groups = -(-rows // tile), min(slots, m), -(-dv // width)
    width = min(width, dv)
    if groups == 1:
        read = (tiles * m - (tiles - 1) * slots) * (d + dv)
        return read, tile * (d + (dv + 2) * w) + slots * (d + dv) + 2 * w
    keys = tiles * groups * m - (tiles - 1) * slots - tiles * (groups - 1) * (slots - 1 if slots < m else m)
    return keys * d + tiles * m * dv, tile * (d + (width + 2) * w) + slots * d + width + 2 * w


def closed_form(problem, tiles):
    rows = problem.g * problem.n
    a, s = min(tiles["stacked_rows"], rows), tiles["kept_keys"]
    first = max(-(-rows // a) - 2, 0) * a
    parts = [stacked(problem, rows - first, rows - first, s, tiles["last_columns"])]
    if first:
        of_first, of_last = (-(-problem.dv // tiles[name]) for name in ("value_columns", "last_columns"))
        parts.append(stacked(problem, first, a, problem.m if of_first > of_last else 1, tiles["value_columns"]))
    words, held = zip(*parts, strict=True)
    return rows * (problem.dk + problem.dv) + sum(words), max(held)


def some_tiles(draw, workload):
    most = {"stacked_rows": workload.group * workload.queries + 1, "kept_keys": workload.keys + 1}
    return sizes(draw, **most, value_columns=workload.value_dim + 1, last_columns=workload.value_dim + 1)


@QUICK
@given(workloads(), st.data())
def test_a_last_tile_in_groups_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    dense = replace(workload, mask=Dense())
    problems, tiles = counted(dense, by_group=True), some_tiles(data.draw, dense)
    obeys_its_closed_form(dense, Dataflow.KEPT_KEYS, tiles, problems, closed_form)
    each = cost(dense, "kept-keys", tiles)
    assert (each.moved_words, each.peak_words) == total(problems, closed_form, tiles)


@QUICK
@given(workloads(), st.data())
def test_a_run_with_a_last_tile_in_groups_is_a_legal_game_at_its_counted_words(workload, data):
    dense = replace(workload, mask=Dense())
    assume(dense.heads * dense.batch * dense.queries * dense.keys <= 120)
    is_a_legal_game(dense, Dataflow.KEPT_KEYS, some_tiles(data.draw, dense))


def test_two_groups_hold_the_rows_that_are_left_over_for_half_of_what_a_tile_more_reads():
    n, d, tile = 100, 16, 24
    room = tile * (2 * d + 2) + 2 * d + 2
    tiles = Tiles.of(stacked_rows=tile, kept_keys=1, value_columns=d, last_columns=d // 2)
    run = execute(planned(Workload(n=n, d=d), Dataflow.KEPT_KEYS, tiles, room))
    whole = cost(Workload(n=n, d=d), "kept-keys", Tiles.of(query_tile=tile, kept_keys=1, value_columns=d))
    assert whole.moved_words - run.moved_words == n * d - 2 * 2 * d
    best = best_plan_for(Workload(n=n, d=d), room)
    assert set(best.tiles) == set(tiles) and best.moved_words <= run.moved_words


@pytest.mark.parametrize(
    ("value_dim", "share", "most"), [(64, 1 / 4, 0.96), (64, 1 / 2, 0.97), (32, 1 / 4, 0.98), (128, 1 / 2, 0.9)]
)
def test_plans_end_with_a_tile_in_groups_where_rows_do_not_come_in_whole_tiles(value_dim, share, most):
    n, d = 2048, 64
    workload = Workload(n=n, d=d, value_dim=value_dim)
    plan = best_plan_for(workload, int(share * n * d))
    assert "last_columns" in plan.tiles and execute(plan).moved_words == plan.moved_words
    tiles = -(-n // plan.tiles["stacked_rows"])
    alike = Tiles.of(stacked_rows=-(-n // tiles), kept_keys=1, value_columns=plan.tiles["value_columns"])
    assert plan.moved_words <= most * cost(workload, "kept-keys", alike).moved_words


def test_rows_that_take_their_turn_together_give_the_outputs_of_those_one_by_one():
    workload = Workload(queries=13, keys=17, d=5, value_dim=7, heads=2, kv_heads=1, dtype="fp32")
    tiles = Tiles.of(stacked_rows=6, kept_keys=5, value_columns=4, last_columns=3)
    plan = planned(workload, Dataflow.KEPT_KEYS, tiles, cost(workload, "kept-keys", tiles).peak_words)
    is_as_one_by_one(plan)


@pytest.mark.parametrize("features", [{"kv_bits": 8}, {"sinks": True}, {"softcap": 20.0}])
def test_keys_of_fewer_bits_sinks_and_caps_are_for_a_last_tile_in_groups_too(features):
    workload = Workload(queries=10, keys=21, d=8, value_dim=8, heads=2, kv_heads=1, **features)
    tiles = Tiles.of(stacked_rows=6, kept_keys=5, value_columns=8, last_columns=4)
    each = cost(workload, "kept-keys", tiles)
    run = execute(planned(workload, Dataflow.KEPT_KEYS, tiles, each.peak_words))
    assert (run.moved_words, run.peak_words) == (each.moved_words, each.peak_words)
    is_right(run)


def test_a_run_counts_its_progress_to_the_end():
    workload, seen = Workload(queries=10, keys=7, d=4, heads=2, kv_heads=1), []
    tiles = Tiles.of(stacked_rows=6, kept_keys=2, value_columns=4, last_columns=2)
    plan = planned(workload, Dataflow.KEPT_KEYS, tiles, cost(workload, "kept-keys", tiles).peak_words)
    execute(plan, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]


def test_a_last_tile_in_groups_is_for_dense_rows_and_whole_words():
    tiles = Tiles.of(stacked_rows=2, kept_keys=1, value_columns=2, last_columns=1)
    with pytest.raises(InvalidInput, match="stacks rows where every row needs every key, and the mask is causal"):
        cost(Workload(n=8, d=2, mask="causal"), "kept-keys", tiles)
    with pytest.raises(InvalidInput, match="last_columns is 1, and 2 entries share a word"):
        cost(Workload(n=8, d=2, kv_bits=8), "kept-keys", tiles)
