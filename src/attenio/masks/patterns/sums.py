"""Exact sums over arithmetic sequences, in constant or logarithmic time, for integers and arrays alike.

Python integers stay Python integers all the way, which is exact at any size and several times faster than NumPy for
one number at a time. Arrays are int64.

>>> sum(max(0, min(7, 3 * i - 4)) for i in range(1, 6)) == sum_clipped(1, 5, 3, -4, 7)
True
>>> sum((5 * i + 3) // 7 for i in range(11)) == floor_sum(11, 7, 5, 3)
True
>>> sum(5 * i % 7 for i in range(1, 11)) == sum_of_residues(10, 5, 7)
True
"""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts

# Up to this many sums, one by one in Python integers is faster than in arrays.
_FEW = 40
# Up to this many terms in all, adding them up is faster still.
_TERMS = 2048
# From this many quotients on, floating point is several times faster than integer division, where it is exact.
_MANY = 2048
_EXACT = 2**51


def floor_div(numerator: Counts, denominator: Counts) -> Counts:
    """The quotient rounded down."""
    if (
        type(numerator) is np.ndarray
        and (numerator.size >= _MANY or numerator.ndim > 1)
        and (_floats_are_quick_and_exact(numerator, denominator))
    ):
        return np.floor(numerator / denominator).astype(np.int64)
    return numerator // denominator


def ceil_div(numerator: Counts, denominator: Counts) -> Counts:
    """The quotient rounded up."""
    if (
        type(numerator) is np.ndarray
        and (numerator.size >= _MANY or numerator.ndim > 1)
        and (_floats_are_quick_and_exact(numerator, denominator))
    ):
        return np.ceil(numerator / denominator).astype(np.int64)
    return -(-numerator // denominator)


def _floats_are_quick_and_exact(numerator: NDArray[np.int64], denominator: Counts) -> bool:
    """Whether there are many quotients, and in floating point these round to the right integer.

    A quotient that is not an integer is at least 1/denominator away from one; rounding moves it by less if numerator
    and denominator together are below 2^53. NumPy divides by one number quickly enough.
    """
    if type(denominator) is not np.ndarray:
        return False
    outer = numerator.ndim > denominator.ndim  # every one of these by every one of those
    if numerator.size * (denominator.size if outer else 1) < _MANY:
        return False
    if denominator.min() < 1 or denominator.max() >= _EXACT:
        return False
    return bool(numerator.min() > -_EXACT and numerator.max() < _EXACT)


def smaller(left: Counts, right: Counts) -> Counts:
    """The smaller of two counts, element by element."""
    if type(left) is int and type(right) is int:
        return left if left < right else right
    return np.minimum(left, right)


def larger(left: Counts, right: Counts) -> Counts:
    """The larger of two counts, element by element."""
    if type(left) is int and type(right) is int:
        return left if left > right else right
    return np.maximum(left, right)


def where(condition: Counts, yes: Counts, no: Counts) -> Counts:
    """``yes`` where the condition holds and ``no`` elsewhere."""
    if type(condition) is bool and type(yes) is int and type(no) is int:
        return yes if condition else no
    return np.where(condition, yes, no)


def clip(value: Counts, limit: Counts) -> Counts:
    """``value`` brought into the range from zero to ``limit``."""
    if type(value) is int and type(limit) is int:
        return 0 if value < 0 else (limit if value > limit else value)
    return np.minimum(np.maximum(value, 0), limit)


def sum_linear(first: Counts, last: Counts, slope: Counts, offset: Counts) -> Counts:
    """Sum of ``slope*i + offset`` for i from ``first`` to ``last`` inclusive; nothing if last < first."""
    count = larger(last - first + 1, 0)
    return slope * ((first + last) * count // 2) + offset * count


def sum_clipped(first: Counts, last: Counts, step: Counts, offset: Counts, limit: Counts) -> Counts:
    """Sum of ``min(limit, max(0, step*i + offset))`` for i from ``first`` to ``last`` inclusive, step positive."""
    if type(step) is int and type(first) is int and type(last) is int and type(offset) is int and type(limit) is int:
        return sum_clipped_of_integers(first, last, step, offset, limit)
    rises = larger(first, floor_div(-offset, step) + 1)
    saturates = larger(first, ceil_div(limit - offset, step))
    inside = sum_linear(rises, smaller(last, saturates - 1), step, offset)
    return inside + limit * larger(last - larger(saturates, rises) + 1, 0)


def sum_clipped_of_integers(first: int, last: int, step: int, offset: int, limit: int) -> int:
    """The same where all of these are integers of Python, for those who know that they are."""
    rises, saturates = -offset // step + 1, -((offset - limit) // step)
    rises = rises if rises > first else first
    saturates = saturates if saturates > first else first
    end = last if last < saturates else saturates - 1
    inside = step * ((rises + end) * (end - rises + 1) // 2) + offset * (end - rises + 1) if end >= rises else 0
    level = saturates if saturates > rises else rises
    return inside + limit * (last - level + 1) if last >= level else inside


def floor_sum(count: Counts, modulus: Counts, slope: Counts, offset: Counts) -> Counts:
    """Sum of ``(slope*i + offset) // modulus`` for 0 <= i < count, by Euclid's descent.

    ``modulus`` is positive, ``slope`` and ``offset`` are not negative.
    """
    if type(count) is int and type(modulus) is int and type(slope) is int and type(offset) is int:
        return _floor_sum_of_integers(count, modulus, slope, offset)
    zeros = np.zeros(np.broadcast(count, modulus, slope, offset).shape, dtype=np.int64)
    n, m, a, b = ((zeros + value).ravel() for value in (count, modulus, slope, offset))
    total = zeros.ravel()
    live = np.flatnonzero(n > 0)
    n, m, a, b = n[live], m[live], a[live], b[live]
    if live.size and live.size * int(n.max()) <= _TERMS:
        i = np.arange(int(n.max()), dtype=np.int64)
        terms = (a[:, None] * i + b[:, None]) // m[:, None]
        total[live] = np.where(i < n[:, None], terms, 0).sum(axis=1)
        return total.reshape(zeros.shape)
    if live.size <= _FEW:
        parts = zip(n.tolist(), m.tolist(), a.tolist(), b.tolist(), strict=True)
        total[live] = [_floor_sum_of_integers(*part) for part in parts]
        return total.reshape(zeros.shape)
    while live.size:
        steps, a = np.divmod(a, m)
        whole, b = np.divmod(b, m)
        total[live] += (n * (n - 1) // 2) * steps + n * whole
        n, b = np.divmod(a * n + b, m)
        keep = np.flatnonzero(n)
        # Most sums end after one or two steps; dropping them keeps the rest cheap.
        live, n, m, a, b = live[keep], n[keep], a[keep], m[keep], b[keep]
    return total.reshape(zeros.shape)


def _floor_sum_of_integers(n: int, m: int, a: int, b: int) -> int:
    total = 0
    while n > 0:
        steps, a = divmod(a, m)
        whole, b = divmod(b, m)
        total += (n * (n - 1) // 2) * steps + n * whole
        n, b = divmod(a * n + b, m)
        m, a = a, m
    return total


def sum_of_residues(count: Counts, step: Counts, modulus: int) -> Counts:
    """Sum of ``step*i mod modulus`` for i from 1 to ``count``; steps are not negative and below the modulus.

    Residues repeat, so that only the last, incomplete period is summed up. In arrays the modulus is below 2^31: two
    products may then overflow, but not their difference.
    """
    common = gcd(step, modulus) if type(step) is int else np.gcd(step, modulus)
    period, step = modulus // common, step // common
    periods = count // period
    count = count - periods * period
    below = _lattice_points if type(count) is int else _lattice_points_of_arrays
    last = step * (count * (count + 1) // 2) - period * (below(count, step, period) // 2)
    return common * (periods * (period * (period - 1) // 2) + last)


def _lattice_points(n: int, a: int, m: int) -> int:
    """Twice the sum of ``a*i // m`` for i from 1 to n, where a and m have no common divisor and a, n < m.

    These are the points below a diagonal. Those above it in the same rectangle are the same sum with a and m exchanged.
    """
    total, sign = 0, 1
    while k := n * a // m:
        steps, rest = divmod(m, a)
        total += sign * k * (n + n - steps * (k + 1))
        n, a, m, sign = k, rest, a, -sign
    return total


def _lattice_points_of_arrays(n: Counts, a: Counts, m: Counts) -> Counts:
    one = np.ones((), dtype=np.int64)
    total, even = np.zeros(np.shape(n), dtype=np.int64), True
    every, place = total, np.arange(total.size, dtype=np.int64)
    while live := np.count_nonzero(k := n * a // m):
        if 2 * live < len(k):  # dropping the sums that have ended keeps the rest cheap
            every[place] = total
            left = np.flatnonzero(k)
            n, a, m, k, total, place = n[left], a[left], m[left], k[left], total[left], place[left]
        a = np.maximum(a, one)
        steps = m // a
        points = k * (n + n - steps * (k + one))
        total = total + points if even else total - points
        n, a, m, even = k, m - steps * a, a, not even
    every[place] = total
    return every
