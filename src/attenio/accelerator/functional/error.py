"""How far half precision can be from the definition: a bound that holds for every input without overflow.

Let u be half a unit of rounding and e the error of the EXP unit. A score is a chain of at most d + 2 roundings, so it
is off by at most E = ((1 + u)^(d+2) - 1) A with A the largest sum |q||k| scaled. Its maximum is the same for
all keys of a row and cancels; the difference is rounded once, which costs u of 18 at most (further below, the weight is
zero). A weight is therefore right up to a factor exp(E + 18 u)(1 + e), and each of the T rounds rescales it, at worst,
with another (1 + e) exp(u times the step), the steps adding up to 18, and rounds it twice. Numerator and denominator of
the output carry such a factor each. Numbers too small for half precision add half of the smallest one at each rounding.

The bound is the worst case, and errors in practice are a thousandth of it; it grows with exp(T u). Where it reaches the
largest value, at a few dozen keys of width 64, it says nothing and is infinite.
"""

import math

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.exponential import SMALLEST, ExpApproximation, relative_error
from attenio.dataflows.inputs import Inputs
from attenio.workload import Workload

# half a unit of half precision, and of the single precision in which a sum is taken first
_UNIT = 2.0**-11 + 2.0**-24
_LARGEST = 65504.0
_DEEPEST = 18.0


def error_bound(inputs: Inputs, workload: Workload, kind: ExpApproximation = ExpApproximation.TABLE) -> float:
    """The largest error that any output may have; infinite where nothing can be promised."""
    q, k, v = inputs
    scale, keys = abs(workload.softmax_scale), workload.keys
    largest = _largest_score(q, k, workload)
    values = float(np.abs(v).max())
    if max(largest, keys, values * keys) >= _LARGEST:
        return math.inf
    most_q, most_k = float(np.abs(q).max()), float(np.abs(k).max())
    tiny = SMALLEST * (workload.d + 2) * (1 + most_k + scale * most_q)
    score = math.expm1((workload.d + 2) * math.log1p(_UNIT)) * largest + tiny
    logarithm = score + 2 * _DEEPEST * _UNIT + (keys + 1) * math.log1p(relative_error(kind))
    logarithm += (2 * keys + 2) * math.log1p(_UNIT)
    # every key may lose half of the smallest number in its weight, its rescaling and its sum
    lost = 4 * keys * SMALLEST
    if logarithm > 1:
        return math.inf
    factor = math.exp(2 * logarithm)
    bound = values * ((factor - 1) + 2 * lost * factor + _UNIT * factor) + SMALLEST
    return bound if bound < values else math.inf


def _largest_score(q: NDArray[np.float32], k: NDArray[np.float32], workload: Workload) -> float:
    """The largest sum |q||k|, scaled, over all rows and keys."""
    most = 0.0
    for batch in range(workload.batch):
        for head in range(workload.heads):
            left, right = np.abs(q[batch, head]), np.abs(k[batch, head // workload.group])
            most = max(most, float((left.astype(np.float64) @ right.T.astype(np.float64)).max()))
    return most * abs(workload.softmax_scale)
