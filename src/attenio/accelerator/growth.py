"""Whole numbers that grow from round to round: a constant, a slope, and quotients rounded down.

``Growing`` is c + s*r + sum of w * floor((b + g*r)/u) in the round r, kept in one normal form, so that equal numbers
that came about in different ways are found equal. Its sign over many rounds is decided by bounds, and its sum over many
rounds is a closed form, so that no round is looked at by itself.

>>> exponentials = Growing.quotient(first=1000, growth=31, units=128)      # rounded up
>>> [exponentials.at(number) for number in range(5)]
[8, 9, 9, 9, 9]
>>> exponentials.total(0, 10**9) == sum(exponentials.at(number) for number in range(128)) * (10**9 // 128) + (
...     31 * 128 * (10**9 // 128) * (10**9 // 128 - 1) // 2)
True
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm

from attenio.patterns.sums import floor_sum

__all__ = ["Growing"]

# (b, g, u) of a quotient, with 0 <= b < u and 0 < g < u
_Quotient = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Growing:
    """A number in every round of a ramp."""

    constant: int
    slope: int = 0
    quotients: tuple[tuple[_Quotient, int], ...] = ()

    @classmethod
    def quotient(cls, *, first: int, growth: int, units: int) -> "Growing":
        """``first + growth*round`` over ``units``, rounded up."""
        return _normal(0, 0, [((first + units - 1, growth, units), 1)])

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every round."""
        return not self.slope and not self.quotients

    def at(self, number: int) -> int:
        """What it is in a round."""
        parts = (weight * ((b + g * number) // u) for (b, g, u), weight in self.quotients)
        return self.constant + self.slope * number + sum(parts)

    def later(self, rounds: int) -> "Growing":
        """What it is so many rounds later."""
        moved = (((b + g * rounds, g, u), weight) for (b, g, u), weight in self.quotients)
        return _normal(self.constant + self.slope * rounds, self.slope, moved)

    def total(self, start: int, stop: int) -> int:
        """The sum over the rounds from ``start`` to ``stop``, without the latter."""
        count, here = stop - start, self.later(start)
        found = here.constant * count + here.slope * (count * (count - 1) // 2)
        return found + sum(weight * int(floor_sum(count, u, g, b)) for (b, g, u), weight in here.quotients)

    def sign_bounds(self, start: int, stop: int) -> tuple[int, int]:
        """Numbers of at most and at least the sign that it has in the rounds from ``start`` to ``stop``.

        A positive lower one says that it is positive throughout, one of zero that it is never negative.
        """
        if not self.quotients:
            ends = (self.constant + self.slope * start, self.constant + self.slope * (stop - 1))
            return min(ends), max(ends)
        # a quotient rounded down misses less than one, (u - 1)/u at most; everything is multiplied by all u
        scale = lcm(*(u for (_, _, u), _ in self.quotients))
        level, slope, below, above = scale * self.constant, scale * self.slope, 0, 0
        for (b, g, u), weight in self.quotients:
            share = weight * (scale // u)
            level, slope = level + share * b, slope + share * g
            below, above = below + max(share, 0) * (u - 1), above - min(share, 0) * (u - 1)
        ends = (level + slope * start, level + slope * (stop - 1))
        # it is whole, so above -1 is at least 0
        return -(-(min(ends) - below) // scale), (max(ends) + above) // scale

    def __add__(self, other: "Growing") -> "Growing":
        if not other.quotients:
            return Growing(self.constant + other.constant, self.slope + other.slope, self.quotients)
        return _normal(self.constant + other.constant, self.slope + other.slope, (*self.quotients, *other.quotients))

    def __sub__(self, other: "Growing") -> "Growing":
        if self.quotients == other.quotients:
            return Growing(self.constant - other.constant, self.slope - other.slope)
        return self + other.times(-1)

    def times(self, factor: int) -> "Growing":
        """So many times the number."""
        if factor == 0:
            return Growing(0)
        scaled = tuple((quotient, factor * weight) for quotient, weight in self.quotients)
        return Growing(factor * self.constant, factor * self.slope, scaled)


def _normal(constant: int, slope: int, quotients: Iterable[tuple[_Quotient, int]]) -> Growing:
    found: dict[_Quotient, int] = {}
    for (b, g, u), weight in quotients:
        whole, rest = divmod(b, u)
        steps, growth = divmod(g, u)
        constant, slope = constant + weight * whole, slope + weight * steps
        if growth:
            found[rest, growth, u] = found.get((rest, growth, u), 0) + weight
    return Growing(constant, slope, tuple(sorted((key, weight) for key, weight in found.items() if weight)))
