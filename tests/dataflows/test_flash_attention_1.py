from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    a, b = min(tiles["query_tile"], problem.n), min(tiles["key_tile"], problem.m)
    n, dk, dv, w, g = problem.n, problem.dk, problem.dv, problem.w, problem.g
    visits = problem.row_visits(b)
    moved = problem.touched_keys * (dk + dv) + g * (
        visits * dk + 2 * (visits - problem.touched_rows) * (dv + 2) * w + n * dv
    )
    return moved, b * (dk + dv) + a * dk + a * (dv + 3) * w + a * b * w


@QUICK
@given(workloads(), st.data())
def test_flash_attention_1_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, key_tile=workload.keys + 1)
    problems = counted(workload, by_group=True)
    obeys_its_closed_form(workload, Dataflow.FLASH_ATTENTION_1, tiles, problems, closed_form)
