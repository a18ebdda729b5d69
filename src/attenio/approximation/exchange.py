"""Remez exchange: the polynomial whose relative error to the exponential is least on an interval.

The functions x^k e^(-x) are a Chebyshev system, so the best p has an error p(x) e^(-x) - 1 that takes its largest size
with alternating signs at degree + 2 points. Solve for it at guessed points, move them to the extrema of the error,
repeat. What comes out is good, not proven: the enclosure proves its error afterwards.
"""

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

_MOST_ROUNDS = 40
_POINTS_PER_DEGREE = 48
# The exchange has ended when the largest error exceeds the levelled one by less than this fraction.
_LEVEL = 1e-4


def exchanged(radius: float, degree: int) -> Float64:
    """Coefficients of 1, x, x², ... for e^x on [-radius, radius]."""
    count = _POINTS_PER_DEGREE * (degree + 2)
    grid = -np.cos(np.pi * np.arange(count + 1, dtype=np.int64) / count)
    weights = np.exp(-radius * grid)[:, None] * chebyshev.chebvander(grid, degree)
    chosen = np.rint(np.linspace(0, count, degree + 2)).astype(np.intp)
    best, best_error = np.zeros(degree + 1), np.inf
    for _ in range(_MOST_ROUNDS):
        signs = (-1.0) ** np.arange(degree + 2, dtype=np.int64)
        solution = np.linalg.solve(np.column_stack([weights[chosen], signs]), np.ones(degree + 2))
        error = np.asarray(weights @ solution[:-1] - 1.0, dtype=np.float64)
        largest, level = np.abs(error).max(), abs(solution[-1])
        if largest < best_error:
            best, best_error = solution[:-1], largest
        moved = _alternating_extrema(error, degree + 2)
        if moved is None or largest <= level * (1 + _LEVEL):
            break
        chosen = moved
    powers = chebyshev.cheb2poly(best)
    return np.asarray(powers / radius ** np.arange(len(powers), dtype=np.int64), dtype=np.float64)


def _alternating_extrema(error: Float64, count: int) -> NDArray[np.intp] | None:
    """One point of the largest error in each stretch of one sign; the ``count`` in a row that are largest."""
    starts = np.flatnonzero(np.diff(np.signbit(error))) + 1
    stretches = np.split(np.arange(len(error), dtype=np.int64), starts)
    extrema = np.array([stretch[np.argmax(np.abs(error[stretch]))] for stretch in stretches])
    while len(extrema) > count:
        # dropping from an end keeps the alternation
        extrema = extrema[1:] if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else extrema[:-1]
    return extrema if len(extrema) == count else None
