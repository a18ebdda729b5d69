import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.fast_products import strassen_product
from attenio.fast_products.equivalence import attention_by_products, product_by_attention

LAWS = settings(max_examples=14, deadline=None, derandomize=True)
sizes = st.integers(1, 9)


def definition(Q, K, V):
    """Attention row by row, with no product of matrices."""
    rows = []
    for q in Q:
        scores = [float(sum(a * b for a, b in zip(q, k, strict=True))) for k in K]
        weights = [np.exp(score - max(scores)) for score in scores]
        rows.append(sum(w * v for w, v in zip(weights, V, strict=True)) / sum(weights))
    return np.array(rows)


@LAWS
@given(rows=sizes, keys=sizes, d=sizes, width=st.integers(2, 6), seed=st.integers(0, 99))
def test_attention_gives_a_matrix_product(rows, keys, d, width, seed):
    rng = np.random.default_rng(seed)
    Q, K = rng.normal(size=(rows, d)), rng.normal(size=(keys, d))
    assert np.allclose(product_by_attention(Q, K, definition, width=width), Q @ K.T)


@LAWS
@given(rows=sizes, keys=sizes, d=sizes, dv=sizes, seed=st.integers(0, 99))
def test_a_fast_product_gives_attention(rows, keys, d, dv, seed):
    rng = np.random.default_rng(seed)
    Q, K, V = rng.normal(size=(rows, d)), rng.normal(size=(keys, d)), rng.normal(size=(keys, dv))

    def fast(left, right):
        return strassen_product(left, right.T, fast_words=32, levels=1).scores

    assert np.allclose(attention_by_products(Q, K, V, fast), definition(Q, K, V), atol=1e-4)


def test_values_of_one_column_cannot_tell_a_weight_from_the_reference():
    with pytest.raises(InvalidInput, match="values are 1 wide"):
        product_by_attention(np.ones((2, 2)), np.ones((2, 2)), definition, width=1)
