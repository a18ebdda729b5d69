import re

import pytest
from hypothesis import given, settings

from attenio import Machine, Workload
from attenio.bounds import bounds_for, largest_ordinary
from attenio.planning import best_plan_for, training_candidates, training_plan_for
from attenio.report import training_answer
from attenio.report.directions import along_directions
from attenio.report.training import between_passes
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


@pytest.mark.parametrize("mask", ["dense", "causal", "window:9"])
@pytest.mark.parametrize("fast_bytes", [1024, 4096, 8192])
def test_what_passes_move_by_themselves_adds_up_to_the_step_in_words(mask, fast_bytes):
    """A reader who adds the numbers of the line gets those of the table, and is told what stays where some do."""
    workload, machine = Workload(n=60, d=8, mask=mask), Machine.with_fast_bytes(fast_bytes)
    for plan in (candidate.plan for candidate in training_candidates(workload, machine)):
        if plan is None:
            continue
        line = between_passes(plan)
        sizes, _, why = line.partition(": ")
        first, second, *more = (int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", sizes))
        sign = -1 if "fewer together" in sizes else 1
        assert first + second + sign * sum(more) == plan.moved_words
        kept = (plan.kept_outputs, plan.kept_keys, plan.kept_values, plan.kept_queries)
        assert [int(number) for number in re.findall(r"\d+", why)] == [count for count in kept if count]
        assert any(kept) == line.endswith("stay in fast memory between them.")
