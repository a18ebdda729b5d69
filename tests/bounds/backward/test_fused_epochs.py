"""Fused epochs of the gradient: no epoch does more than the lemma says, and the bound approaches eight halves."""

import numpy as np
import pytest

from attenio.bounds.backward.fused_epochs import _weight_of_row_gradients, fused_gradient_epochs
from attenio.bounds.backward.gradient_rows import gradient_rows
from attenio.workload import Workload


@pytest.mark.parametrize(("d", "value_dim"), [(64.0, 64.0), (64.0, 40.0), (48.0, 96.0)])
def test_no_epoch_does_more_weighed_work_than_the_lemma_says(d: float, value_dim: float) -> None:
    rng = np.random.default_rng(7)
    for share in (0.02, 0.2, 0.6, 0.99):
        budget = share * min(4 * d * d / 3, 4 * value_dim**2)
        rest = 1 - budget / (4 * value_dim**2)
        weigh = _weight_of_row_gradients(budget / (4 * d * d))
        # early and late pairs; Q, K, dO, V; dV, dQ, dK: shares of the budget, then steps uphill from the best ones
        some, best = rng.dirichlet(np.full(9, 0.5), 20_000) * budget, 0.0
        for step in range(12):
            early, late, q, k, do, v, dv, dq, dk = some.T
            fresh, fresh_late = q * k / d**2, do * v / value_dim**2
            work = rest * np.sqrt(late * do * v) + np.sqrt(rest * (early + fresh) * do * dv)
            work += weigh * np.sqrt(late + fresh_late) * (np.sqrt(k * dq) + np.sqrt(q * dk))
            best = max(best, work.max())
            good = some[np.argsort(work)[-100:]].repeat(50, axis=0)
            near = good * np.exp(rng.normal(0, 0.5 * 0.7**step, good.shape))
            some = near / near.sum(axis=1, keepdims=True) * budget
        assert 0.85 * (budget / 3) ** 1.5 <= best <= (budget / 3) ** 1.5 * (1 + 1e-12)


def test_small_fast_memories_pay_for_four_products_and_large_ones_are_left_to_other_bounds() -> None:
    workload = Workload(n=4096, d=128, direction="backward")
    words = fused_gradient_epochs(workload, 86).words
    assert 0.97 < words / (8 * workload.scores * 128 / 86**0.5 - workload.scores) <= 1
    assert words > 1.25 * gradient_rows(workload, 86).words
    assert fused_gradient_epochs(workload, 2 * 128**2 // 3).words > 0
    assert fused_gradient_epochs(workload, 2 * 128**2 // 3 + 1).words == 0


@pytest.mark.parametrize(("d", "value_dim"), [(64.0, 64.0), (64.0, 40.0), (48.0, 96.0)])
def test_no_epoch_does_more_products_of_four_kinds_than_the_second_lemma_says(d: float, value_dim: float) -> None:
    rng, narrow = np.random.default_rng(9), min(d, value_dim)
    for share in (0.05, 0.4, 1.0, 4 / 3):
        budget = share * narrow**2
        some, best = rng.dirichlet(np.full(9, 0.4), 20_000) * budget, 0.0
        for step in range(14):
            early, late, q, k, do, v, dv, dq, dk = some.T
            fresh, fresh_late = q * k / d**2, do * v / value_dim**2
            work = np.sqrt(late * do * v) + np.sqrt((early + fresh) * do * dv)
            work += np.sqrt(late + fresh_late) * (np.sqrt(k * dq) + np.sqrt(q * dk))
            best = max(best, work.max())
            near = some[np.argsort(work)[-100:]].repeat(50, axis=0)
            near *= np.exp(rng.normal(0, 0.6 * 0.7**step, near.shape))
            some = near / near.sum(axis=1, keepdims=True) * budget
        assert 0.9 <= best / (budget / 3) ** 1.5 <= 1 + share / 16
