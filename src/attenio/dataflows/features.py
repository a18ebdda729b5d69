"""Monomials of rows in fast memory: what takes the place of scores when a polynomial takes that of the exponential.

    p(scale q.k) = sum over monomials a of weight[a] a(q) a(k)

With the constant 1 as coordinate 0, every monomial of degree up to t is a product of just t coordinates. Features are
made when they are needed, from a stack of t products, and never stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np
from numpy.typing import NDArray

from attenio.approximation import Polynomial
from attenio.memory.indices import Indices, compact
from attenio.memory.matrix import Values

Numbers = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Some monomials: the coordinates of a row that they need, and which of those each one multiplies (0 is the 1)."""

    coordinates: Indices
    factors: Numbers
    weights: Values

    def __len__(self) -> int:
        return len(self.factors)

    def of(self, rows: Values) -> Values:
        """The monomials of every row, given its needed coordinates."""
        wide = with_ones(rows)
        values = np.ones((len(rows), len(self)), dtype=np.float32)
        for factor in self.factors.T:
            values *= wide[:, factor]
        return values

    def weighted(self, rows: Values) -> Values:
        """The monomials times their weights, as the side of the queries has them."""
        features = self.of(rows)
        features *= self.weights
        return features

    def derivative(self, rows: Values, along: Values) -> Values:
        """The gradient with respect to the coordinates, given that with respect to the monomials of every row."""
        wide = with_ones(rows)
        total = np.zeros(wide.shape, dtype=np.float32)
        places = np.arange(wide.shape[1], dtype=np.int64)
        for left_out in range(self.factors.shape[1]):
            others = along.copy()
            for place, factor in enumerate(self.factors.T):
                if place != left_out:
                    others *= wide[:, factor]
            total += others @ (self.factors[:, left_out, None] == places).astype(np.float32)
        return total[:, 1:]


def with_ones(rows: Values) -> Values:
    """The rows with a column of ones before them."""
    return np.concatenate([np.ones((len(rows), 1), dtype=np.float32), rows], axis=1)


def all_features(d: int, polynomial: Polynomial, scale: float) -> Features:
    """Every monomial of the polynomial.

    >>> from attenio.approximation import taylor
    >>> len(all_features(64, taylor(1.0, 2), 0.125))
    2145
    """
    chosen = np.array(list(combinations_with_replacement(range(d + 1), polynomial.degree)), dtype=np.intp)
    return Features(coordinates=slice(0, d), factors=chosen, weights=_weights(chosen, polynomial, scale))


def features_by_group(d: int, polynomial: Polynomial, scale: float, group: int) -> Iterator[Features]:
    """The same in blocks: coordinates are cut into groups, and a block has the monomials of one multiset of groups."""
    groups = [range(start, min(start + group, d + 1)) for start in range(0, d + 1, group)]
    for chosen in combinations_with_replacement(range(len(groups)), polynomial.degree):
        drawn = sorted(set(chosen))
        parts = [combinations_with_replacement(groups[one], chosen.count(one)) for one in drawn]
        tuples = np.array([sum(parts_of, ()) for parts_of in product(*parts)], dtype=np.intp)
        needed = np.array([c for one in drawn for c in groups[one] if c > 0], dtype=np.intp)
        place = np.zeros(d + 1, dtype=np.intp)
        place[needed] = np.arange(1, len(needed) + 1, dtype=np.int64)
        weights = _weights(tuples, polynomial, scale)
        yield Features(coordinates=compact(needed - 1), factors=place[tuples], weights=weights)


def _weights(factors: Numbers, polynomial: Polynomial, scale: float) -> Values:
    """c_k scale^k k!/alpha! of sorted products of k coordinates and the constant."""
    real = factors > 0
    powers = real.sum(axis=1)
    place = real.astype(np.float64)
    repeats = np.ones(len(factors))
    for at in range(1, factors.shape[1]):
        again = real[:, at] & (factors[:, at] == factors[:, at - 1])
        place[:, at] = np.where(again, place[:, at - 1] + 1, place[:, at])
        repeats *= np.where(again, place[:, at], 1.0)
    by_power = [c * scale**k * factorial(k) for k, c in enumerate(polynomial.coefficients)]
    return np.asarray(np.array(by_power)[powers] / repeats, dtype=np.float32)
