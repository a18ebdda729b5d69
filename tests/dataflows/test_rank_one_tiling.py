from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["score_rows"], n), min(tiles["score_keys"], problem.m)
    p, c = min(tiles["output_rows"], n), min(tiles["output_columns"], dv)
    scores = problem.tile_rows(a, b) * dk + problem.key_loads(a) * dk + problem.scores * w
    outputs = problem.scores * -(-dv // c) * w + problem.key_loads(p) * dv + n * dv
    return scores + 2 * n * w + outputs, max(a * b * w + a + 1 + a * w, p * c * w + 3 * p * w + 1)


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
