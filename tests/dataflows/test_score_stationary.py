from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["query_tile"], n), min(tiles["key_tile"], problem.m)
    runs = problem.tile_rows(a, b)
    moved = runs * dk + problem.key_loads(a) * (dk + dv) + 2 * w * dv * (runs - problem.live_rows(a)) + n * dv
    return moved, a * b * w + 3 * a * w + max(a + 1, a * w + 1)


def resident_rows(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["resident_rows"], n), min(tiles["key_tile"], problem.m)
    moved = problem.live_rows(a) * dk + problem.key_loads(a) * (dk + dv) + n * dv
    return moved, a * (dk + (dv + 2) * w) + a * b * w + 1


@QUICK
@given(workloads(), st.data())
def test_with_resident_rows_it_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, resident_rows=workload.queries + 1, key_tile=workload.keys + 1)
    obeys_its_closed_form(workload, Dataflow.SCORE_STATIONARY, tiles, counted(workload), resident_rows)


@QUICK
@given(workloads(), st.data())
def test_score_stationary_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, key_tile=workload.keys + 1)
    obeys_its_closed_form(workload, Dataflow.SCORE_STATIONARY, tiles, counted(workload), closed_form)
