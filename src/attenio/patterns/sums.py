"""Exact sums over arithmetic sequences, in constant or logarithmic time, for integers and arrays alike.

Arrays are int64 unless a caller passes Python integers in an object array, which never overflow.

>>> sum(max(0, min(7, 3 * i - 4)) for i in range(1, 6)) == int(sum_clipped(1, 5, 3, -4, 7))
True
>>> sum((5 * i + 3) // 7 for i in range(11)) == floor_sum(11, 7, 5, 3)
True
"""

import numpy as np

from attenio.patterns.pattern import Counts

__all__ = ["ceil_div", "floor_sum", "sum_clipped", "sum_linear"]


def ceil_div(numerator: Counts, denominator: Counts) -> Counts:
    """The quotient rounded up."""
    return -(-numerator // denominator)


def sum_linear(first: Counts, last: Counts, slope: Counts, offset: Counts) -> Counts:
    """Sum of ``slope*i + offset`` for i from ``first`` to ``last`` inclusive; nothing if last < first."""
    count = np.maximum(last - first + 1, 0)
    return slope * ((first + last) * count // 2) + offset * count


def sum_clipped(first: Counts, last: Counts, step: Counts, offset: Counts, limit: Counts) -> Counts:
    """Sum of ``min(limit, max(0, step*i + offset))`` for i from ``first`` to ``last`` inclusive, step positive."""
    rises = np.maximum(first, -offset // step + 1)
    saturates = np.maximum(first, ceil_div(limit - offset, step))
    inside = sum_linear(rises, np.minimum(last, saturates - 1), step, offset)
    return inside + limit * np.maximum(last - np.maximum(saturates, rises) + 1, 0)


def floor_sum(count: Counts, modulus: Counts, slope: Counts, offset: Counts) -> Counts:
    """Sum of ``(slope*i + offset) // modulus`` for 0 <= i < count, by Euclid's descent; modulus positive."""
    if all(isinstance(value, int) for value in (count, modulus, slope, offset)):
        return _floor_sum_of_integers(count, modulus, slope, offset)
    n, m, a, b = (np.array(value) for value in np.broadcast_arrays(count, modulus, slope, offset))
    n = np.maximum(n, 0)
    total = np.zeros_like(n)
    live = n > 0
    while live.any():
        total = total + np.where(live, (n * (n - 1) // 2) * (a // m) + n * (b // m), 0)
        a, b = a % m, b % m
        reach = a * n + b
        n, b = np.where(live, reach // m, 0), reach % m
        m, a = np.where(live & (a > 0), a, 1), m
        live = live & (n > 0)
    return total


def _floor_sum_of_integers(n: int, m: int, a: int, b: int) -> int:
    total = 0
    while n > 0:
        total += (n * (n - 1) // 2) * (a // m) + n * (b // m)
        a, b = a % m, b % m
        reach = a * n + b
        n, b = reach // m, reach % m
        m, a = max(a, 1), m
    return total
