"""Polynomials in place of the exponential, with a proven relative error on an interval.

Softmax does not change when all its weights are scaled, so what counts is how far p(x) is from *some* multiple s of
e^x: p(x) = s e^x (1 + delta) with |delta| <= eps. Then no weight of a row can hide how far the row may move: see
``total_variation``.

>>> quadratic = taylor(1.0, 2)
>>> quadratic.coefficients
(1.0, 1.0, 0.5)
>>> minimax(1.0, 2).relative_error < quadratic.relative_error / 4
True
>>> least_degree(1.0, 1e-2), least_degree(1.0, 1e-2, kind=Kind.TAYLOR)
(3, 5)
"""

import math
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from attenio.approximation.enclosure import MOST_RADIUS, enclosure
from attenio.approximation.exchange import exchanged
from attenio.errors import InvalidInput
from attenio.names import member_named
from attenio.quantities import checked_count, show_figures

MOST_DEGREE = 32
# Errors this close to that of double precision are where the exchange can lose to the series.
_UNSURE = 1e-9


class Kind(Enum):
    """How a polynomial was chosen."""

    TAYLOR = "taylor"  # the series of the exponential, cut off
    MINIMAX = "minimax"  # least relative error on the interval

    @classmethod
    def named(cls, name: "str | Kind") -> "Kind":
        """The kind with this name; unknown names list the known ones."""
        return member_named(cls, name, "kind of polynomial")


@dataclass(frozen=True, kw_only=True)
class Polynomial:
    """c_0 + c_1 x + ... + c_g x^g, and how close it is to scale * e^x on [centre - radius, centre + radius]."""

    kind: Kind
    radius: float
    coefficients: tuple[float, ...]
    relative_error: float  # proven; below 1 the polynomial is positive on the interval
    scale: float = 1.0
    centre: float = 0.0

    @property
    def degree(self) -> int:
        """The power of the last coefficient."""
        return len(self.coefficients) - 1

    @property
    def total_variation(self) -> float:
        """The most that the weights of any row can move: half the sum of their absolute changes; about eps/2.

        >>> round(minimax(1.0, 4).total_variation / minimax(1.0, 4).relative_error, 3)
        0.5
        """
        eps = self.relative_error
        if eps >= 1:
            return 1.0
        # (sqrt(1+eps) - sqrt(1-eps)) / (sqrt(1+eps) + sqrt(1-eps)), written so that nothing cancels
        return eps / (1 + math.sqrt((1 - eps) * (1 + eps))) * (1 + 1e-15)

    def __call__(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """The polynomial at every x, in float64 by Horner's rule."""
        return np.asarray(polyval(np.asarray(x, dtype=np.float64), self.coefficients))

    def of_sizes(self, x: NDArray[np.floating] | float) -> NDArray[np.float64]:
        """The sum of |c_k| x^k: how large the terms are that cancel in the polynomial."""
        sizes = tuple(abs(coefficient) for coefficient in self.coefficients)
        return np.asarray(polyval(np.asarray(x, dtype=np.float64), sizes))


def outward(radius: float) -> float:
    """How far polynomials for a radius are proven: scores that attain it may be found, in double precision, beyond it.

    The largest size of a sum of d < 2^16 products is found within a factor of 1 + 2^-35, and zero within 2^-40.

    >>> 1 < outward(1.0) < 1 + 1e-10
    True
    """
    return radius * (1 + 2.0**-34) + 2.0**-40


def polynomial(kind: Kind, radius: float, degree: int, *, centre: float = 0.0) -> Polynomial:
    """The polynomial of this kind and degree for [centre - radius, centre + radius]."""
    _check(radius, degree, centre)
    return _polynomial(Kind.named(kind), float(radius), int(degree), float(centre))


def taylor(radius: float, degree: int, *, centre: float = 0.0) -> Polynomial:
    """The series of e^(x - centre) up to ``degree``."""
    return polynomial(Kind.TAYLOR, radius, degree, centre=centre)


def minimax(radius: float, degree: int, *, centre: float = 0.0) -> Polynomial:
    """The polynomial of least relative error, as far as double precision finds it; never worse than Taylor's.

    >>> minimax(0.5, 3).relative_error < taylor(0.5, 3).relative_error
    True
    """
    return polynomial(Kind.MINIMAX, radius, degree, centre=centre)


@lru_cache(maxsize=4096)
def _polynomial(kind: Kind, radius: float, degree: int, centre: float) -> Polynomial:
    proven = _proven(kind, _candidate(kind, radius, degree), radius, centre)
    if kind is Kind.TAYLOR or _UNSURE < proven.relative_error < 1:
        return proven
    series = _polynomial(Kind.TAYLOR, radius, degree, centre)
    return proven if proven.relative_error <= series.relative_error else replace(series, kind=Kind.MINIMAX)


@lru_cache(maxsize=4096)
def _candidate(kind: Kind, radius: float, degree: int) -> NDArray[np.float64]:
    """Coefficients in x - centre that nothing is proven of yet."""
    if kind is Kind.MINIMAX and radius > 0 and degree > 0:  # constants differ by a factor only
        return exchanged(radius, degree)
    return np.array([1 / math.factorial(k) for k in range(degree + 1)])


@lru_cache(maxsize=4096)
def focused(radius: float, degree: int, share: float, *, centre: float = 0.0) -> Polynomial:
    """The best polynomial of the middle ``share`` of the interval, proven on all of it.

    Scores crowd in the middle of their range; there it is closer than the one that is best everywhere.

    >>> focused(1.0, 2, 0.5).relative_error > minimax(1.0, 2).relative_error
    True
    """
    _check(radius, degree, centre)
    return _proven(Kind.MINIMAX, _candidate(Kind.MINIMAX, float(radius * share), int(degree)), radius, centre)


def polynomial_within(
    kind: Kind, radius: float, degree: int, relative_error: float, *, centre: float = 0.0
) -> Polynomial | None:
    """The polynomial if its proven error is at most ``relative_error``; where a few points say no, nothing is proven.

    >>> polynomial_within(Kind.MINIMAX, 1.0, 2, 1e-2) is None
    True
    """
    _check(radius, degree, centre)
    if _seen_error(_candidate(kind, float(radius), int(degree)), radius) > relative_error * (1 + 1e-9) + 1e-12:
        return None
    candidate = polynomial(kind, radius, degree, centre=centre)
    return candidate if candidate.relative_error <= relative_error else None


def guessed(kind: Kind, radius: float, degree: int, *, share: float = 1.0, centre: float = 0.0) -> Polynomial:
    """The same coefficients as ``polynomial``, or as ``focused`` with a share, before anything is proven of them.

    The relative error is the largest at a few points, which is at most the proven one: what fails with it cannot pass.
    """
    _check(radius, degree, centre)
    around_centre = _candidate(kind, float(radius * share), int(degree))
    error = min(1.0, _seen_error(around_centre, radius) * (1 - 1e-9))
    return Polynomial(
        kind=kind,
        radius=radius,
        coefficients=_in_scores(around_centre, centre),
        relative_error=error,
        scale=math.exp(-centre),
        centre=centre,
    )


def surely_final(guess: Polynomial) -> bool:
    """Whether ``polynomial`` would keep these coefficients: where they are not positive or too good, it may not."""
    return 2 * _UNSURE < guess.relative_error < 1


def _seen_error(around_centre: NDArray[np.float64], radius: float) -> float:
    """The relative error at a few points of the interval; 1 where the polynomial is not positive."""
    degree = len(around_centre) - 1
    x = radius * np.cos(np.pi * np.arange(4 * degree + 9, dtype=np.int64) / (4 * degree + 8))
    ratios = polyval(x, around_centre) * np.exp(-x)
    least, largest = float(ratios.min()), float(ratios.max())
    return 1.0 if least <= 0 else (largest - least) / (largest + least)


def _in_scores(around_centre: NDArray[np.float64], centre: float) -> tuple[float, ...]:
    """The coefficients in x of a polynomial in x - centre."""
    moved = np.polynomial.Polynomial(around_centre)(np.polynomial.Polynomial([-centre, 1.0])) if centre else None
    return tuple(float(c) for c in (around_centre if moved is None else moved.coef))


def _proven(kind: Kind, around_centre: NDArray[np.float64], radius: float, centre: float) -> Polynomial:
    """The polynomial in x with these coefficients in x - centre; proven for the coefficients as they are rounded."""
    coefficients = _in_scores(around_centre, centre)
    # outwards: centre ± radius is rounded, and so is how far data are found to reach
    low, high = centre - outward(radius), centre + outward(radius)
    low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    least, largest = enclosure(coefficients, low, high)
    scale = (least + largest) / 2
    # at most 1: a polynomial that reaches zero or below is of no use, and says so by eps = 1
    error = 1.0 if least <= 0 else min(1.0, (largest - least) / (largest + least) * (1 + 1e-15))
    return Polynomial(
        kind=kind, radius=radius, coefficients=coefficients, relative_error=error, scale=scale, centre=centre
    )


def _check(radius: float, degree: int, centre: float) -> None:
    checked_count("degree", degree, least=0, most=MOST_DEGREE)
    if not 0 <= radius < math.inf or not math.isfinite(centre):
        raise InvalidInput(f"scores within {centre} ± {radius} are no interval; give a finite radius of at least 0")
    if radius + abs(centre) > MOST_RADIUS:
        raise InvalidInput(
            f"scores reach {show_figures(radius + abs(centre))}, and polynomials are proven up to {MOST_RADIUS:g};"
            f" a Taylor polynomial would need degree {taylor_degree(radius, 0.1):,} for an error of 0.1: use exact"
        )


def least_degree(
    radius: float, relative_error: float, kind: Kind = Kind.MINIMAX, most: int = MOST_DEGREE, *, centre: float = 0.0
) -> int | None:
    """The least degree with a proven relative error of at most ``relative_error``; None if it is above ``most``.

    >>> [least_degree(radius, 1e-3) for radius in (0.25, 0.5, 1.0, 2.0, 4.0)]
    [2, 3, 4, 6, 9]
    >>> least_degree(8.0, 1e-3, most=4) is None
    True
    """
    if not 0 < relative_error < math.inf:
        raise InvalidInput(f"a relative error of {relative_error} cannot be asked for; give a number above 0")
    # errors fall with the degree for the best polynomial, and from degree R on for Taylor's
    for degree in range(min(most, MOST_DEGREE) + 1):
        if polynomial_within(kind, radius, degree, relative_error, centre=centre) is not None:
            return degree
    return None


def taylor_degree(radius: float, relative_error: float) -> int:
    """A degree that is enough for Taylor's polynomial at any radius, by the remainder of the series.

    The remainder relative to e^x is at most e^R R^(g+1)/(g+1)!; no enclosure is needed.

    >>> taylor_degree(50.0, 0.1)
    178
    """
    if radius == 0:
        return 0
    if radius > 2**53:
        # by Stirling's formula degree 3.5912 R is enough for any tolerance; sums of logarithms would overflow
        return int(radius) * 18 // 5
    degree = 0
    while radius + (degree + 1) * math.log(radius) - math.lgamma(degree + 2) > math.log(relative_error):
        degree += 1 if degree < 1024 else degree // 64
    return degree
