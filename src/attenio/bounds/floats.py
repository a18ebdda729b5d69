"""Arithmetic of one float or of an array of floats, one for every point of a sweep.

One number stays a float of Python all the way, which is several times as fast as NumPy and gives the same digits.
"""

from collections.abc import Callable
from math import ceil, floor, sqrt
from typing import Any

import numpy as np

# A float, or an array of floats; a bound is written once for both.
Floats = Any


def root(value: Floats) -> Floats:
    """The square root."""
    return sqrt(value) if type(value) is float else np.sqrt(value)


def cube_root(value: Floats) -> Floats:
    """The cube root; that of the standard library has other last digits than NumPy's."""
    return float(np.cbrt(value)) if type(value) is float else np.cbrt(value)


def rounded_up(value: Floats) -> Floats:
    """The least whole number that is not smaller."""
    return float(ceil(value)) if type(value) is float else np.ceil(value)


def rounded_down(value: Floats) -> Floats:
    """The largest whole number that is not larger."""
    return float(floor(value)) if type(value) is float else np.floor(value)


def larger(left: Floats, right: Floats) -> Floats:
    """The larger of two, element by element."""
    if type(left) is float and type(right) is float:
        return left if left > right else right
    return np.maximum(left, right)


def smaller(left: Floats, right: Floats) -> Floats:
    """The smaller of two, element by element."""
    if type(left) is float and type(right) is float:
        return left if left < right else right
    return np.minimum(left, right)


def where(condition: Floats, yes: Floats, no: Floats) -> Floats:
    """``yes`` where the condition holds and ``no`` elsewhere."""
    if type(condition) is bool:
        return yes if condition else no
    return np.where(condition, yes, no)


def any_of(condition: Floats) -> bool:
    """Whether a condition holds, for any element."""
    return condition if type(condition) is bool else bool(np.any(condition))


def only_where(condition: Floats, compute: Callable[..., Floats], otherwise: Floats, *given: Floats) -> Floats:
    """What is computed of what is given, at the points where the condition holds alone, and ``otherwise`` elsewhere.

    >>> only_where(np.array([True, False]), root, 0.0, np.array([4.0, -1.0]))
    array([2., 0.])
    """
    if type(condition) is bool:
        return compute(*given) if condition else otherwise
    shape = np.broadcast_shapes(np.shape(condition), np.shape(otherwise), *map(np.shape, given))
    chosen, found = np.broadcast_to(condition, shape), np.array(np.broadcast_to(otherwise, shape), dtype=float)
    if chosen.any():
        found[chosen] = compute(
            *(each if type(each) is float else np.broadcast_to(each, shape)[chosen] for each in given)
        )
    return found
