from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from ..feature_laws import SMALL, bounded_workloads, feature_total, obeys_and_guarantees
from ..laws import planned


def closed_form(problem, tiles):
    t, states, saved = tiles["degree"], tiles["resident_states"], tiles.get("saved_state", 0)
    dk, dv, w = problem.dk, problem.dv, problem.w
    state = feature_total(dk, t) * (dv + 1) * w
    rows = problem.touched_rows * (dk + dv) + problem.n * dk
    if states == 1:
        rows += problem.touched_rows * (dk + dv + 4 * w)
    moved = (3 - saved) * problem.m * (dk + dv) + problem.g * rows + saved * state
    return moved, states * state + (t + 2) * w + dk + dv + dk * w + (dv + 1) * w


@SMALL
@given(bounded_workloads(), st.data())
def test_feature_gradient_moves_what_its_closed_form_says_and_differentiates_the_function_it_is_of(workload, data):
    dense = all(pattern.is_dense for pattern, _ in workload.separate_patterns)
    tiles = Tiles.of(
        degree=data.draw(st.integers(1, 3)),
        resident_states=data.draw(st.integers(1, 2)) if dense else 1,
        **({"saved_state": data.draw(st.integers(0, 1))} if dense else {}),
    )
    obeys_and_guarantees(replace(workload, direction="backward"), Dataflow.FEATURE_GRADIENT, tiles, closed_form)


def test_a_dense_gradient_moves_nine_arrays_and_seven_with_the_state_saved():
    n, d = 32, 4
    workload = Workload(n=n, d=d, direction="backward", tolerance=0.1, entry_bound=0.3)
    words = [
        execute(planned(workload, Dataflow.FEATURE_GRADIENT, tiles, 10**4)).moved_words
        for tiles in (
            Tiles.of(degree=2, resident_states=2),
            Tiles.of(degree=2, resident_states=2, saved_state=1),
            Tiles.of(degree=2, resident_states=1),
        )
    ]
    assert words == [9 * n * d, 7 * n * d + 15 * (d + 1), 11 * n * d + 4 * n]


def test_a_causal_gradient_cannot_have_one_saved_state():
    workload = Workload(n=8, d=2, mask="causal", direction="backward", tolerance=0.1, entry_bound=0.3)
    tiles = Tiles.of(degree=1, resident_states=1, saved_state=1)
    with pytest.raises(InvalidInput, match="a state for every position"):
        execute(planned(workload, Dataflow.FEATURE_GRADIENT, tiles, 10**4))
