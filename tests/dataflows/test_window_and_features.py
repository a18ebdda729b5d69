from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .feature_laws import SMALL, bounded_workloads, feature_total, obeys_and_guarantees
from .laws import planned, sizes


def closed_form(problem, tiles):
    t, window = tiles["degree"], min(tiles["window"], problem.m)
    dk, dv, w = problem.dk, problem.dv, problem.w
    moved = problem.m * (dk + dv) + problem.g * (problem.touched_rows * dk + problem.n * dv)
    state = feature_total(dk, t) * (dv + 1) * w
    return moved, state + window * (dk + dv) + dk + (dv + 1) * w + (t + 2) * w


@SMALL
@given(bounded_workloads(causal=True).filter(lambda w: not all(p.is_dense for p, _ in w.separate_patterns)), st.data())
def test_window_and_features_moves_what_its_closed_form_says_and_errs_no_more_than_it_guarantees(workload, data):
    tiles = sizes(data.draw, degree=3, window=workload.keys + 1, key_tile=1)
    tiles = Tiles.of(**{**tiles, "key_tile": data.draw(st.integers(1, tiles["window"]))})
    obeys_and_guarantees(workload, Dataflow.WINDOW_AND_FEATURES, tiles, closed_form)


def test_a_wider_window_errs_less_and_one_of_all_keys_only_rounds():
    workload = Workload(n=64, d=4, mask="causal", dtype="fp32", tolerance=0.5, entry_bound=0.8)
    runs = [
        execute(planned(workload, Dataflow.WINDOW_AND_FEATURES, Tiles.of(degree=1, window=window, key_tile=1), 10**4))
        for window in (1, 16, 64)
    ]
    assert runs[0].max_abs_error > runs[1].max_abs_error > 1e3 * runs[2].max_abs_error
    assert runs[0].guaranteed_error > runs[1].guaranteed_error > runs[2].guaranteed_error
