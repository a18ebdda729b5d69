from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    n, dk, dv, w, g = problem.n, problem.dk, problem.dv, problem.w, problem.g
    p, h = min(tiles["query_tile"], n), min(tiles["head_tile"], g)
    b, z = min(tiles["key_tile"], problem.m), tiles["keys_per_split"]
    runs = problem.tile_rows(p, z)
    moved = -(-g // h) * problem.key_loads(p) * (dk + dv) + g * (runs * dk + 2 * runs * (dv + 2) * w + n * dv)
    rows = h * p
    return moved, max(rows * (dk + (dv + 3) * w) + rows * b * w + b * max(dk, dv), (2 * dv + 4) * w)


@QUICK
@given(workloads(), st.data())
def test_split_keys_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(
        data.draw,
        query_tile=2 * workload.queries + 1,
        head_tile=workload.group + 1,
        keys_per_split=workload.keys,
        key_tile=workload.keys + 1,
    )
    obeys_its_closed_form(workload, Dataflow.SPLIT_KEYS, tiles, counted(workload, stacked=True), closed_form)
