"""How far the weights of a row can move when the keys of a window have their exact weights.

The weights outside are off by factors between 1 - eps and 1 + eps, those inside are right up to the common scale. Let B
be the share of the row that lies outside. Of it, let x be off by +eps and the rest by -eps; then the total of the row
changes by D = eps (2x - B), and the weights that grow gain x (eps - D)/(1 + D) if D >= 0, those that shrink lose
(B - x)(eps + D)/(1 + D) if D <= 0. Each is a parabola over a straight line, with its peak where

    x     = (sqrt(u^2 + eps (1 + B) u) - u)/(2 eps),     u = 1 - eps B
    B - x = (u - sqrt(u^2 - eps (1 + B) u))/(2 eps),     u = 1 + eps B.

The largest of both is what the weights can move by: for B = 1 that of no window at all. Any other split of the row is
a mixture of such ones. Scores within ±R give B <= k e^R / (k e^R + W e^-R) for k keys outside and W inside.
"""

from math import exp, sqrt

from attenio.approximation import Polynomial

# What rounding can do to the formulas here, and more.
_SAFE = 1 + 1e-12


def window_variation(polynomial: Polynomial, *, keys: int, window: int) -> float:
    """The most that the weights of a row of ``keys`` can move, half the sum of their changes.

    >>> from attenio.approximation import minimax
    >>> half = minimax(0.5, 1)
    >>> window_variation(half, keys=1024, window=0) == half.total_variation
    True
    >>> window_variation(half, keys=1024, window=768) < 0.6 * half.total_variation
    True
    """
    outside = max(0, keys - window)
    if window == 0 or polynomial.relative_error >= 1:
        return polynomial.total_variation
    share = outside / (outside + window * exp(-2 * polynomial.radius))
    return min(polynomial.total_variation, largest_variation(polynomial.relative_error, share) * _SAFE)


def largest_variation(eps: float, share: float) -> float:
    """The same from the relative error of the weights outside and the share of the row that they have at most."""
    if eps == 0 or share == 0:
        return 0.0

    def peak(sign: float) -> float:
        # the part that is off by sign * eps, between half of what is outside and all of it
        u = 1 - sign * eps * share
        best = (sqrt(u * u + sign * eps * (1 + share) * u) - u) / (2 * sign * eps)
        part = min(max(best, share / 2), share)
        return part * eps * (1 + share - 2 * part) / (u + sign * 2 * eps * part)

    return max(peak(1.0), peak(-1.0))
