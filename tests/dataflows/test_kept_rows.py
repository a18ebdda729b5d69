from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads
from .test_kept_keys import kept


def closed_form(is_band):
    def words(problem, tiles):
        b, slots = min(tiles["key_tile"], problem.m), min(tiles["kept_rows"], problem.n)
        n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
        visits = problem.row_visits(b) - kept(problem.required.T, b, slots, is_band=is_band)
        state = 2 * (dv + 2) * w
        moved = problem.touched_keys * (dk + dv) + n * dv + visits * (dk + state) - problem.touched_rows * state
        return moved, b * (dk + dv) + slots * (dk + (dv + 2) * w) + 2 * w

    return words


@QUICK
@given(workloads(), st.data())
def test_kept_rows_move_and_hold_what_their_closed_form_says_and_compute_attention(workload, data):
    tiles = sizes(data.draw, key_tile=workload.keys + 1, kept_rows=workload.queries + 1)
    is_band = not hasattr(workload.mask, "query_block")
    obeys_its_closed_form(workload, Dataflow.KEPT_ROWS, tiles, counted(workload), closed_form(is_band))
