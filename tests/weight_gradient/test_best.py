from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.errors import DoesNotFit, InvalidInput
from attenio.weight_gradient import (
    WeightDataflow,
    WeightGradient,
    execute_weight_gradient,
    plan_weight_gradient,
    weight_candidates,
)

from .laws import FEWER, QUICK, Counts, phases, weight_workloads


def fewest(counts, dataflow, fast_words):
    """The fewest words over all tiles of all phases that fit, by trying each; None if a phase has none."""
    total = 0
    for _, limits, words, room in phases(counts, dataflow):
        found = [
            words(*sizes) for sizes in product(*(range(1, limit + 1) for limit in limits)) if room(*sizes) <= fast_words
        ]
        if not found:
            return None
        total += min(found)
    return total


@QUICK
@given(weight_workloads(longest=16), st.data())
def test_the_plan_of_every_dataflow_is_the_best_of_all_tiles_tried_one_by_one(workload, data):
    counts = Counts.of(workload)
    enough = (5 * counts.w + 2) * counts.n * counts.d + 6 * counts.n * counts.w + 2 * counts.d
    fast_words = data.draw(st.integers(1, enough))
    tried = {dataflow: fewest(counts, dataflow, fast_words) for dataflow in WeightDataflow}
    plans = weight_candidates(workload, fast_words)
    assert {plan.dataflow: plan.moved_words for plan in plans} == {k: v for k, v in tried.items() if v is not None}
    assert all(plan.peak_words <= fast_words for plan in plans)
    if plans:
        best = plan_weight_gradient(workload, fast_words)
        assert best.moved_words == min(words for words in tried.values() if words is not None)


@FEWER
@given(st.integers(30, 70), st.integers(30, 70), st.integers(1, 8), st.integers(1, 40), st.integers(40, 3000))
def test_longer_masked_problems_are_planned_exactly_too(queries, keys, d, width, fast_words):
    mask = "causal" if width > 20 else f"window:{width}"
    workload = WeightGradient(queries=queries, keys=keys, d=d, mask=mask, dtype="fp16")
    counts = Counts.of(workload)
    for plan in weight_candidates(workload, fast_words):
        if plan.dataflow is not WeightDataflow.TILED_PRODUCTS:
            assert plan.moved_words == fewest(counts, plan.dataflow, fast_words)


@FEWER
@given(weight_workloads(), st.integers(13, 2000))
def test_a_run_of_the_best_plan_moves_and_holds_what_it_says(workload, fast_words):
    plan = plan_weight_gradient(workload, fast_words)
    run = execute_weight_gradient(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)


@FEWER
@given(weight_workloads())
def test_more_memory_never_moves_more(workload):
    words = [plan_weight_gradient(workload, size).moved_words for size in (13, 20, 40, 80, 160, 320, 640, 1280)]
    assert all(more <= less for less, more in pairwise(words))


@FEWER
@given(weight_workloads())
def test_with_room_for_all_keys_and_weights_only_compulsory_words_move(workload):
    m, d, w = workload.pattern.keys, workload.d, workload.accumulator_words
    enough = 2 * m * d + 2 * d * d * (1 + w) + 2 * d + 5 * d * w + 5 * w
    assert plan_weight_gradient(workload, enough).moved_words == workload.compulsory_words


@FEWER
@given(weight_workloads())
def test_with_room_for_all_rows_only_compulsory_words_move(workload):
    n, d, w = workload.pattern.rows, workload.d, workload.accumulator_words
    plan = plan_weight_gradient(workload, n * (2 * d + 5 * d * w + 5 * w) + 2 * d)
    assert plan.moved_words == workload.compulsory_words


@pytest.mark.parametrize("mask", ["dense", "causal", "window:1000"])
def test_a_long_problem_is_planned_without_trying_every_tile(mask):
    workload = WeightGradient(n=2**22, d=128, mask=mask)
    for fast_words in (2**13, 2**17, 2**27):
        plan = plan_weight_gradient(workload, fast_words)
        assert workload.compulsory_words <= plan.moved_words
        assert plan.peak_words <= fast_words


def test_every_dataflow_moves_the_least_somewhere():
    workload = WeightGradient(n=8192, d=64)
    best = {plan_weight_gradient(workload, int(x * 4096)).dataflow for x in (0.5, 1, 1.5, 3, 10, 1000)}
    few_rows = WeightGradient(queries=16, keys=8192, d=64)
    assert best | {plan_weight_gradient(few_rows, 10_000).dataflow} == set(WeightDataflow)


@pytest.mark.parametrize(("accumulator", "least"), [(None, 7), ("fp32", 13)])
def test_the_least_memory_is_that_of_one_score(accumulator, least):
    workload = WeightGradient(n=5, d=3, accumulator=accumulator)
    assert plan_weight_gradient(workload, least).dataflow is WeightDataflow.TILED_PRODUCTS
    with pytest.raises(DoesNotFit, match=f"tiled-products needs {least} words"):
        plan_weight_gradient(workload, least - 1)


def test_a_dataflow_can_be_asked_for_by_name():
    workload = WeightGradient(n=64, d=8)
    assert plan_weight_gradient(workload, 2000, "two-pass").dataflow is WeightDataflow.TWO_PASS
    with pytest.raises(InvalidInput, match="unknown dataflow 'flat'"):
        plan_weight_gradient(workload, 2000, "flat")
    with pytest.raises(DoesNotFit, match="no tile of fused fits 20 words"):
        plan_weight_gradient(workload, 20, "fused")


def test_in_the_large_regime_ten_n2_d2_words_over_the_memory_move():
    n, d, words = 2**20, 64, 2**20
    plan = plan_weight_gradient(WeightGradient(n=n, d=d), words)
    assert abs(plan.moved_words / (10 * n * n * d * d / words) - 1) < 0.03


def test_in_the_small_regime_eight_n2_d_words_over_the_tile_and_three_n2_move():
    n, d, words = 2**20, 256, 2**12
    plan = plan_weight_gradient(WeightGradient(n=n, d=d), words)
    assert plan.dataflow is WeightDataflow.TILED_PRODUCTS
    assert abs(plan.moved_words / (8 * n * n * d / words**0.5 + 3 * n * n) - 1) < 0.06
