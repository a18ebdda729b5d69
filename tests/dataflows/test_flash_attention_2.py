from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    a, b = min(tiles["query_tile"], problem.n), min(tiles["key_tile"], problem.m)
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    moved = problem.live_rows(a) * dk + n * dv + problem.key_loads(a) * (dk + dv)
    return moved, a * dk + a * (dv + 3) * w + a * b * w + b * (dk + dv)


@QUICK
@given(workloads(), st.data())
def test_flash_attention_2_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, key_tile=workload.keys + 1)
    obeys_its_closed_form(workload, Dataflow.FLASH_ATTENTION_2, tiles, counted(workload), closed_form)
