"""Tiles sorted by the simple fraction of a height that they are near to, in shells of ever smaller distance.

The fractions p/q with q up to some order, in a row, are such that neighbours p/q < p'/q' differ by 1/(q*q'), and the
simplest fraction between them is (p+p')/(q+q'), the mediant. The tiles up to the mediant are counted to p/q, others to
p'/q'. A number x at distance e from p/q lies between two further fractions whose denominators b < b' = b + q satisfy
b <= 1/(q*e) < b', and is within 1/(b*b') of the first of them. The lemma in ``stacked_requests`` holds for b too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# About so many fractions are told apart in each part of a range, with denominators as large as that takes.
_FRACTIONS = 40
_LEAST_ORDER = 16
# A range is cut into parts where so many times less is left of it; short ones are not.
_SHRINK = 7
_SHORT = 768
# Shells reach so many times as far as they are near.
_THINNER = 4.0
# Edges of shells are rounded outwards by this part of a tile.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Shells:
    """Ranges of tiles from ``first`` to ``last``, each up to the distance ``far`` from a fraction over ``q``.

    ``near`` is the least distance, ``between`` the least denominator of other fractions there.
    """

    first: Ints
    last: Ints
    q: Ints
    near: Floats
    far: Floats
    between: Ints

    @property
    def counts(self) -> Ints:
        """How many tiles each shell has."""
        return self.last - self.first + 1

    def tiles(self, chosen: Ints) -> Ints:
        """All tiles of the chosen shells; a few of them twice, as edges are rounded outwards."""
        counts = self.counts[chosen]
        starts = np.repeat(self.first[chosen] - np.cumsum(counts) + counts, counts)
        return np.asarray(starts + np.arange(len(starts), dtype=np.int64))

    def hold(self, chosen: Ints, tiles: Ints) -> NDArray[np.bool_]:
        """Which of these tiles lie in one of the chosen shells."""
        begun = np.searchsorted(np.sort(self.first[chosen]), tiles, side="right")
        return np.asarray(begun > np.searchsorted(np.sort(self.last[chosen]), tiles, side="left"))

    def fractions(self, terms: Floats) -> Floats:
        """A number that the sum of {i*x} for i from 1 to ``terms`` does not go below, x being any tile over the height.

        Terms are taken in blocks of q, or of the denominator b of the nearest fraction other than p/q, where the terms
        that remain are taken in blocks of q.
        """
        far = np.maximum(self.far, 1e-300)
        drift = (1 - self.q * far) / 2
        simple = (1 - 1 / self.q) * drift
        least = np.maximum(1 / (self.q * far) - self.q, self.between)
        finer = (1 - 1 / least) * drift
        remaining = np.minimum(1 / (self.q * np.maximum(self.near, 1e-300)), terms)
        mixed = (terms - remaining) * finer + np.maximum(remaining - self.q, 0.0) * np.minimum(simple, finer)
        return np.asarray(np.maximum(np.floor(terms / self.q) * self.q * simple, mixed))

    def crossings(self, terms: Floats) -> Floats:
        """A number that the terms which are not zero do not go below; only a fraction itself has more zeros."""
        return np.asarray(terms - np.floor(terms / np.where(self.near > 0, self.between, self.q)))


def _order(part: float) -> int:
    """The largest denominator, for this part of a unit: up to there a unit has 0.3 order^2 fractions."""
    return max(_LEAST_ORDER, isqrt(int(_FRACTIONS / (0.3 * max(part, 1e-15)))))


def fractions_around(first: int, last: int, height: int, order: int) -> list[tuple[int, int]]:
    """Numerators and denominators of the fractions with denominators up to ``order``, ascending, from the one at or
    below first/height to the one at or above last/height and at least two; 0 <= first <= last <= height.
    """
    p, q, after_p, after_q = _neighbours(first, height, order)
    fractions = [(p, q)]
    while len(fractions) < 2 or p * height < last * q:
        # The next one follows from two neighbours alone.
        times = (order + q) // after_q
        p, q, after_p, after_q = after_p, after_q, times * after_p - p, times * after_q - q
        fractions.append((p, q))
    return fractions


def _neighbours(tile: int, height: int, order: int) -> tuple[int, int, int, int]:
    """The last fraction up to tile/height and the first one above it, by Euclid's descent through the mediants."""
    p, q, after_p, after_q = tile // height, 1, tile // height + 1, 1
    while q + after_q <= order:
        below, above = tile * q - p * height, after_p * height - tile * after_q
        times = min(below // above, (order - q) // after_q)
        p, q = p + times * after_p, q + times * after_q
        below -= times * above
        if q + after_q > order:
            break
        if not below:  # the tile is the fraction: its next neighbour has the largest denominator
            times = (order - after_q) // q
            return p, q, after_p + times * p, after_q + times * q
        times = min((above - 1) // below, (order - after_q) // q)
        after_p, after_q = after_p + times * p, after_q + times * q
    return p, q, after_p, after_q


def shells_between(least: int, most: int, height: int) -> Shells:
    """Shells that hold every tile from ``least`` to ``most``, which lie between two multiples of the height.

    The nearer a tile is to the largest, the finer are the fractions: it loses less by its size.
    """
    whole = least // height * height
    lower: list[tuple[int, int]] = []
    upper: list[tuple[int, int]] = []
    for first, last in _parts(least, most):
        fractions = fractions_around(first - whole, last - whole, height, _order((last - first) / height))
        lower += fractions[:-1]
        upper += fractions[1:]
    p, q = np.array(lower + upper, dtype=np.int64).T
    beside = np.roll(q, len(lower))
    side = np.repeat(np.array((1, -1), dtype=np.int64), len(lower))
    centre, width = p / q, 1 / (q * (q + beside))
    levels = np.arange(1 + max(0, int(np.log2(width.max() * height) / np.log2(_THINNER))), dtype=np.int64)
    far = width[:, None] / _THINNER**levels
    # A shell within one tile of the fraction goes all the way.
    near = np.where(far * height < _THINNER, 0.0, far / _THINNER)
    place, level = np.nonzero((levels == 0) | (far * height >= 1))
    far, near = far[place, level], near[place, level]
    edges = [(centre[place] + side[place] * distance) * height for distance in (near, far)]
    first = np.maximum(np.floor(np.minimum(*edges) - _ROUNDING).astype(np.int64) + whole, least)
    last = np.minimum(np.ceil(np.maximum(*edges) + _ROUNDING).astype(np.int64) + whole, most)
    kept = first <= last
    parts = (first, last, q[place], near, far, (q + beside)[place])
    return Shells(*(values[kept] for values in parts))


def _parts(least: int, most: int) -> Iterator[tuple[int, int]]:
    """The range in parts, each a few times as long as all that follow."""
    while least <= most:
        last = most if most - least < _SHORT else most - (most - least) // _SHRINK
        yield least, last
        least = last + 1
