from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b, c = min(tiles["query_tile"], n), min(tiles["key_tile"], problem.m), tiles["depth_tile"]
    scores = problem.tile_rows(a, b) * dk + problem.key_loads(a) * dk + problem.scores * w
    outputs = problem.scores * -(-dv // c) * w + problem.key_loads(a) * dv + n * dv
    first = a * b * w + (a + b) * min(c, dk) + a * w
    second = a * min(c, dv) * w + a * b * w + b * min(c, dv) + 2 * a * w
    return scores + 2 * n * w + outputs, max(first, second)


@QUICK
@given(workloads(), st.data())
def test_square_tiling_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, key_tile=workload.keys + 1, depth_tile=6)
    obeys_its_closed_form(workload, Dataflow.SQUARE_TILING, tiles, counted(workload), closed_form)
