from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    n, dk, dv, w, g = problem.n, problem.dk, problem.dv, problem.w, problem.g
    p, h, b = min(tiles["query_tile"], n), min(tiles["head_tile"], g), min(tiles["key_tile"], problem.m)
    moved = g * (problem.live_rows(p) * dk + n * dv) + -(-g // h) * problem.key_loads(p) * (dk + dv)
    rows = h * p
    return moved, rows * (dk + (dv + 3) * w) + rows * b * w + b * max(dk, dv)


@QUICK
@given(workloads(), st.data())
def test_stacked_groups_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(
        data.draw,
        query_tile=2 * workload.queries + 1,
        head_tile=workload.group + 1,
        key_tile=workload.keys + 1,
    )
    obeys_its_closed_form(workload, Dataflow.STACKED_GROUPS, tiles, counted(workload, stacked=True), closed_form)
