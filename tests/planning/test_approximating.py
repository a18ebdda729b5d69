from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import AttenioError, DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.planning import best_plan, best_plan_for, candidates, candidates_for, plan_with
from attenio.planning.approximate.guarantees import certificate_at, certified, needed_tile
from attenio.planning.costs import cost, tile_names
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

LAWS = settings(max_examples=17, deadline=None, derandomize=True)
APPROXIMATE = Dataflow.approximating("training")


@st.composite
def bounded(draw: st.DrawFn, longest: int = 60) -> Workload:
    kv_heads = draw(st.sampled_from([1, 2]))
    return Workload(
        queries=draw(st.integers(1, longest)),
        keys=draw(st.integers(1, longest)),
        d=draw(st.integers(1, 6)),
        value_dim=draw(st.integers(1, 6)),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        batch=draw(st.integers(1, 2)),
        mask=draw(st.sampled_from(["dense", "causal"])),
        tolerance=draw(st.sampled_from([0.5, 0.1, 0.01, 1e-4, 5e-6])),
        entry_bound=draw(st.sampled_from([1e-4, 0.1, 0.3, 1.0])),
        direction=draw(st.sampled_from(["forward", "backward"])),
    )


def plan_or_none(workload: Workload, fast_words: int, dataflow: Dataflow | None = None):
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow)
    except AttenioError:
        return None


@LAWS
@given(workload=bounded(longest=12), data=st.data())
def test_no_tiles_of_an_approximate_dataflow_move_less_than_its_best_plan(
    workload: Workload, data: st.DataObject
) -> None:
    others = [each for each in Dataflow.approximating(workload.direction) if each is not Dataflow.WINDOW_AND_FEATURES]
    dataflow = data.draw(st.sampled_from(others))
    try:
        degree, key_tile = needed_tile(workload)
        every = [cost(workload, dataflow, tiles) for tiles in all_tiles(workload, dataflow, degree, key_tile)]
    except AttenioError:
        return
    smallest = min(found.peak_words for found in every)
    for fast_words in {smallest - 1, *data.draw(st.lists(st.integers(smallest, smallest + 60), max_size=6))}:
        fits = [found.moved_words for found in every if found.peak_words <= fast_words]
        plan = plan_or_none(workload, fast_words, dataflow)
        assert (plan.moved_words if plan else None) == min(fits, default=None)
        assert plan is None or plan.peak_words <= fast_words


def all_tiles(workload: Workload, dataflow: Dataflow, degree: int, key_tile: int):
    sizes = {
        "degree": [degree],
        "value_columns": range(1, workload.value_dim + 2),
        "coordinate_group": range(1, workload.d + 2),
        "key_tile": range(key_tile, max(key_tile, workload.keys) + 1),
        "resident_states": (1, 2) if workload.mask.__class__.__name__ == "Dense" else (1,),
    }
    names = tile_names(dataflow)[0]
    for chosen in product(*(sizes[name] for name in names)):
        yield Tiles(tuple(zip(names, chosen, strict=True)))


@settings(LAWS, max_examples=14)
@given(
    lengths=st.tuples(st.integers(2, 9), st.integers(2, 9)),
    widths=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    tolerance=st.sampled_from([0.3, 0.05, 1e-3, 2e-5, 8e-6, 4e-6]),
    entry_bound=st.sampled_from([0.01, 0.3, 0.7, 1.0]),
)
def test_no_degree_window_and_tile_of_keys_keep_the_tolerance_where_the_planner_says_that_none_do(
    lengths: tuple[int, int], widths: tuple[int, int], tolerance: float, entry_bound: float
) -> None:
    workload = Workload(
        queries=lengths[0], keys=lengths[1], d=widths[0], value_dim=widths[1], mask="causal",
        tolerance=tolerance, entry_bound=entry_bound,
    )  # fmt: skip
    peaks = []
    for degree, window in product(range(1, 6), range(1, workload.keys + 2)):
        for key_tile in range(1, window + 1):
            tiles = Tiles.of(degree=degree, window=window, key_tile=key_tile)
            if certificate_at(workload, tiles).added_error <= tolerance:
                peaks.append(cost(workload, Dataflow.WINDOW_AND_FEATURES, tiles).peak_words)
    try:
        best_plan_for(workload, 1, dataflow="window-and-features")
    except DoesNotFit as problem:
        reason = str(problem)
    if not peaks:
        assert "use exact" in reason
        return
    plan = best_plan_for(workload, min(peaks), dataflow="window-and-features")
    assert plan.peak_words == min(peaks)
    assert plan.certificate.added_error <= tolerance
    assert f"needs at least {min(peaks):,} words" in reason
    with pytest.raises(DoesNotFit):
        best_plan_for(workload, min(peaks) - 1, dataflow="window-and-features")


@pytest.mark.parametrize(
    ("asked", "fast_words", "degree"),
    [
        ({"n": 1024, "d": 16, "tolerance": 0.1, "entry_bound": 0.4}, 709, 1),
        ({"n": 2048, "d": 16, "tolerance": 0.1, "entry_bound": 0.4}, 1125, 1),
        ({"n": 4096, "d": 16, "tolerance": 0.1, "entry_bound": 0.4}, 2149, 1),
        ({"n": 1024, "d": 16, "tolerance": 0.01, "entry_bound": 0.4}, 13102, 2),
        ({"n": 1024, "d": 64, "tolerance": 0.1, "entry_bound": 0.3}, 86149, 1),
    ],
)
def test_a_window_makes_do_with_a_lower_degree_where_the_memory_has_no_room_for_the_one_needed_without(
    asked: dict[str, float], fast_words: int, degree: int
) -> None:
    workload = Workload(mask="causal", **asked)
    plan = best_plan_for(workload, fast_words)
    assert (plan.dataflow, plan.tiles["degree"]) == (Dataflow.WINDOW_AND_FEATURES, degree)
    assert degree < needed_tile(workload)[0]
    assert plan.moved_words == workload.compulsory_words
    assert plan.certificate.added_error <= workload.tolerance


@pytest.mark.parametrize(
    ("asked", "fast_words"),
    [
        ({"n": 2**24 + 3, "d": 2, "tolerance": 1e-3, "entry_bound": 0.05}, 75_031),
        ({"n": 1003, "d": 8, "tolerance": 1e-4, "entry_bound": 0.5, "dtype": "fp32"}, 12_589),
    ],
)
def test_where_no_window_is_narrow_enough_for_the_tolerance_the_plan_is_refused(
    asked: dict[str, object], fast_words: int
) -> None:
    with pytest.raises(DoesNotFit, match=r"use exact: no degree .*keeps the tolerance of .* beside any window"):
        best_plan_for(Workload(mask="causal", **asked), fast_words, dataflow="window-and-features")


def test_a_constant_that_keeps_the_tolerance_is_no_plan_where_the_first_degree_rounds_too_much() -> None:
    workload = Workload(n=64, d=8, tolerance=3.9e-6, entry_bound=1e-5)
    assert certified(workload).degree == 0
    with pytest.raises(DoesNotFit, match="use exact: a constant would do"):
        best_plan_for(workload, 10**6, dataflow="feature-state")


@LAWS
@given(workload=bounded(), fast_words=st.integers(3, 3000))
def test_exact_and_approximate_plans_compete_by_their_words_and_equals_are_exact(
    workload: Workload, fast_words: int
) -> None:
    best = plan_or_none(workload, fast_words)
    exact = plan_or_none(replace(workload, tolerance=None), fast_words)
    approximate = [plan_or_none(workload, fast_words, each) for each in Dataflow.approximating(workload.direction)]
    fewest = min((plan.moved_words for plan in approximate if plan), default=None)
    if best is None:
        assert exact is None and fewest is None
    elif best.dataflow.is_approximate:
        assert best.moved_words == fewest
        assert exact is None or fewest < exact.moved_words
    else:
        assert exact is not None and best.moved_words == exact.moved_words
        assert fewest is None or fewest >= exact.moved_words


@LAWS
@given(workload=bounded(), fast_words=st.integers(3, 3000))
def test_an_approximate_plan_states_its_exact_cost_and_keeps_to_the_tolerance(
    workload: Workload, fast_words: int
) -> None:
    for candidate in candidates_for(workload, fast_words):
        plan = candidate.plan
        if not candidate.dataflow.is_approximate:
            assert plan is None or plan.certificate is None
            continue
        if plan is None:
            assert candidate.reason
            continue
        found = cost(workload, plan.dataflow, plan.tiles)
        assert (plan.moved_words, plan.peak_words) == (found.moved_words, found.peak_words)
        assert plan.moved_words >= workload.compulsory_words
        assert plan.certificate.truncation_error + plan.certificate.rounding_error <= workload.tolerance
        assert plan.certificate == certificate_at(workload, plan.tiles)


@LAWS
@given(workload=bounded(), fast_words=st.integers(3, 900), more=st.integers(1, 100))
def test_an_approximate_plan_never_loses_to_that_of_a_smaller_memory(
    workload: Workload, fast_words: int, more: int
) -> None:
    for dataflow in (None, *Dataflow.approximating(workload.direction)):
        small, large = plan_or_none(workload, fast_words, dataflow), plan_or_none(workload, fast_words + more, dataflow)
        assert small is None or large.moved_words <= small.moved_words


def test_approximations_are_never_planned_without_a_tolerance() -> None:
    workload, machine = Workload(n=2**20, d=32, entry_bound=0.1), Machine.with_fast_bytes(2**20)
    assert not best_plan(workload, machine).dataflow.is_approximate
    assert not any(candidate.dataflow.is_approximate for candidate in candidates(workload, machine))
    for dataflow in Dataflow.approximating("forward"):
        with pytest.raises(InvalidInput, match="give it a tolerance"):
            best_plan(workload, machine, dataflow=dataflow)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"entry_bound": None}, "no entry_bound says how far scores can reach"),
        ({"entry_bound": 1.0, "tolerance": 1e-3}, "use exact: degree"),
        ({"entry_bound": 100.0}, "use exact: scores reach"),
        ({"mask": "window:64"}, "cannot take them out again"),
        ({"accumulator": "fp16"}, "adds up in fp32"),
    ],
)
def test_where_approximating_is_not_worth_it_the_candidate_says_why(changes: dict[str, object], reason: str) -> None:
    workload = replace(Workload(n=4096, d=64, tolerance=0.1, entry_bound=0.1), **changes)
    machine = Machine.with_fast_bytes(512 * 1024)
    found = [each for each in candidates(workload, machine) if each.dataflow.is_approximate]
    assert [each.plan for each in found] == [None] * 4
    assert reason in found[0].reason
    assert "\n" not in found[0].reason
    assert not best_plan(workload, machine).dataflow.is_approximate


def test_a_state_too_large_for_the_memory_names_the_words_it_would_need() -> None:
    workload = Workload(n=2**16, d=64, tolerance=0.01, entry_bound=0.2)
    with pytest.raises(
        DoesNotFit, match=r"feature-state needs at least 139,\d+ words of fast memory for 2,145 features"
    ):
        best_plan_for(workload, 4096, dataflow="feature-state")


def test_words_grow_with_the_length_where_those_of_exact_attention_grow_with_its_square() -> None:
    lengths = 2 ** np.arange(12, 21)
    for tolerance, slope in ((0.05, 1.0), (None, 2.0)):
        plans = [best_plan_for(Workload(n=int(n), d=32, tolerance=tolerance, entry_bound=0.4), 2**14) for n in lengths]
        words = np.array([plan.moved_words for plan in plans], dtype=np.float64)
        assert np.polyfit(np.log(lengths), np.log(words), 1)[0] == pytest.approx(slope, abs=0.02)


def test_a_plan_with_given_tiles_has_the_guarantee_of_its_own_degree() -> None:
    workload, machine = Workload(n=1024, d=8, tolerance=0.1, entry_bound=0.5), Machine.with_fast_bytes(2**16)
    plans = [
        plan_with(workload, machine, "feature-state", Tiles.of(degree=degree, key_tile=32)) for degree in (1, 2, 3)
    ]
    errors = [plan.certificate.guaranteed_error for plan in plans]
    assert errors[0] > 4 * errors[1] > 8 * errors[2]


def test_a_training_step_is_planned_exactly_or_not_at_all() -> None:
    from attenio.planning import training_plan

    with pytest.raises(InvalidInput, match="leave tolerance out"):
        training_plan(
            Workload(n=64, d=8, tolerance=0.1, entry_bound=0.1, direction="training"), Machine.with_fast_bytes(2**16)
        )
