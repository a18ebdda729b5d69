"""Unread values: the number of keys that may be skipped, against skipping them and against an adversary."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.bounds.approximate import skippable_keys, unread_values
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)


def weight_of(unread: int, keys: int, reach: float) -> float:
    """The most that unread keys can weigh among all of a row, from the definition of softmax."""
    scores = np.where(np.arange(keys) < unread, reach, -reach)
    weights = np.exp(scores - scores.max())
    return float(weights[:unread].sum() / weights.sum())


@laws
@given(st.integers(1, 3000), st.integers(1, 24), st.floats(0.001, 1.9), st.floats(0.01, 0.8))
def test_as_many_keys_as_may_be_skipped_keep_the_tolerance_and_one_more_does_not(
    keys: int, d: int, tolerance: float, bound: float
) -> None:
    workload = Workload(n=keys, d=d, tolerance=tolerance, entry_bound=bound)
    reach, found = d * bound**2 * workload.softmax_scale, skippable_keys(workload, keys)
    assert weight_of(found, keys, reach) <= tolerance / 2 * (1 + 1e-9)
    assert weight_of(found + 1, keys, reach) > tolerance / 2 * (1 - 1e-9) or found == keys


def test_leaving_keys_out_moves_less_than_compulsory_words_and_no_less_than_the_bound() -> None:
    workload = Workload(n=4096, d=16, tolerance=0.1, entry_bound=0.1)
    skipped = skippable_keys(workload, 4096)
    rng = np.random.default_rng(0)
    Q, K = (rng.uniform(-0.1, 0.1, size=(4096, 16)) for _ in range(2))
    V = rng.normal(size=(4096, 16))
    weights = np.exp(Q @ K.T / 4)
    full = weights @ V / weights.sum(axis=1, keepdims=True)
    kept = weights[:, skipped:]
    near = kept @ V[skipped:] / kept.sum(axis=1, keepdims=True)
    assert (abs(near - full) / (np.ptp(V, axis=0) / 2)).max() <= 0.1
    assert skipped == 189
    moved = workload.compulsory_words - 2 * skipped * 16
    assert unread_values(workload).words <= moved < workload.compulsory_words
    assert unread_values(workload).strength is Strength.ABSOLUTE


@pytest.mark.parametrize("mask", ["dense", "causal", "window:7", "window:9:both", "documents:30,34", "prefix:20"])
@pytest.mark.parametrize("entry_bound", [None, 0.05, 0.4])
@pytest.mark.parametrize("direction", ["forward", "backward", "training"])
def test_it_never_exceeds_what_reading_everything_once_moves(
    mask: str, entry_bound: float | None, direction: str
) -> None:
    queries = 40 if mask.startswith("prefix") else 64
    workload = Workload(
        queries=queries, keys=64, d=8, heads=4, kv_heads=2, batch=3, mask=mask, tolerance=0.2,
        entry_bound=entry_bound, direction=direction,
    )  # fmt: skip
    assert unread_values(workload).words <= workload.compulsory_words


def test_without_a_bound_on_entries_every_value_is_read() -> None:
    workload = Workload(n=64, d=8, tolerance=0.2, mask="causal")
    assert unread_values(workload).words == 2 * 64 * 8
    assert skippable_keys(workload, 64) == 0
    assert math.isfinite(unread_values(Workload(n=64, d=8, tolerance=0.2, entry_bound=1e6)).words)
