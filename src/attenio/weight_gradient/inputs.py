"""Inputs of a weight gradient: random ones, or the caller's, checked and rounded to the element type."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.dataflows.inputs import checked_array
from attenio.errors import InvalidInput
from attenio.weight_gradient.workload import WeightGradient


class WeightInputs(NamedTuple):
    """Rows of queries, keys and values before their weights; the weights; and the gradient of the output."""

    a1: NDArray[np.float32]
    a2: NDArray[np.float32]
    a3: NDArray[np.float32]
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    do: NDArray[np.float32]


def _shapes(workload: WeightGradient) -> tuple[tuple[int, int], ...]:
    queries, keys, square = (workload.queries, workload.d), (workload.keys, workload.d), (workload.d, workload.d)
    return (queries, keys, keys, square, square, queries)


def random_weight_inputs(workload: WeightGradient, seed: int = 0) -> WeightInputs:
    """Normal random inputs; weights are smaller by sqrt(d), as layers are initialised, and X by sqrt(d) again.

    Scores then have a variance near 1 whatever the width.

    >>> random_weight_inputs(WeightGradient(queries=3, keys=5, d=2)).a3.shape
    (5, 2)
    """
    draw = np.random.default_rng(seed)
    arrays = [draw.standard_normal(shape, dtype=np.float32) for shape in _shapes(workload)]
    arrays[3] /= np.float32(workload.d)
    arrays[4] /= np.float32(workload.d) ** np.float32(0.5)
    return WeightInputs(*(workload.dtype.rounded(array) for array in arrays))


def checked_weight_inputs(workload: WeightGradient, given: tuple[ArrayLike, ...]) -> WeightInputs:
    """The caller's a1, a2, a3, x, y and do rounded to the element type, or an error that says which is wrong."""
    names = WeightInputs._fields
    if len(given) != len(names):
        raise InvalidInput(f"inputs are {len(given)} arrays; give six: {', '.join(names)}")
    arrays = zip(names, given, _shapes(workload), strict=True)
    return WeightInputs(*(checked_array(name, array, shape, workload.dtype) for name, array, shape in arrays))
