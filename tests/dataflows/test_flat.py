from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow, Tiles

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def resident_form(problem, tiles):
    a = min(tiles["query_tile"], problem.n)
    n, m, dk, dv, w = problem.n, problem.m, problem.dk, problem.dv, problem.w
    moved = problem.live_rows(a) * dk + n * dv + problem.key_loads(a) * (dk + dv)
    return moved, a * (dk + m * w + dv * w) + max(dk, dv, 2 * w)


def spilling_form(problem, tiles):
    r = min(tiles["resident_keys"], problem.m)
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    moved = problem.touched_rows * dk + n * dv + problem.scores * (dk + dv) + 2 * w * problem.scores_beyond(r)
    return moved, dk + dv * w + r * w + max(dk, dv) + 3 * w


@QUICK
@given(workloads(), st.data())
def test_flat_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1)
    obeys_its_closed_form(workload, Dataflow.FLAT, tiles, counted(workload), resident_form)


@QUICK
@given(workloads(), st.data())
def test_rows_that_do_not_fit_spill_exactly_the_scores_beyond_the_resident_ones(workload, data):
    tiles = Tiles.of(query_tile=1, resident_keys=data.draw(st.integers(0, workload.keys - 1)))
    obeys_its_closed_form(workload, Dataflow.FLAT, tiles, counted(workload), spilling_form)
