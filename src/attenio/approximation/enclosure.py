"""Where a polynomial over an exponential lies: a proven enclosure of p(x) e^(-x) on an interval.

The interval is cut into cells that are small near its ends. On a cell with midpoint m and half width w the product of
the Taylor series of p and of e^(-x) at m is known to order 11 with 60 digits; its quadratic part is enclosed exactly,
the rest by absolute values. Proof: docs/theory/approximate_certificate.md.

>>> low, high = enclosure((1.0, 1.0, 0.5), -1.0, 1.0)
>>> round(low, 6), round(high, 6)
(0.919699, 1.359141)
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from itertools import pairwise

# Up to here cancellation in 60 digits loses fewer than 30 of them for the polynomials used, so the margins stay small.
MOST_RADIUS = 24.0
_DIGITS = 60
_LOST = Decimal("1e-50")
_MARGIN = Decimal("1e-25")
_ORDER = 12
_WIDEST_CELL = 1 / 16


def enclosure(coefficients: Sequence[float], low: float, high: float) -> tuple[float, float]:
    """Numbers below and above every value of p(x) e^(-x) on [low, high]; p has the coefficients of 1, x, x², ..."""
    with localcontext(Context(prec=_DIGITS)):
        exact = [Decimal(c) for c in coefficients]
        edges = _edges(low, high, degree=len(exact) - 1)
        cells = [_on_cell(exact, a, b) for a, b in pairwise(edges)]
        least, largest = min(cell[0] for cell in cells), max(cell[1] for cell in cells)
        slack = _MARGIN * max(abs(least), abs(largest)) + _cancelled(exact, edges)
        return math.nextafter(float(least - slack), -math.inf), math.nextafter(float(largest + slack), math.inf)


def _edges(low: float, high: float, *, degree: int) -> list[Decimal]:
    """Ends of cells, spaced as the extrema of a Chebyshev polynomial: errors bend most at the ends."""
    radius = (high - low) / 2
    if radius == 0:
        return [Decimal(low), Decimal(high)]
    count = max(8 * (degree + 2), math.ceil(2 * radius / _WIDEST_CELL))
    inner = [low + radius * (1 - math.cos(math.pi * i / count)) for i in range(1, count)]
    return [Decimal(low), *(Decimal(x) for x in inner), Decimal(high)]


def _cancelled(coefficients: list[Decimal], edges: list[Decimal]) -> Decimal:
    """At least what 60 digits lose where terms cancel: 10 of them, of the largest sum of sizes of terms."""
    reach = max(abs(edges[0]), abs(edges[-1])) * (1 + _MARGIN) + _MARGIN
    sizes = sum(abs(c) * reach**k for k, c in enumerate(coefficients))
    return _LOST * sizes * (-edges[0]).exp()


def _on_cell(coefficients: list[Decimal], a: Decimal, b: Decimal) -> tuple[Decimal, Decimal]:
    middle, width = (a + b) / 2, max((b - a) / 2 * (1 + _MARGIN), _MARGIN)
    shifted = _shifted(coefficients, middle)
    decay = (-middle).exp()
    series = [
        decay * sum(p * (-1) ** (k - i) / math.factorial(k - i) for i, p in enumerate(shifted[: k + 1]))
        for k in range(_ORDER)
    ]
    rest = sum(abs(series[k]) * width**k for k in range(3, _ORDER))
    rest += decay * sum(abs(p) * width**i * _tail(_ORDER - i, width) for i, p in enumerate(shifted))
    a0, a1, a2 = series[:3]
    ends = [a0 - a1 * width + a2 * width**2, a0 + a1 * width + a2 * width**2]
    if abs(a1) < 2 * abs(a2) * width:
        ends.append(a0 - a1 * a1 / (4 * a2))
    return min(ends) - rest, max(ends) + rest


def _shifted(coefficients: list[Decimal], middle: Decimal) -> list[Decimal]:
    """The coefficients of p(middle + t) in t, by repeated synthetic division."""
    shifted = list(coefficients)
    for start in range(len(shifted) - 1):
        for k in range(len(shifted) - 2, start - 1, -1):
            shifted[k] += middle * shifted[k + 1]
    return shifted


def _tail(first: int, width: Decimal) -> Decimal:
    """At least the sum of width^j / j! over j >= first."""
    if first <= 0:
        return width.exp() * (1 + _MARGIN)
    return width**first / math.factorial(first) / (1 - width / (first + 1))
