from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from ..laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    a, b = min(tiles["query_tile"], problem.n), min(tiles["key_tile"], problem.m)
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    visits, touched = problem.row_visits(b), problem.touched_rows
    rows = visits * (d + dv + 2 * w + 2 * d * w) - 2 * touched * d * w + touched * dv + n * d
    moved = (problem.touched_keys + m) * (d + dv) + g * rows
    return moved, b * (d + dv) * (1 + w) + a * (d + dv) + a * d * w + 3 * a * w + a * b * w + 1


@QUICK
@given(workloads(), st.data())
def test_key_stationary_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, key_tile=workload.keys + 1)
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.KEY_STATIONARY, tiles, problems, closed_form)
