from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.weight_gradient import WeightGradient, bounds_for_weight_gradient, plan_weight_gradient, weight_candidates
from attenio.weight_gradient.bounds import meeting_epochs, meetings_per_epoch

from .laws import QUICK, weight_workloads

PROVEN = (Strength.ABSOLUTE, Strength.ORDINARY)


@QUICK
@given(weight_workloads(), st.integers(1, 3000))
def test_no_plan_beats_an_absolute_bound(workload, fast_words):
    absolute = [b for b in bounds_for_weight_gradient(workload, fast_words) if b.strength in PROVEN]
    assert absolute
    for plan in weight_candidates(workload, fast_words):
        assert all(plan.moved_words >= bound.words for bound in absolute)


@QUICK
@given(weight_workloads())
def test_the_growth_of_both_regimes_meets_at_d_squared(workload):
    *_, growth = bounds_for_weight_gradient(workload, workload.d**2)
    assert growth.words == workload.scores + workload.pattern.rows * workload.d
    assert growth.strength is Strength.ASYMPTOTIC


def test_traffic_falls_as_the_bound_does():
    """Four times the memory: a quarter of the words where it is large, half of them where it is small."""
    workload = WeightGradient(n=2**20, d=256)
    for dataflow, words, factor in (("one-pass", 2**18, 4.0), ("tiled-products", 2**12, 2.0)):
        moved = [
            next(p.moved_words for p in weight_candidates(workload, size) if p.dataflow.value == dataflow)
            for size in (words, 4 * words)
        ]
        fixed = 3 * workload.scores if factor == 2.0 else 0
        assert abs((moved[0] - fixed) / (moved[1] - fixed) / factor - 1) < 0.03
        growth = [bounds_for_weight_gradient(workload, size)[-1].words for size in (words, 4 * words)]
        assert abs(growth[0] / growth[1] / factor - 1) < 1e-6


def test_where_memory_is_large_the_best_plan_moves_five_halves_of_the_absolute_bound():
    workload = WeightGradient(n=2**20, d=64)
    absolute = max(b.words for b in bounds_for_weight_gradient(workload, 2**20) if b.strength in PROVEN)
    assert absolute == 4 * workload.scores * 64**2 // 2**20
    assert abs(plan_weight_gradient(workload, 2**20).moved_words / absolute - 2.5) < 0.08


@QUICK
@given(weight_workloads(), st.integers(1, 400))
def test_pair_epochs_is_the_better_of_its_two_forms(workload, fast_words):
    bound = bounds_for_weight_gradient(workload, fast_words)[1]
    Z, d = workload.scores, workload.d
    forms = [min(Z / 2, 4 * Z * d * d / fast_words)]
    if fast_words < 8 * d * d:
        forms.append(Z * (1 - fast_words / (16 * d * d)) - (16 * d * d - 2 * fast_words))
    assert bound.words == ceil(max(0.0, *forms) * (1 - 1e-12))


@pytest.mark.parametrize("d", [4.0, 64.0])
@pytest.mark.parametrize("share", [0.01, 0.3, 2.0])
def test_no_epoch_has_more_meetings_than_the_lemma_says(d, share):
    rng, budget, best = np.random.default_rng(5), max(4.0, share * d * d), 0.0
    some = rng.dirichlet(np.full(5, 0.5), 10_000)  # pairs, A1, parts of Q, A2, parts of X A2, then steps uphill
    for step in range(12):
        pairs, rows, parts, keys, key_parts = (some * budget).T
        projected = np.sqrt(pairs * keys * parts) + np.sqrt(pairs * rows * key_parts)
        meetings = np.sqrt(pairs * keys * (rows + parts)) + np.sqrt(pairs * rows * key_parts)
        meetings = np.minimum(meetings, projected + rows * keys / d)
        best = max(best, meetings.max())
        near = some[np.argsort(meetings)[-50:]].repeat(100, axis=0) * np.exp(rng.normal(0, 0.5 * 0.7**step, (5000, 5)))
        some = near / near.sum(axis=1, keepdims=True)
    assert 0.75 * meetings_per_epoch(budget, d) <= best <= meetings_per_epoch(budget, d) * (1 + 1e-12)


@pytest.mark.parametrize(("d", "fast_words", "least"), [(4096, 64, 3.9), (256, 64, 3.7), (64, 1024, 2.8)])
def test_small_fast_memories_pay_for_meetings_as_the_root_of_the_memory_says(d, fast_words, least):
    workload = WeightGradient(n=2**20, d=d)
    words = meeting_epochs(workload, fast_words).words + 2 * workload.scores
    assert least <= words / (workload.scores * d / fast_words**0.5) <= 4
