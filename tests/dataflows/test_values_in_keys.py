"""Values that are part of their keys: one latent, read once by whoever holds keys when values are needed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.catalogue import machine_named, model_named
from attenio.dataflows import execute, random_inputs
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning import best_plan, nested_plan
from attenio.planning.best import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.nested import nested_plan_with
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

from .laws import is_right, planned, some_tiles, workloads
from .test_against_the_planner import nested_levels

LAW = settings(max_examples=11, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FORWARD = Dataflow.towards("forward")
ONCE = (
    Dataflow.ATTENIO,
    Dataflow.FLASH_ATTENTION_1,
    Dataflow.FLASH_ATTENTION_2,
    Dataflow.STACKED_GROUPS,
    Dataflow.SPLIT_KEYS,
    Dataflow.KEPT_KEYS,
    Dataflow.KEPT_ROWS,
)


@st.composite
def latents(draw: st.DrawFn) -> Workload:
    workload = draw(workloads())
    return replace(workload, value_dim=draw(st.integers(1, workload.d)), values_in_keys=True)


@pytest.mark.parametrize("dataflow", FORWARD, ids=lambda dataflow: dataflow.value)
@LAW
@given(workload=latents(), data=st.data())
def test_a_run_moves_and_holds_exactly_what_its_closed_form_says(
    dataflow: Dataflow, workload: Workload, data: st.DataObject
) -> None:
    tiles = some_tiles(data.draw, workload, dataflow)
    predicted, apart = (cost(each, dataflow, tiles) for each in (workload, replace(workload, values_in_keys=False)))
    run = execute(planned(workload, dataflow, tiles, predicted.peak_words))
    assert (run.moved_words, run.peak_words) == (predicted.moved_words, predicted.peak_words)
    is_right(run)
    if dataflow in ONCE:
        assert run.trace.loads["V"] == 0
        groups = -(-workload.value_dim // tiles.get("value_columns", workload.value_dim))  # keys are read for each
        saved = run.trace.loads["K"] // (groups * workload.d) * workload.value_dim
        assert predicted.moved_words == apart.moved_words - saved
        assert predicted.peak_words <= apart.peak_words
    else:
        assert predicted == apart


@pytest.mark.parametrize("dataflow", [None, *FORWARD], ids=lambda dataflow: dataflow.value if dataflow else "any")
@LAW
@given(workload=latents(), fast_words=st.integers(1, 200))
def test_the_best_plan_fits_runs_as_planned_and_beats_no_bound(
    dataflow: Dataflow | None, workload: Workload, fast_words: int
) -> None:
    try:
        plan = best_plan_for(workload, fast_words, dataflow=dataflow)
    except DoesNotFit:
        assume(False)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    assert plan.peak_words <= fast_words
    assert plan.moved_words >= largest_ordinary(bounds_for(workload, fast_words)).words
    if dataflow is None:
        assert plan.moved_words == min(_least(workload, fast_words, each) for each in FORWARD)


def _least(workload: Workload, fast_words: int, dataflow: Dataflow) -> float:
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow).moved_words
    except DoesNotFit:
        return float("inf")


@LAW
@given(workload=latents(), data=st.data())
def test_a_nested_run_agrees_with_the_planner_at_every_boundary(workload: Workload, data: st.DataObject) -> None:
    tiles, heads = data.draw(nested_levels(workload)), data.draw(st.integers(1, workload.group))
    plan = nested_plan_with(workload, (10**6,) * len(tiles), heads, tiles)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)


@LAW
@given(workload=latents(), fast_words=st.integers(1, 400))
def test_bounds_count_the_latent_once_and_never_exceed_those_of_separate_arrays(
    workload: Workload, fast_words: int
) -> None:
    apart = replace(workload, values_in_keys=False)
    touched = workload.kv_heads * sum(pattern.touched_keys * count for pattern, count in workload.stacked_patterns)
    assert workload.compulsory_words == apart.compulsory_words - touched * workload.value_dim
    words = {bound.theorem: bound.words for bound in bounds_for(apart, fast_words)}
    found = bounds_for(workload, fast_words)
    assert [bound.theorem for bound in found] == ["compulsory", "score-epochs", "fast-products", "saha-ye"]
    assert all(bound.words <= words[bound.theorem] for bound in found)


def test_deepseek_decodes_with_one_latent_and_the_plan_meets_the_bound() -> None:
    workload, machine = model_named("deepseek-v3").workload(n=131072, decode=True), machine_named("h200")
    assert workload.values_in_keys
    plan = best_plan(workload, machine)
    once = 131072 * 576 + 128 * (576 + 512)
    assert plan.moved_words == workload.compulsory_words == once
    assert nested_plan(workload, machine).moved_words[-1] == once
    assert not model_named("deepseek-v3").workload(n=4096).values_in_keys


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"d": 4, "value_dim": 5}, "values in keys are 5 wide and keys 4; use a value_dim up to 4"),
        ({"d": 4, "direction": "backward"}, "values in keys are planned forward only, and this is backward"),
        ({"d": 4, "tolerance": 0.1}, "values in keys are planned for exact attention only"),
        ({"d": 4, "values_in_keys": "yes"}, "values_in_keys is 'yes'; give True or False"),
    ],
)
def test_what_is_not_planned_is_refused_in_one_line(asked: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refusal:
        Workload(**{"n": 8, "values_in_keys": True, **asked})  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_values_that_are_not_the_beginning_of_the_keys_are_refused() -> None:
    workload = Workload(n=6, d=4, value_dim=3, values_in_keys=True)
    plan = best_plan_for(workload, 100)
    q, k, v = random_inputs(workload)
    assert np.array_equal(v, k[..., :3])
    assert execute(plan, inputs=(q, k, k[..., :3])).moved_words == plan.moved_words
    with pytest.raises(InvalidInput, match="v is not the first 3 columns of k"):
        execute(plan, inputs=(q, k, v + 1))
