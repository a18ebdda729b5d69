import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.catalogue import machine_named
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.planning.plan import Dataflow
from attenio.report.answer import answer
from attenio.workload import Workload

from .strategies import machines, workloads

LAW = settings(deadline=None, derandomize=True, max_examples=12)


@LAW
@given(workload=workloads(), machine=machines())
def test_the_plan_is_the_least_candidate_and_the_gap_is_against_the_largest_bound_for_ordinary_products(
    workload: Workload, machine: Machine
) -> None:
    found = answer(workload, machine)
    moved = [candidate.plan.moved_words for candidate in found.candidates if candidate.plan is not None]
    absolute = [bound.words for bound in found.lower_bounds if bound.strength in (Strength.ABSOLUTE, Strength.ORDINARY)]
    assert found.plan.moved_words == min(moved)
    assert found.gap == found.plan.moved_words / max(absolute) >= 1


@LAW
@given(workload=workloads(), machine=machines())
def test_no_boundary_is_crossed_by_fewer_words_than_its_bound(workload: Workload, machine: Machine) -> None:
    found = answer(workload, machine)
    assert [part.boundary for part in found.boundaries] == list(machine.boundaries)
    for part in found.boundaries:
        assert part.plan is not None or part.reason
        assert part.plan is None or part.plan.moved_words >= part.bound.words
        assert part.nested_words is None or part.nested_words >= part.bound.words
    for time in found.times:
        assert 0 < time.least_seconds <= time.plan_seconds
    assert (found.binding is None) == (not found.times)
    assert {time.resource for time in found.times}.isdisjoint(found.unknown_rates)


def test_an_exact_plan_takes_as_long_whatever_the_tolerance() -> None:
    machine, exact = machine_named("attenio-512k"), Workload(n=4096, d=64)
    known, found = answer(exact, machine), answer(replace(exact, tolerance=0.01), machine)
    seconds = [[(time.resource, time.plan_seconds) for time in one.times] for one in (known, found)]
    assert seconds[0] == seconds[1]
    assert (found.binding.resource, found.uncounted) == (known.binding.resource, ())
    # what else may be computed within the tolerance is not known
    assert {time.resource for time in found.times if time.least_seconds is None} == {"arithmetic", "exponentials"}


def test_nothing_is_said_to_bind_where_arithmetic_is_not_counted() -> None:
    workload = Workload(n=2**20, d=64, tolerance=0.01, entry_bound=0.25)
    found = answer(workload, machine_named("attenio-512k"))
    assert found.plan.dataflow.is_approximate
    assert (found.binding, found.uncounted) == (None, ("arithmetic", "exponentials"))
    assert found.to_json()["roofline"]["uncounted"] == ["arithmetic", "exponentials"]


@LAW
@given(workload=workloads(), machine=machines(), dataflow=st.sampled_from(Dataflow.towards("training")))
def test_naming_a_dataflow_never_lowers_the_gap(workload: Workload, machine: Machine, dataflow: Dataflow) -> None:
    try:
        named = answer(workload, machine, dataflow=dataflow.value)
    except (DoesNotFit, InvalidInput):
        return
    assert named.plan.dataflow is dataflow
    assert named.gap >= answer(workload, machine).gap


@LAW
@given(workload=workloads(), machine=machines())
def test_as_plain_values_it_has_the_documented_names_and_survives_json(workload: Workload, machine: Machine) -> None:
    found = answer(workload, machine)
    plain = found.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert list(plain) == [
        "workload",
        "machine",
        "fast_words",
        "plan",
        "granularity",
        "lower_bounds",
        "gap",
        "gap_strength",
        "absolute_gap",
        "candidates",
        "boundaries",
        "roofline",
    ]
    assert plain["roofline"]["unknown_rates"] == list(found.unknown_rates)
    assert plain["roofline"]["times_of"] == found.timed_plan
    assert set(plain["plan"]) == {"dataflow", "tiles", "moved_words", "peak_words", "rule", "approximation"}
    for bound in plain["lower_bounds"]:
        assert set(bound) == {"theorem", "words", "strength", "covers", "regime", "citation", "assumptions", "page"}
    for candidate in plain["candidates"]:
        assert set(candidate) == {
            "dataflow",
            "tiles",
            "moved_words",
            "peak_words",
            "rule",
            "fits",
            "reason",
            "needed_words",
        }
        assert candidate["fits"] == (candidate["moved_words"] is not None) == (candidate["reason"] is None)


def test_the_default_question_has_the_published_answer() -> None:
    found = answer(Workload(n=131072, d=64), machine_named("attenio-512k"))
    published = [c for c in found.to_json()["candidates"] if c["rule"] == "published" and c["dataflow"] == "attenio"]
    assert [(c["tiles"], c["moved_words"]) for c in published] == [({"query_tile": 1985, "key_tile": 1}, 1140850688)]
    assert found.binding is not None
    assert found.binding.resource == "arithmetic"


def test_a_machine_without_rates_has_no_times() -> None:
    found = answer(Workload(n=64, d=8), Machine.with_fast_bytes(4096))
    assert found.times == ()
    assert found.binding is None


def test_an_unknown_dataflow_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"unknown dataflow 'flash'.*attenio"):
        answer(Workload(n=64, d=8), Machine.with_fast_bytes(4096), dataflow="flash")
