"""Attention gives a matrix product, and a matrix product gives attention: both reductions, to run.

With one more key of zeros, whose score is 0, attention over values that are unit vectors returns the weights, and the
logarithm of a weight over that of the zero key is a score. So whatever attends multiplies matrices, and the other way
round attention is two products with a softmax in between (Saha and Ye 2024; docs/theory/equivalence.md).

>>> rng = np.random.default_rng(0)
>>> Q, K = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
>>> np.allclose(product_by_attention(Q, K, softmax_attention), Q @ K.T)
True
>>> V = rng.normal(size=(4, 2))
>>> np.allclose(attention_by_products(Q, K, V, np.matmul), softmax_attention(Q, K, V))
True
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput

Matrix = NDArray[np.float64]
Attend = Callable[[Matrix, Matrix, Matrix], Matrix]
Multiply = Callable[[Matrix, Matrix], Matrix]


def softmax_attention(Q: Matrix, K: Matrix, V: Matrix) -> Matrix:
    """softmax(QKᵀ)V by its definition, without a scale."""
    return attention_by_products(Q, K, V, np.matmul)


def attention_by_products(Q: Matrix, K: Matrix, V: Matrix, multiply: Multiply) -> Matrix:
    """softmax(QKᵀ)V with both products made by ``multiply``, a fast one if you like."""
    scores = multiply(Q, np.ascontiguousarray(K.T))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(multiply(weights, V) / weights.sum(axis=1, keepdims=True))


def product_by_attention(Q: Matrix, K: Matrix, attend: Attend, *, width: int | None = None) -> Matrix:
    """QKᵀ by attention with values ``width`` wide (as wide as keys and one more by default), some keys at a time."""
    width = Q.shape[1] + 1 if width is None else width
    if width < 2:
        raise InvalidInput(f"values are {width} wide; a weight and that of the zero key take 2")
    columns = []
    for first in range(0, len(K), width - 1):
        some = K[first : first + width - 1]
        keys = np.concatenate([np.zeros((1, K.shape[1])), some])
        weights = attend(Q, keys, np.eye(len(keys), width))[:, : len(keys)]
        columns.append(np.log(weights[:, 1:]) - np.log(weights[:, :1]))
    return np.concatenate(columns, axis=1)
