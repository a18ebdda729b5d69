from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .feature_laws import SMALL, bounded_workloads, feature_total, obeys_and_guarantees
from .laws import sizes


def closed_form(problem, tiles):
    t, k, dk, dv, w = tiles["degree"], min(tiles["key_tile"], problem.m), problem.dk, problem.dv, problem.w
    b = min(tiles["value_columns"], dv + 1)
    sweeps = -(-(dv + 1) // b)
    rows = sweeps * problem.touched_rows * dk + problem.n * dv
    if sweeps > 1:
        rows += sweeps * problem.touched_rows * w
    moved = problem.m * (sweeps * dk + dv) + problem.g * rows
    peak = feature_total(dk, t) * b * w + k * (dk + min(b, dv)) + dk + b * w + (t + 1) * w
    return moved, peak + (w if sweeps > 1 else 0)


@SMALL
@given(bounded_workloads(), st.data())
def test_value_columns_moves_what_its_closed_form_says_and_errs_no_more_than_it_guarantees(workload, data):
    tiles = sizes(data.draw, degree=3, value_columns=workload.value_dim + 2, key_tile=workload.keys + 1)
    obeys_and_guarantees(workload, Dataflow.VALUE_COLUMNS, tiles, closed_form)
