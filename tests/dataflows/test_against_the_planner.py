"""The planner predicts, the counted memory counts, the theorems bound: three witnesses that share no code."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning.best import best_plan_for, published_plan_for
from attenio.planning.costs import cost
from attenio.planning.nested import LevelTiles, nested_plan_with
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.published import has_published_rule

from .laws import QUICK, QUICK_EACH, is_right, planned, some_tiles, workloads


@pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)
@QUICK_EACH
@given(workload=workloads(), data=st.data())
def test_a_run_moves_and_holds_exactly_what_its_closed_form_says(dataflow, workload, data):
    workload = workload.towards(dataflow.direction)
    tiles = some_tiles(data.draw, workload, dataflow)
    predicted = cost(workload, dataflow, tiles)
    run = execute(planned(workload, dataflow, tiles, predicted.peak_words))
    assert (run.moved_words, run.peak_words) == (predicted.moved_words, predicted.peak_words)


@QUICK
@given(workload=workloads(), data=st.data())
def test_flat_spills_exactly_what_its_closed_form_says(workload, data):
    tiles = Tiles.of(query_tile=1, resident_keys=data.draw(st.integers(0, workload.keys)))
    predicted = cost(workload, Dataflow.FLAT, tiles)
    run = execute(planned(workload, Dataflow.FLAT, tiles, predicted.peak_words))
    assert (run.moved_words, run.peak_words) == (predicted.moved_words, predicted.peak_words)


@pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)
@QUICK_EACH
@given(workload=workloads(), fast_words=st.integers(1, 200))
def test_the_best_plan_of_a_dataflow_fits_and_runs_as_planned(dataflow, workload, fast_words):
    try:
        plan = best_plan_for(workload.towards(dataflow.direction), fast_words, dataflow=dataflow)
    except DoesNotFit:
        assume(False)
    run = execute(plan)
    assert run.peak_words == plan.peak_words <= fast_words
    assert run.moved_words == plan.moved_words
    is_right(run)


PUBLISHED = [dataflow for dataflow in Dataflow if has_published_rule(dataflow)]


@pytest.mark.parametrize("dataflow", PUBLISHED, ids=lambda dataflow: dataflow.value)
@QUICK_EACH
@given(workload=workloads(), fast_words=st.integers(1, 400))
def test_a_published_plan_runs_as_planned_and_never_beats_the_best(dataflow, workload, fast_words):
    workload = workload.towards(dataflow.direction)
    plan = published_plan_for(workload, fast_words, dataflow, units=4)
    assume(plan is not None)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    assert plan.moved_words >= best_plan_for(workload, fast_words, dataflow=dataflow).moved_words


@pytest.mark.parametrize("direction", ["forward", "backward"])
@QUICK
@given(workload=workloads(), fast_words=st.integers(1, 400))
def test_no_plan_of_any_dataflow_beats_an_absolute_bound(direction, workload, fast_words):
    workload = workload.towards(direction)
    floor = largest_ordinary(bounds_for(workload, fast_words)).words
    for dataflow in Dataflow.towards(direction):
        try:
            plan = best_plan_for(workload, fast_words, dataflow=dataflow)
        except DoesNotFit:
            continue
        assert plan.moved_words >= floor


@st.composite
def nested_levels(draw, workload):
    size = st.integers(1, 2 * max(workload.queries, workload.keys))
    levels = draw(st.lists(st.tuples(size, size), min_size=1, max_size=4))
    return tuple(LevelTiles(query_tile=rows, key_tile=keys) for rows, keys in levels)


@QUICK
@given(workload=workloads(), data=st.data())
def test_a_nested_run_agrees_with_the_planner_at_every_boundary(workload, data):
    tiles, heads = data.draw(nested_levels(workload)), data.draw(st.integers(1, workload.group))
    plan = nested_plan_with(workload, (10**6,) * len(tiles), heads, tiles)
    run = execute(plan)
    assert run.moved_words == plan.moved_words
    assert run.peak_words == plan.peak_words
