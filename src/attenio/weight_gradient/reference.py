"""The definition of the weight gradient, in float64 [BW].

    f = softmax over required scores of scale A1 X A2^T      h = A3 Y      q = dO h^T
    p = f q - diag((f q) 1) f  (f q element by element)      dX = scale A1^T p A2      dY = A3^T f^T dO

>>> import numpy as np
>>> row, square = np.ones((4, 2)), np.eye(2)
>>> weight_gradients(WeightInputs(row, row, row, square, square, row), WeightGradient(n=4, d=2)).dy.tolist()
[[4.0, 4.0], [4.0, 4.0]]
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.reference.forward import SCORES_AT_ONCE, softmax
from attenio.weight_gradient.inputs import WeightInputs
from attenio.weight_gradient.workload import WeightGradient

Float64 = NDArray[np.float64]


class WeightGradients(NamedTuple):
    """Gradients with respect to X and Y."""

    dx: Float64
    dy: Float64


def weighted_attention(inputs: WeightInputs, workload: WeightGradient) -> Float64:
    """O of all rows; zero for rows that need no key."""
    a1, a2, a3, x, y, _ = (np.asarray(array, dtype=np.float64) for array in inputs)
    O = np.zeros_like(a1)  # noqa: E741 - the paper's letter
    for rows in _row_blocks(workload):
        O[rows] = _softmax(a1[rows] @ x @ a2.T, rows, workload) @ (a3 @ y)
    return O


def weight_gradients(inputs: WeightInputs, workload: WeightGradient) -> WeightGradients:
    """The gradient of sum(O * dO) with respect to X and Y."""
    a1, a2, a3, x, y, do = (np.asarray(array, dtype=np.float64) for array in inputs)
    dx, dy, h = np.zeros_like(x), np.zeros_like(y), a3 @ y
    for rows in _row_blocks(workload):
        f = _softmax(a1[rows] @ x @ a2.T, rows, workload)
        q = do[rows] @ h.T
        p = f * q - (f * q).sum(axis=1, keepdims=True) * f
        dx += workload.scale * (a1[rows].T @ p @ a2)
        dy += a3.T @ f.T @ do[rows]
    return WeightGradients(dx, dy)


def _row_blocks(workload: WeightGradient) -> list[slice]:
    height = max(1, SCORES_AT_ONCE // workload.keys)
    return [slice(top, min(top + height, workload.queries)) for top in range(0, workload.queries, height)]


def _softmax(scores: Float64, rows: slice, workload: WeightGradient) -> Float64:
    scores = workload.scale * scores
    scores[~workload.band.required(rows.start, rows.stop, np.arange(workload.keys, dtype=np.int64))] = -np.inf
    return softmax(scores)
