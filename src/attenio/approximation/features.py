"""Features: a polynomial of an inner product as an inner product of monomials, each monomial once.

    p(<x, y>) = sum over |alpha| <= g of  w_alpha x^alpha y^alpha,      w_alpha = c_k k!/alpha!,   k = |alpha|.

There are C(d+g, g) of them. The weights stand on one side, so their signs do not matter. Features are made tile by
tile and never stored together.

>>> feature_count(64, 2)
2145
>>> list(monomials(2, 2))
[(), (0,), (1,), (0, 0), (0, 1), (1, 1)]
>>> [multinomial(m) for m in monomials(2, 2)]
[1, 1, 1, 1, 2, 1]
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from attenio.approximation.polynomials import MOST_DEGREE, Polynomial
from attenio.quantities import checked_count

Real = TypeVar("Real", np.float32, np.float64)


def feature_count(d: int, degree: int) -> int:
    """Monomials of d variables up to a degree, C(d+g, g)."""
    checked_count("d", d, most=2**16)
    checked_count("degree", degree, least=0, most=4096)
    return math.comb(d + degree, degree)


def monomials(d: int, degree: int) -> Iterator[tuple[int, ...]]:
    """Every monomial up to a degree as the sorted indices of its factors, lower degrees first."""
    for k in range(degree + 1):
        yield from combinations_with_replacement(range(d), k)


def multinomial(monomial: tuple[int, ...]) -> int:
    """How many products of coordinates are this monomial: k!/alpha!."""
    ways = math.factorial(len(monomial))
    for exponent in Counter(monomial).values():
        ways //= math.factorial(exponent)
    return ways


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureTile:
    """Some monomials of one degree: the indices of their factors, and how often each occurs in a power of a sum."""

    indices: NDArray[np.intp]  # (features, degree), sorted along the second axis
    multinomials: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def degree(self) -> int:
        """The number of factors of each monomial."""
        return int(self.indices.shape[1])

    def of(self, rows: NDArray[Real]) -> NDArray[Real]:
        """The monomials of every row, (rows, features), in the type of the rows."""
        product = np.ones((len(rows), len(self)), dtype=rows.dtype)
        for factor in range(self.degree):
            product *= rows[:, self.indices[:, factor]]
        return product

    def weights(self, polynomial: Polynomial, *, unit: float = 1.0) -> NDArray[np.float64]:
        """What each product of two features counts, if x and y were divided so that <x, y> is in units of ``unit``."""
        return polynomial.coefficients[self.degree] * unit**self.degree * self.multinomials


def feature_tiles(d: int, degree: int, *, most: int = 4096) -> Iterator[FeatureTile]:
    """All features up to a degree, at most ``most`` at a time, each tile of a single degree.

    >>> sum(len(tile) for tile in feature_tiles(8, 3, most=50)) == feature_count(8, 3)
    True
    """
    checked_count("features of a tile", most)
    checked_count("degree", degree, least=0, most=MOST_DEGREE)
    for k in range(degree + 1):
        remaining = combinations_with_replacement(range(d), k)
        while chunk := list(islice(remaining, most)):
            indices = np.array(chunk, dtype=np.intp).reshape(len(chunk), k)
            yield FeatureTile(indices=indices, multinomials=_multinomials(indices))


def _multinomials(indices: NDArray[np.intp]) -> NDArray[np.float64]:
    """k!/alpha! of sorted rows: alpha! is the product of each factor's place in its run of equals."""
    count, k = indices.shape
    place, denominators = np.ones(count), np.ones(count)
    for factor in range(1, k):
        place = np.where(indices[:, factor] == indices[:, factor - 1], place + 1, 1.0)
        denominators *= place
    return math.factorial(k) / denominators
