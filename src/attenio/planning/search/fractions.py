"""Tiles sorted by the simple fraction of a height that they are near to, in shells of halving distance.

The fractions p/q with q up to some order, in a row, are such that neighbours p/q < p'/q' differ by 1/(q*q'), and the
simplest fraction between them is (p+p')/(q+q'), the mediant. The tiles up to the mediant are counted to p/q, others to
p'/q'. A number x at distance e from p/q lies between two further fractions whose denominators b < b' = b + q satisfy
b <= 1/(q*e) < b', and is within 1/(b*b') of the first of them. The lemma in ``stacked_requests`` holds for b too.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shells", "shells_between"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Denominators go up to the least of these powers of two with which so many fractions lie among the tiles in question.
_LEAST_ORDER, _MOST_ORDER = 16, 256
_FRACTIONS = 100
# Edges of shells are rounded outwards by this part of a tile.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Shells:
    """Ranges of tiles from ``first`` to ``last``, each up to the distance ``far`` from a fraction over ``q``.

    ``near`` is the least distance, ``between`` the least denominator of other fractions there.
    """

    first: Ints
    last: Ints
    q: Floats
    near: Floats
    far: Floats
    between: Floats

    @property
    def counts(self) -> Ints:
        """How many tiles each shell has."""
        return self.last - self.first + 1

    def tiles(self, chosen: Ints) -> Ints:
        """All tiles of the chosen shells, each once."""
        counts = self.counts[chosen]
        starts = np.repeat(self.first[chosen] - np.cumsum(counts) + counts, counts)
        return np.unique(starts + np.arange(len(starts)))

    def fractions(self, terms: Floats) -> Floats:
        """A number that the sum of {i*x} for i from 1 to ``terms`` does not go below, x being any tile over the height.

        Terms are taken in blocks of q, or of the denominator b of the nearest fraction other than p/q, where the terms
        that remain are taken in blocks of q.
        """
        drift = (1 - self.q * self.far) / 2
        simple = (1 - 1 / self.q) * drift
        least = np.maximum(1 / (self.q * self.far) - self.q, self.between)
        finer = (1 - 1 / least) * drift
        remaining = np.minimum(1 / (self.q * np.maximum(self.near, 1e-300)), terms)
        mixed = (terms - remaining) * finer + np.maximum(remaining - self.q, 0.0) * np.minimum(simple, finer)
        return np.asarray(np.maximum(np.floor(terms / self.q) * self.q * simple, mixed))

    def crossings(self, terms: Floats) -> Floats:
        """A number that the terms which are not zero do not go below; only a fraction itself has more zeros."""
        return np.asarray(terms - np.floor(terms / np.where(self.near > 0, self.between, self.q)))


@lru_cache(maxsize=8)
def _neighbours(order: int) -> tuple[Ints, Ints]:
    """Numerators and denominators of all fractions from 0 to 1 with denominators up to ``order``, ascending."""
    q, p = np.tril_indices(order + 1)
    simple = np.gcd(p, q) == 1
    p, q = p[simple], q[simple]
    ascending = np.argsort(p / q)
    return p[ascending], q[ascending]


def _order(part: float) -> int:
    """The largest denominator, for this part of a unit: up to there a unit has 0.3 order^2 fractions."""
    order = _LEAST_ORDER
    while order < _MOST_ORDER and 0.3 * order * order * part < _FRACTIONS:
        order *= 2
    return order


def shells_between(least: int, most: int, height: int) -> Shells:
    """Shells that hold every tile from ``least`` to ``most``, which lie between two multiples of the height."""
    whole = least // height * height
    p, q = _neighbours(_order((most - least) / height))
    between = np.tile(q[:-1] + q[1:], 2)
    centre, over = np.concatenate((p[:-1] / q[:-1], p[1:] / q[1:])), np.concatenate((q[:-1], q[1:]))
    side = np.repeat((1.0, -1.0), len(q) - 1)
    width = 1 / (over * between)
    inner, outer = centre * height, (centre + side * width) * height
    met = np.flatnonzero(
        (np.minimum(inner, outer) <= most - whole + 1) & (np.maximum(inner, outer) >= least - whole - 1)
    )
    levels = np.arange(1 + max(0, int(np.log2(height))))
    far = width[met, None] / 2.0**levels
    # A shell within one tile of the fraction goes all the way.
    near = np.where(far * height < 2, 0.0, far / 2)
    place, level = np.nonzero((levels == 0) | (far * height >= 1))
    far, near, chosen = far[place, level], near[place, level], met[place]
    edges = [(centre[chosen] + side[chosen] * distance) * height for distance in (near, far)]
    first = np.maximum(np.floor(np.minimum(*edges) - _ROUNDING).astype(np.int64) + whole, least)
    last = np.minimum(np.ceil(np.maximum(*edges) + _ROUNDING).astype(np.int64) + whole, most)
    kept = first <= last
    parts = (first, last, over[chosen] * 1.0, near, far, between[chosen] * 1.0)
    return Shells(*(values[kept] for values in parts))
