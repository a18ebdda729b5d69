"""Whole numbers that depend on the round of a ramp: a constant, a slope, and quotients rounded down.

``Growing`` is c + s*r + sum of w * floor((b + g*r)/u) in the round r. The keys of a tile of queries are such a number,
and so are the whole tiles of keys among them and the keys that are left over:

>>> keys = Growing(1000, 72)
>>> whole, rest = keys.divided(911)
>>> [(whole.at(number), rest.at(number)) for number in (0, 11, 12)]
[(1, 89), (1, 881), (2, 42)]

After ``period`` rounds every quotient has grown by a whole number, so that from there on the rounds differ from those
one period before by a constant. That is how so many rounds are taken at once.

>>> whole.period, whole.at(911) - whole.at(0), whole.at(917) - whole.at(6), rest.at(911) - rest.at(0)
(911, 72, 72, 0)

``Listed`` is a number that follows no rule and is listed for every round.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput

# (b, g, u) of a quotient in lowest terms, with 0 <= b < u and 0 < g < u
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
    def period(self) -> int:
        """Rounds after which it has grown by the same amount, wherever they begin."""
        return lcm(*(u for (_, _, u), _ in self.quotients))

    def at(self, number: int) -> int:
        """What it is in a round."""
        parts = (weight * ((b + g * number) // u) for (b, g, u), weight in self.quotients)
        return self.constant + self.slope * number + sum(parts)

    def values(self, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """What it is in each of many rounds."""
        values = self.constant + self.slope * rounds
        for (b, g, u), weight in self.quotients:
            values += weight * ((b + g * rounds) // u)
        return values

    def divided(self, by: int) -> "tuple[Growing, Growing]":
        """The quotient rounded down and what is left; of a number that has no quotients itself."""
        if self.quotients:
            raise InvalidInput("a number that grows by quotients is not divided again")
        whole = _normal(0, 0, [((self.constant, self.slope, by), 1)])
        return whole, self - whole.times(by)

    def least(self, rounds: int) -> int:
        """A number that it is never below in so many rounds from the first; without quotients the least itself."""
        # a quotient rounded down misses less than one, (u - 1)/u at most; everything is multiplied by all u
        scale = self.period
        level, slope, below = scale * self.constant, scale * self.slope, 0
        for (b, g, u), weight in self.quotients:
            share = weight * (scale // u)
            level, slope, below = level + share * b, slope + share * g, below + max(share, 0) * (u - 1)
        # it is whole, so above -1 is at least 0
        return -(-(min(level, level + slope * (rounds - 1)) - below) // scale)

    def __add__(self, other: "Growing | int") -> "Growing":
        if isinstance(other, int):
            return Growing(self.constant + other, self.slope, self.quotients)
        return _normal(self.constant + other.constant, self.slope + other.slope, (*self.quotients, *other.quotients))

    def __sub__(self, other: "Growing | int") -> "Growing":
        return self + (-other if isinstance(other, int) else other.times(-1))

    def times(self, factor: int) -> "Growing":
        """So many times the number."""
        if factor == 0:
            return Growing(0)
        scaled = tuple((quotient, factor * weight) for quotient, weight in self.quotients)
        return Growing(factor * self.constant, factor * self.slope, scaled)


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """A number in every round of a ramp, one by one."""

    numbers: NDArray[np.int64]

    @property
    def period(self) -> int:
        """All rounds: none is known to be like another."""
        return max(1, len(self.numbers))

    def at(self, number: int) -> int:
        """What it is in a round."""
        return int(self.numbers[number])

    def values(self, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """What it is in each of many rounds."""
        values: NDArray[np.int64] = self.numbers[rounds]
        return values

    def divided(self, by: int) -> "tuple[Listed, Listed]":
        """The quotient rounded down and what is left."""
        whole, rest = np.divmod(self.numbers, by)
        return Listed(whole), Listed(rest)

    def least(self, rounds: int) -> int:
        """The least that it is in so many rounds from the first."""
        return int(self.numbers[:rounds].min(initial=0))

    def clipped(self, least: int, most: int) -> "Listed":
        """The number, but never below one bound or above the other."""
        return Listed(np.clip(self.numbers, least, most))

    def __add__(self, other: int) -> "Listed":
        return Listed(self.numbers + other)

    def __sub__(self, other: "Listed | int") -> "Listed":
        return Listed(self.numbers - (other.numbers if isinstance(other, Listed) else other))


RoundNumber = Growing | Listed


def _normal(constant: int, slope: int, quotients: Iterable[tuple[_Quotient, int]]) -> Growing:
    weights: dict[_Quotient, int] = {}
    for (b, g, u), weight in quotients:
        whole, rest = divmod(b, u)
        steps, growth = divmod(g, u)
        constant, slope = constant + weight * whole, slope + weight * steps
        if growth:
            common = gcd(growth, u)
            lowest = rest // common, growth // common, u // common
            weights[lowest] = weights.get(lowest, 0) + weight
    return Growing(constant, slope, tuple(sorted((key, weight) for key, weight in weights.items() if weight)))
