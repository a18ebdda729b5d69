"""How the EXP unit takes exponentials, in fp16.

exp(x) is 2^(x log2 e): the whole part of the exponent becomes the exponent of the result, and the rest, between 0 and
1, goes through a table or a line.

>>> x = np.linspace(-8, 0, 4001, dtype=np.float16)
>>> [float(f"{relative_error(kind, x):.0e}") for kind in ExpApproximation]
[0.0005, 0.06, 0.0007]
"""

from enum import Enum
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExpApproximation", "exponentials", "relative_error"]

_Halves = NDArray[np.float16]


class ExpApproximation(Enum):
    """What the modules compute of 2^f for f between 0 and 1."""

    ROUNDED = "rounded"  # the exponential itself, rounded to fp16
    LINEAR = "linear"  # 1 + f [Schraudolph 1999]: an adder and a shifter
    TABLE = "table"  # lines through 16 equal pieces


def exponentials(kind: ExpApproximation, values: NDArray[Any]) -> _Halves:
    """Exponentials of values up to zero, as the unit gives them; minus infinity gives zero."""
    exact = values.astype(np.float64)
    if kind is ExpApproximation.ROUNDED:
        return np.exp(exact).astype(np.float16)
    exponent = np.maximum(exact * np.log2(np.e), -64.0)
    whole = np.floor(exponent)
    found: _Halves = np.ldexp(_fraction(kind, exponent - whole), whole.astype(np.int64)).astype(np.float16)
    return found


def _fraction(kind: ExpApproximation, fraction: NDArray[np.float64]) -> NDArray[np.float64]:
    match kind:
        case ExpApproximation.LINEAR:
            return 1.0 + fraction
        case ExpApproximation.TABLE:
            pieces = 16
            index = np.minimum(np.floor(fraction * pieces), pieces - 1)
            low, high = np.exp2(index / pieces), np.exp2((index + 1) / pieces)
            return np.asarray(low + (high - low) * (fraction * pieces - index))
        case ExpApproximation.ROUNDED:
            return np.exp2(fraction)
        case _:
            assert_never(kind)


def relative_error(kind: ExpApproximation, values: NDArray[Any]) -> float:
    """The largest relative error over these values."""
    exact = np.exp(values.astype(np.float64))
    return float(np.max(np.abs(exponentials(kind, values).astype(np.float64) / exact - 1)))
