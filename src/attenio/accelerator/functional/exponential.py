"""What a module of the EXP unit computes: a power of two by shifting, the rest from a table of 32 chords.

    t = x log2(e), in fixed point with 16 bits after the point
    k, f = whole and fractional part of t
    2^f  = chord of the table's interval that f lies in: a value, a slope, one multiplication
    exp(x) = 2^k 2^f, rounded to half precision

The chords pass through the ends of their intervals, so that exp(0) is exactly 1 (a row whose maximum stays is not
rescaled) and the function is monotone. A chord over 1/32 of an octave is at most (ln 2 / 32)^2 / 8 = 5.9e-5 too high,
an eighth of the rounding that follows. The inputs are scores less their maximum: never positive.

The paper does not say what its modules compute. Beside this choice there are the exponential itself, rounded, and one
chord for the whole octave [Schraudolph 1999], an adder and a shifter, to see what a better or a cheaper module gives.

>>> float(exponential(np.float16(0))), float(exponential(np.float16(-np.inf)))
(1.0, 0.0)
>>> round(float(exponential(np.float16(-1))), 4), round(float(exponential(np.float16(-1), ExpApproximation.LINEAR)), 4)
(0.3679, 0.3894)
"""

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FRACTION_BITS = 16
# Below this everything rounds to zero.
_LOWEST = -18.0

SMALLEST = 2.0**-24


class ExpApproximation(Enum):
    """What the modules compute of 2^f for f between 0 and 1."""

    TABLE = "table"  # 32 chords: what the unit is taken to have
    LINEAR = "linear"  # one chord: 1 + f
    ROUNDED = "rounded"  # the exponential itself


_TABLE_BITS = {ExpApproximation.TABLE: 5, ExpApproximation.LINEAR: 0}
_ENDS = {kind: np.exp2(np.arange(2**bits + 1, dtype=np.int64) / 2**bits) for kind, bits in _TABLE_BITS.items()}


def relative_error(kind: ExpApproximation) -> float:
    """The largest relative error of a result that is a normal number; below, half of the smallest number is added.

    It is half a unit of rounding, and for chords half a unit of the fixed point and how far the chord lies above.

    >>> [round(relative_error(kind), 6) for kind in ExpApproximation]
    [0.000552, 0.062, 0.000488]
    """
    rounding = 2.0**-11
    if kind is ExpApproximation.ROUNDED:
        return rounding
    fixed = float(np.log(2)) * 2.0 ** -(_FRACTION_BITS + 1)
    return (1 + _chord_error(2.0 ** -_TABLE_BITS[kind])) * (1 + rounding) * (1 + fixed) - 1


def _chord_error(width: float) -> float:
    """How much a chord over ``width`` octaves exceeds 2^f at most, relatively.

    (1 + g f) 2^-f with slope g = (2^w - 1) / w is stationary at f = 1 / ln 2 - 1 / g.
    """
    slope = (2.0**width - 1) / width
    at = 1 / float(np.log(2)) - 1 / slope
    return float((1 + slope * at) * 2.0**-at - 1)


def exponential(x: NDArray[Any] | np.float16, kind: ExpApproximation = ExpApproximation.TABLE) -> NDArray[np.float16]:
    """What the unit gives for half-precision numbers that are not positive."""
    clipped = np.maximum(np.asarray(x, dtype=np.float64), _LOWEST)
    if kind is ExpApproximation.ROUNDED:
        return np.asarray(np.exp(clipped).astype(np.float16))
    fixed = np.rint(clipped * np.log2(np.e) * 2**_FRACTION_BITS).astype(np.int64)
    whole, fraction = fixed >> _FRACTION_BITS, fixed & (2**_FRACTION_BITS - 1)
    rest_bits = _FRACTION_BITS - _TABLE_BITS[kind]
    interval, within = fraction >> rest_bits, fraction & (2**rest_bits - 1)
    ends = _ENDS[kind]
    chord = ends[interval] + (ends[interval + 1] - ends[interval]) * (within / 2**rest_bits)
    return np.asarray(np.ldexp(chord, whole).astype(np.float16))
