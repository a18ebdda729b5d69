"""The features compute what the polynomial says: attention with p in place of the exponential."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation.data import AttentionData
from attenio.approximation.evaluation import approximate_attention
from attenio.approximation.polynomials import minimax
from attenio.approximation.rounding import Summation


@settings(max_examples=17, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(0, 4), st.sampled_from([None, 1, 5]))
def test_it_is_attention_with_a_polynomial(seed: int, causal: bool, degree: int, tile: int | None) -> None:
    draw = np.random.default_rng(seed)
    group, rows, keys, d = (int(n) for n in draw.integers(1, (3, 30, 30, 5)))
    query = draw.uniform(-1, 1, (group, rows, d)).astype(np.float32)
    key, value = draw.uniform(-1, 1, (2, 1, keys, d)).astype(np.float32)
    head = next(AttentionData.of(query, key, value, causal=causal).heads())
    polynomial, centre = minimax(3.0, degree), draw.uniform(-0.2, 0.2, d).astype(np.float32)
    found = approximate_attention(head, polynomial, centre, Summation(key_tile=tile, feature_tile=tile))
    weights = polynomial(head.queries.astype(np.float64) @ (head.keys.astype(np.float64) - centre).T * head.scale)
    weights[np.arange(keys) > head.last_key(0, len(weights))[:, None]] = 0
    totals = weights.sum(axis=1, keepdims=True)
    seen = (weights != 0).any(axis=1)
    assert (found[~seen] == 0).all()
    # a polynomial of low degree may come near zero; then rounding says nothing
    firm = (np.abs(totals) > 0.05 * np.abs(weights).sum(axis=1, keepdims=True)).ravel() & seen & (totals.ravel() > 0.05)
    np.testing.assert_allclose(found[firm], (weights @ head.values / np.where(totals == 0, 1, totals))[firm], atol=2e-3)
