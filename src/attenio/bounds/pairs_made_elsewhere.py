"""Pairs made elsewhere: a probability that flows into an epoch was made in another one, of queries and keys there."""

from attenio.bounds.floats import Floats, larger, root, smaller, where

# What an epoch does is found in floating point: so much more is on the safe side.
_ROUNDED = 1.0 + 1e-9
_STEPS = 4


def most_by_held_pairs(budget: Floats, d: Floats, value_dim: Floats, *, sums: bool) -> Floats:
    """The most that an epoch with so many words does on average where held pairs do more than fresh ones could.

    With x held pairs, y its root and z = A - x: the largest of c y z/2 - z²/4 + t x, and d² A, where c = 2(d+dv) and
    t = 0; with the sums of rows a word more, and t = d+dv. The former is concave in y from root(A/3) on, up to where it
    rises: so it is nowhere above a tangent. Infinite where values are wider than keys.

    >>> round(most_by_held_pairs(5.2 * 64**2, 64.0, 64.0, sums=False) / 64**4, 3), 5.2**2 / 4
    (6.718, 6.760000000000001)
    """
    most, _ = _most_and_slope(budget, d, value_dim, sums=sums)
    return most + where(value_dim <= d, 0.0, float("inf"))


def words_for_held_pairs(work: Floats, d: Floats, value_dim: Floats, *, sums: bool) -> Floats:
    """Words with which held pairs do no more than so much, and little less; none where that is not found."""
    words = 2.0 * root(work)
    for _ in range(_STEPS):
        most, slope = _most_and_slope(words, d, value_dim, sums=sums)
        words = larger(words - (most - work) / larger(slope, 1.0 + 0.0 * slope), 1.0 + 0.0 * slope)
    words = words * (2.0 - _ROUNDED) * (2.0 - _ROUNDED)
    return where(most_by_held_pairs(words, d, value_dim, sums=sums) <= work, words, 0.0)


def _most_and_slope(budget: Floats, d: Floats, value_dim: Floats, *, sums: bool) -> tuple[Floats, Floats]:
    """The most, and about how it rises with the words."""
    both = d + value_dim
    line, term = (2.0 * both + 1.0, both) if sums else (2.0 * both, 0.0 * both)
    low, high = root(budget / 3.0), root(budget)

    def slope(y: Floats) -> Floats:
        return line * (budget - 3.0 * y * y) / 2.0 + y * (budget - y * y) + 2.0 * term * y

    y = low
    for _ in range(_STEPS):
        bend = 3.0 * line * y + 3.0 * y * y - budget - 2.0 * term
        y = smaller(larger(y + slope(y) / larger(bend, 1.0 + 0.0 * bend), low), high)
    rest = budget - y * y
    tangent = larger(slope(y) * (high - y), slope(y) * (low - y))
    most = line * y * rest / 2.0 - rest * rest / 4.0 + term * y * y + larger(tangent, 0.0 * tangent)
    return larger(most, d * d * budget) * _ROUNDED, (line * y - rest) / 2.0
