import pytest
from hypothesis import given, settings

from attenio import Machine, Workload
from attenio.bounds import bounds_for, largest_ordinary
from attenio.planning import best_plan_for, training_plan_for
from attenio.report import training_answer
from attenio.report.directions import along_directions
from attenio.workload import Direction

from .strategies import workloads

QUICK = settings(max_examples=12, deadline=None, derandomize=True)
MACHINE = Machine.with_fast_bytes(16 * 1024)


@QUICK
@given(workload=workloads())
def test_a_step_is_above_its_bound_and_its_two_passes_are_in_it(workload):
    found = training_answer(workload, MACHINE)
    assert found.gap >= 1
    plan = found.plan
    assert plan.moved_words == plan.forward.moved_words + plan.backward.moved_words + plan.extra_words
    assert plan.moved_words == min(c.plan.moved_words for c in found.candidates if c.plan is not None)
    assert found.forward.workload.direction is Direction.FORWARD
    assert found.backward.workload.direction is Direction.BACKWARD


def test_the_values_of_a_step_are_plain():
    found = training_answer(Workload(n=512, d=32), MACHINE)
    value = found.to_json()
    assert value["workload"]["direction"] == "training"
    assert value["plan"]["moved_words"] == found.plan.moved_words
    assert [candidate["saved"] for candidate in value["candidates"]] == [
        "statistics",
        "outputs",
        "probabilities",
        "nothing",
    ]


@pytest.mark.parametrize("mask", ["dense", "causal"])
def test_every_direction_is_its_best_plan_and_its_largest_bound(mask):
    workload = Workload(n=1024, d=32, mask=mask)
    values = [2, 500, 1000, 4000, 100_000]
    forward, backward, step = along_directions(workload, MACHINE, values)
    assert forward.moved_words[0] is None
    for number, words in enumerate(values[1:], start=1):
        assert forward.moved_words[number] == best_plan_for(workload, words).moved_words
        assert backward.moved_words[number] == best_plan_for(workload.towards("backward"), words).moved_words
        assert step.moved_words[number] == training_plan_for(workload, words).moved_words
    for curve in (forward, backward, step):
        asked = workload.towards(curve.direction)
        assert [b.words for b in curve.bounds] == [largest_ordinary(bounds_for(asked, v)).words for v in values]
