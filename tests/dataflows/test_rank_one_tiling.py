from hypothesis import given
from hypothesis import strategies as st

from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


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


@QUICK
@given(workloads(), st.data())
def test_rank_one_tiling_without_statistics_moves_and_holds_what_its_closed_form_says(workload, data):
    tiles = sizes(
        data.draw,
        score_rows=workload.queries + 1,
        score_keys=workload.keys + 1,
        resident_keys=workload.keys + 1,
        output_rows=workload.queries + 1,
        output_columns=workload.value_dim + 1,
    )
    obeys_its_closed_form(workload, Dataflow.RANK_ONE_TILING, tiles, counted(workload), with_probabilities)


def test_masks_are_left_out_in_memories_of_three_words():
    workload = Workload(n=256, d=8, mask="window:4")
    plan = best_plan_for(workload, 3)
    assert plan.dataflow is Dataflow.RANK_ONE_TILING
    assert 20 * plan.moved_words < best_plan_for(workload, 3, dataflow="standard").moved_words


@QUICK
@given(workloads(), st.data())
def test_rank_one_tiling_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(
        data.draw,
        score_rows=workload.queries + 1,
        score_keys=workload.keys + 1,
        output_rows=workload.queries + 1,
        output_columns=workload.value_dim + 1,
    )
    obeys_its_closed_form(workload, Dataflow.RANK_ONE_TILING, tiles, counted(workload), closed_form)


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
    obeys_its_closed_form(workload, Dataflow.RANK_ONE_TILING, tiles, counted(workload), whole_queries)


def test_whole_queries_move_a_sixth_less_than_any_other_order_at_seven_tenths_of_d_squared():
    workload = Workload(n=8192, d=128)
    plan = best_plan_for(workload, 7 * 128**2 // 10)
    assert plan.dataflow is Dataflow.RANK_ONE_TILING and "query_tile" in plan.tiles
    assert plan.moved_words < 0.86 * best_plan_for(workload, 7 * 128**2 // 10, dataflow="attenio").moved_words
