import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.elements import ElementType
from attenio.errors import InvalidInput, MemoryOverflow
from attenio.planning.plan import Tiles
from attenio.weight_gradient import (
    WeightDataflow,
    WeightGradient,
    execute_weight_gradient,
    random_weight_inputs,
    weight_cost,
    weight_gradients,
)

from .laws import NAMES, QUICK, Counts, closed_form, given_plan, some_tiles, tolerance, weight_workloads

EVERY = pytest.mark.parametrize("dataflow", WeightDataflow, ids=lambda dataflow: dataflow.value)


@EVERY
@QUICK
@given(workload=weight_workloads(), data=st.data())
def test_a_run_moves_and_holds_what_the_closed_form_says_and_computes_the_gradient(dataflow, workload, data):
    tiles = data.draw(some_tiles(workload, dataflow))
    predicted = weight_cost(workload, dataflow, tiles)
    moved, peak = closed_form(Counts.of(workload), dataflow, tiles)
    assert (predicted.moved_words, predicted.peak_words) == (moved, peak)
    run = execute_weight_gradient(given_plan(workload, dataflow, tiles, peak))
    assert (run.moved_words, run.peak_words) == (moved, peak)
    if workload.accumulator in (None, ElementType.FP32):
        inputs = random_weight_inputs(workload)
        assert run.max_abs_error <= tolerance(workload, inputs, weight_gradients(inputs, workload))
    assert np.isfinite(run.dx).all() and np.isfinite(run.dy).all()
    with pytest.raises(MemoryOverflow):
        execute_weight_gradient(given_plan(workload, dataflow, tiles, peak - 1))


@EVERY
def test_scores_of_any_size_are_safe(dataflow):
    workload = WeightGradient(n=6, d=2, mask="causal", dtype="fp32")
    inputs = random_weight_inputs(workload)._replace(x=np.array([[1e4, -3e4], [2e4, 1e4]]))
    tiles = Tiles.of(**dict.fromkeys(NAMES[dataflow], 2))
    run = execute_weight_gradient(given_plan(workload, dataflow, tiles, 1000), inputs=inputs)
    exact = weight_gradients(inputs, workload)
    assert np.allclose(run.dy, exact.dy, rtol=1e-4, atol=1e-4)
    assert np.allclose(run.dx, exact.dx, rtol=1e-2, atol=1e-2)


@EVERY
def test_the_largest_numbers_of_float32_do_not_make_nan(dataflow):
    workload = WeightGradient(n=5, d=2, dtype="fp32")
    inputs = tuple(np.full_like(array, 1e30) for array in random_weight_inputs(workload))
    tiles = Tiles.of(**dict.fromkeys(NAMES[dataflow], 2))
    with np.errstate(all="ignore"):
        run = execute_weight_gradient(given_plan(workload, dataflow, tiles, 1000), inputs=inputs)
    assert np.isfinite(run.dx).all() and np.isfinite(run.dy).all()


@EVERY
def test_tiles_that_are_missing_or_empty_are_refused(dataflow):
    workload = WeightGradient(n=5, d=2)
    names = NAMES[dataflow]
    with pytest.raises(InvalidInput, match=f"needs a size for {names[-1]}"):
        execute_weight_gradient(given_plan(workload, dataflow, Tiles.of(**dict.fromkeys(names[:-1], 1)), 1000))
    with pytest.raises(InvalidInput, match="takes the tiles"):
        weight_cost(workload, dataflow, Tiles.of(other=1))
    with pytest.raises(InvalidInput, match="must be at least 1"):
        weight_cost(workload, dataflow, Tiles.of(**dict.fromkeys(names, 0)))


def test_inputs_of_the_wrong_kind_are_refused():
    workload = WeightGradient(n=4, d=2)
    plan = given_plan(workload, WeightDataflow.FUSED, Tiles.of(query_tile=2, key_tile=1), 1000)
    good = random_weight_inputs(workload)
    for wrong, what in (
        (good[:5], "give six"),
        ((*good[:5], np.zeros((4, 3))), "do has shape"),
        ((good[0] * np.nan, *good[1:]), "a1 has 8 NaN in it; replace them with numbers"),
        ((*good[:3], [["x"]], *good[4:]), "x is not an array"),
    ):
        with pytest.raises(InvalidInput, match=what):
            execute_weight_gradient(plan, inputs=wrong)


def test_a_recorded_run_names_every_word_it_moves():
    workload = WeightGradient(n=7, d=3, mask="causal")
    tiles = Tiles.of(query_tile=3, key_tile=2)
    run = execute_weight_gradient(given_plan(workload, WeightDataflow.FUSED, tiles, 1000), record=True)
    assert sum(e.words for e in run.trace.events if e.kind.value in ("load", "store")) == run.moved_words
    assert run.trace.loads["A1"] == 2 * 7 * 3 and run.trace.loads["X"] == 3 * 9
