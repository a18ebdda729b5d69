"""Gradients with sinks and capped scores: what a run counts is what the closed form says, and it is right."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_absolute, largest_ordinary
from attenio.dataflows import execute, random_gradient, random_inputs
from attenio.dataflows.inputs import random_sinks
from attenio.elements import ElementType
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning.best import best_plan_for
from attenio.planning.costs import cost, knows_forms_of
from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.grid import SweepGrid
from attenio.planning.sweeping.run import sweep
from attenio.planning.training import Saved, training_candidates_for, training_plan_for
from attenio.reference import attention, gradients_and_sinks
from attenio.workload import Workload

from ..laws import GRADIENT_TILES, planned, some_tiles, workloads

LAW = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
DTYPES = st.sampled_from([ElementType.FP32, ElementType.FP16, ElementType.BF16])


@st.composite
def forms(draw: st.DrawFn, direction: str = "backward") -> Workload:
    """Workloads with sinks, a cap or both."""
    sinks = draw(st.booleans())
    cap = draw(st.sampled_from([0.5, 30.0] if not sinks else [None, 0.5, 30.0]))
    dtype = draw(DTYPES)
    plain = replace(draw(workloads()), dtype=dtype, accumulator=draw(st.sampled_from([None, ElementType.FP32])))
    return replace(plain, sinks=sinks, softcap=cap, direction=direction)


def is_right(run) -> None:
    """As near to the definition as the element type allows: terms are rounded once, and their sum is."""
    epsilon = {ElementType.FP32: 2.0**-17, ElementType.FP16: 2.0**-8, ElementType.BF16: 2.0**-5}
    workload = run.plan.workload
    exact, d_sinks = gradients_and_sinks(
        *random_inputs(workload), random_gradient(workload), workload, sinks=random_sinks(workload)
    )
    largest = max(1.0, *(np.abs(each).max() for each in (*exact, d_sinks)))
    assert run.max_abs_error <= epsilon[workload.dtype] * largest
    if workload.sinks:
        assert np.abs(run.sink_gradients - d_sinks).max() <= run.max_abs_error
    else:
        assert run.sink_gradients is None


@pytest.mark.parametrize("dataflow", GRADIENT_TILES, ids=lambda dataflow: dataflow.value)
@LAW
@given(workload=forms(), data=st.data())
def test_a_run_moves_and_holds_exactly_what_its_closed_form_says(dataflow, workload, data) -> None:
    if not knows_forms_of(workload, dataflow):
        with pytest.raises(InvalidInput, match=f"^{dataflow.value} makes gradients without the log-sum-exp at hand"):
            best_plan_for(workload, 10**6, dataflow=dataflow)
        return
    tiles = some_tiles(data.draw, workload, dataflow)
    predicted = cost(workload, dataflow, tiles)
    run = execute(planned(workload, dataflow, tiles, predicted.peak_words))
    assert (run.moved_words, run.peak_words) == (predicted.moved_words, predicted.peak_words)
    assert run.trace.loads["sinks"] == run.trace.stores["d sinks"] == (workload.heads if workload.sinks else 0)
    is_right(run)


@settings(LAW, max_examples=25)
@given(workload=forms(), fast_words=st.integers(20, 400))
def test_the_best_plan_runs_and_beats_no_bound_and_sinks_cost_two_words_a_head(workload, fast_words) -> None:
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        assume(False)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    bounds = bounds_for(workload, fast_words)
    assert plan.moved_words >= largest_ordinary(bounds).words >= largest_absolute(bounds).words
    with_sinks = replace(workload, sinks=True)
    held = with_sinks.held_words - workload.held_words
    more = 0 if workload.sinks else 2 * workload.heads
    if plan.dataflow is not Dataflow.FUSED_VALUES:  # which takes a cap and no sinks
        assert best_plan_for(with_sinks, fast_words + held).moved_words <= plan.moved_words + more
    assert bounds_for(with_sinks, fast_words)[0].words == bounds[0].words + more


@settings(LAW, max_examples=12)
@given(workload=forms("training"), fast_words=st.integers(60, 400))
def test_a_step_runs_as_planned_and_reads_no_probabilities_for_them(workload, fast_words) -> None:
    try:
        plan = training_plan_for(workload, fast_words)
    except DoesNotFit:
        assume(False)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    assert plan.moved_words >= largest_ordinary(bounds_for(workload, fast_words)).words
    each = {one.saved: one for one in training_candidates_for(workload, fast_words)}
    assert plan in (each[Saved.STATISTICS].plan, each[Saved.OUTPUTS].plan)
    assert "without the log-sum-exp at hand" in each[Saved.PROBABILITIES].reason


@pytest.mark.parametrize("direction", ["backward", "training"])
def test_a_sweep_has_the_words_of_the_plan_of_all_heads_and_sequences(direction) -> None:
    shape = {"d": 8, "heads": 4, "kv_heads": 2, "batch": 3}
    grid = SweepGrid(
        n=[24], **{name: [size] for name, size in shape.items()}, fast_bytes=[1024], sinks=True, direction=direction
    )
    (row,) = sweep(grid).rows()
    workload = Workload(n=24, **shape, sinks=True, direction=direction)
    plan = best_plan_for(workload, 512) if direction == "backward" else training_plan_for(workload, 512)
    assert row["moved_words"] == plan.moved_words
    if direction == "training":
        assert row["forward_moved_words"] == plan.forward.moved_words
        assert row["backward_moved_words"] == plan.backward.moved_words


def test_the_definition_is_that_of_finite_differences() -> None:
    workload = Workload(
        queries=5,
        keys=7,
        d=3,
        heads=4,
        kv_heads=2,
        batch=2,
        sinks=True,
        softcap=1.5,
        mask="causal",
        direction="backward",
    )
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(shape) for shape in ((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 3), (4,))]
    do = draw.standard_normal((2, 4, 5, 3))
    gradients, d_sinks = gradients_and_sinks(*arrays[:3], do, workload, sinks=arrays[3])

    def loss(at: int, where: tuple[int, ...], step: float) -> float:
        moved = [array.copy() for array in arrays]
        moved[at][where] += step
        return float((attention(*moved[:3], workload.towards("forward"), sinks=moved[3]) * do).sum())

    for at, found in enumerate((*gradients, d_sinks)):
        for _ in range(5):
            where = tuple(int(draw.integers(0, size)) for size in found.shape)
            assert found[where] == pytest.approx((loss(at, where, 1e-6) - loss(at, where, -1e-6)) / 2e-6, abs=1e-7)


def test_five_arrays_are_given_and_sinks_that_are_missing_are_refused() -> None:
    workload = Workload(n=4, d=4, heads=2, sinks=True, direction="backward")
    plan, (q, k, v) = best_plan_for(workload, 1000), random_inputs(workload)
    do, sinks = random_gradient(workload), random_sinks(workload)
    run = execute(plan, inputs=(q, k, v, sinks, do))
    np.testing.assert_array_equal(run.sink_gradients, execute(plan).sink_gradients)
    with pytest.raises(InvalidInput, match="the gradient needs five: q, k, v, sinks and do"):
        execute(plan, inputs=(q, k, v, do))
    with pytest.raises(InvalidInput, match="sinks has shape"):
        execute(plan, inputs=(q, k, v, np.zeros(3), do))
