import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .laws import QUICK, counted, obeys_its_closed_form, planned, sizes, workloads


def closed_form(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["score_rows"], n), min(tiles["score_keys"], problem.m)
    p, c = min(tiles["output_rows"], n), min(tiles["output_columns"], dv)
    scores = problem.tile_rows(a, b) * dk + problem.key_loads(a) * dk + problem.scores * w
    outputs = problem.scores * -(-dv // c) * w + problem.key_loads(p) * dv + n * dv
    return scores + outputs, max(a * b * w + a + 1, p * c * w + 3 * p * w + 1)


def whole_queries(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["query_tile"], n), min(tiles["key_tile"], problem.m)
    p, c = min(tiles["output_rows"], n), min(tiles["output_columns"], dv)
    scores = (problem.live_rows(a) + problem.key_loads(a)) * dk + problem.scores * w
    outputs = problem.scores * -(-dv // c) * w + problem.key_loads(p) * dv + n * dv
    return scores + outputs, max(a * dk + a * b * w + 1, p * c * w + 3 * p * w + 1)


def settled(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, p, q = (min(tiles[name], n) for name in ("score_rows", "output_rows", "later_rows"))
    b, c = min(tiles["score_keys"], problem.m), min(tiles["output_columns"], dv)
    later = -(-dv // c) - 1
    scores = problem.tile_rows(a, b) * dk + problem.key_loads(a) * dk + problem.scores * w
    first, peak = problem.scores * w + problem.key_loads(p) * c, max(a * b * w + a + 1, p * c * w + 3 * p * w + 1)
    if not later:
        return scores + first + n * dv, peak
    stored, read = 2 * n * w, n * w + later * (problem.scores * w + n * w)
    moved = scores + first + stored + read + problem.key_loads(q) * (dv - c) + n * dv
    return moved, max(peak, q * c * w + 2 * q * w + 1)


def with_probabilities(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["score_rows"], n), min(tiles["score_keys"], problem.m)
    p, c = min(tiles["output_rows"], n), min(tiles["output_columns"], dv)
    r = min(tiles["resident_keys"], problem.m)
    beyond = sum(max(0, int(row.sum()) - r) for row in problem.required)
    scores = problem.tile_rows(a, b) * dk + problem.key_loads(a) * dk + problem.scores * w
    outputs = problem.scores * -(-dv // c) * w + problem.key_loads(p) * dv + n * dv
    moved = scores + 2 * problem.scores * w + beyond * w + outputs
    return moved, max(a * b * w + a + 1, (r + 3) * w, p * c * w + p * w + 1)


def drawn(data, workload, **more):
    """Tiles of scores and of outputs, and of whatever else has so many at most."""
    return sizes(
        data.draw,
        score_rows=workload.queries + 1,
        score_keys=workload.keys + 1,
        output_rows=workload.queries + 1,
        output_columns=workload.value_dim + 1,
        **more,
    )


@QUICK
@given(workloads(), st.data())
def test_rank_one_tiling_without_statistics_moves_and_holds_what_its_closed_form_says(workload, data):
    tiles = drawn(data, workload, resident_keys=workload.keys + 1)
    obeys_its_closed_form(
        workload, Dataflow.RANK_ONE_TILING, tiles, counted(workload, heads_as_rows=True), with_probabilities
    )


def test_masks_are_left_out_in_memories_of_three_words():
    workload = Workload(n=256, d=8, mask="window:4")
    plan = best_plan_for(workload, 3)
    assert plan.dataflow is Dataflow.RANK_ONE_TILING
    assert 20 * plan.moved_words < best_plan_for(workload, 3, dataflow="standard").moved_words


@QUICK
@given(workloads(), st.data())
def test_rank_one_tiling_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = drawn(data, workload)
    obeys_its_closed_form(workload, Dataflow.RANK_ONE_TILING, tiles, counted(workload, heads_as_rows=True), closed_form)


@QUICK
@given(workloads(), st.data())
def test_later_columns_read_back_what_the_first_ones_settled(workload, data):
    tiles = drawn(data, workload, later_rows=workload.queries + 1)
    obeys_its_closed_form(workload, Dataflow.RANK_ONE_TILING, tiles, counted(workload, heads_as_rows=True), settled)


@QUICK
@given(workloads(), st.data())
def test_rank_one_tiling_with_whole_queries_moves_and_holds_what_its_closed_form_says(workload, data):
    tiles = sizes(
        data.draw,
        query_tile=workload.queries + 1,
        key_tile=workload.keys + 1,
        output_rows=workload.queries + 1,
        output_columns=workload.value_dim + 1,
    )
    obeys_its_closed_form(
        workload, Dataflow.RANK_ONE_TILING, tiles, counted(workload, heads_as_rows=True), whole_queries
    )


def test_whole_queries_move_a_sixth_less_than_any_other_order_at_seven_tenths_of_d_squared():
    workload = Workload(n=8192, d=128)
    plan = best_plan_for(workload, 7 * 128**2 // 10)
    assert plan.dataflow is Dataflow.RANK_ONE_TILING and "query_tile" in plan.tiles
    assert plan.moved_words < 0.86 * best_plan_for(workload, 7 * 128**2 // 10, dataflow="attenio").moved_words


def test_columns_that_find_maxima_and_sums_move_a_twenty_fifth_less_in_32_words():
    workload = Workload(n=8192, d=16)
    plan = best_plan_for(workload, 32)
    tiles = {"score_rows": 5, "score_keys": 5, "output_rows": 4, "output_columns": 4, "later_rows": 5}
    assert (plan.dataflow, plan.tiles) == (Dataflow.RANK_ONE_TILING, Tiles.of(**tiles))
    del tiles["later_rows"]
    assert plan.moved_words < 0.962 * cost(workload, "rank-one-tiling", Tiles.of(**tiles)).moved_words


def test_scores_beyond_what_a_log_sum_exp_tells_apart_are_averaged_in_every_column():
    n = 64
    ones, values = np.ones((1, 1, n, 1), dtype=np.float32), np.arange(4 * n, dtype=np.float32).reshape(1, 1, n, 4)
    workload = Workload(n=n, d=1, value_dim=4, scale=2.0**30)
    tiles = Tiles.of(score_rows=4, score_keys=4, output_rows=4, output_columns=1, later_rows=8)
    run = execute(planned(workload, Dataflow.RANK_ONE_TILING, tiles, 100), inputs=(ones, ones, values))
    assert np.allclose(run.output, values.mean(axis=2, keepdims=True), rtol=1e-3)


def test_last_columns_that_are_fewer_hold_what_the_closed_form_says():
    workload = Workload(n=9, d=3, value_dim=3)
    tiles = Tiles.of(query_tile=2, key_tile=9, output_rows=4, output_columns=2, later_rows=8)
    words, run = (
        cost(workload, Dataflow.RANK_ONE_TILING, tiles),
        execute(planned(workload, Dataflow.RANK_ONE_TILING, tiles, 99)),
    )
    assert (run.moved_words, run.peak_words) == (words.moved_words, words.peak_words)
