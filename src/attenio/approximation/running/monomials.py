"""Which monomials a polynomial of a dot product needs, in an order that makes them cheap, and what each one weighs.

A variable that is always one is added as the last: the monomials of degree at most g in d variables are then those of
degree exactly g in d + 1. In lexicographic order those of degree k whose least variable is a are variable a times a
*suffix* of those of degree k - 1, so a whole tile of them is made by d + 1 products of contiguous rows and no gather.

>>> two = Monomials(d=2, degree=2)
>>> two.count, two.suffix(1, 1)
(6, 1)
>>> two.weights((1.0, 1.0, 0.5))  # p(s) = 1 + s + s²/2 over xx, xy, x, yy, y, 1
array([0.5, 1. , 1. , 0.5, 1. , 1. ])
"""

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

# A tile of this many features by 512 rows of fp32 is 10 MB: larger ones are made and used in pieces.
MOST_ROWS = 5120


@dataclass(frozen=True, kw_only=True)
class Monomials:
    """The monomials of degree at most ``degree`` in ``d`` variables, without repeats."""

    d: int
    degree: int

    @property
    def count(self) -> int:
        """How many there are: C(d + degree, degree)."""
        return self.level(self.degree)

    def level(self, degree: int) -> int:
        """How many there are of degree at most ``degree``."""
        return math.comb(self.d + degree, degree)

    def suffix(self, degree: int, first: int) -> int:
        """Where, among those of this degree, the ones begin that have no variable before ``first``."""
        return self.level(degree) - math.comb(self.d - first + degree, degree)

    @property
    def base(self) -> int:
        """The largest degree whose features are kept at once; longer ones are products of two kept ones."""
        half = (self.degree + 1) // 2
        return max(k for k in range(half, self.degree + 1) if k == half or self.level(k) <= MOST_ROWS)

    def prefixes(self) -> list[int]:
        """The largest variable of each monomial that is multiplied onto the base to reach the degree."""
        variables = range(self.d + 1)
        return [chosen[-1] for chosen in combinations_with_replacement(variables, self.degree - self.base)]

    def weights(self, coefficients: tuple[float, ...]) -> NDArray[np.float64]:
        """What each monomial counts for in c_0 + c_1 s + c_2 s² + ... with s a dot product: c_k k! / alpha!."""
        if len(coefficients) != self.degree + 1:
            raise ValueError(f"{len(coefficients)} coefficients do not make a polynomial of degree {self.degree}")
        # c_k k! is for the whole monomial; each run of a repeated variable divides by the factorial of its length
        inverse = np.ones(1)  # 1/alpha!, level by level, with the length of the leading run beside it
        runs, first, orders = np.zeros(1, dtype=np.intp), np.full(1, self.d, dtype=np.intp), np.zeros(1, dtype=np.intp)
        for level in range(1, self.degree + 1):
            starts = [0 if level == 1 else self.suffix(level - 1, a) for a in range(self.d + 1)]
            pieces = [(inverse[s:], runs[s:], first[s:], orders[s:]) for s in starts]
            grown = [self._grown(a, *piece) for a, piece in enumerate(pieces)]
            inverse, runs, first, orders = (np.concatenate(column) for column in zip(*grown, strict=True))
        scaled = np.array([c * math.factorial(k) for k, c in enumerate(coefficients)])
        return np.asarray(scaled[orders] * inverse, dtype=np.float64)

    def _grown(
        self,
        variable: int,
        inverse: NDArray[np.float64],
        runs: NDArray[np.intp],
        first: NDArray[np.intp],
        orders: NDArray[np.intp],
    ) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """One more factor ``variable`` in front of these monomials; the last variable is one and counts for nothing."""
        real = variable < self.d
        longer = np.where(first == variable, runs, 0) + 1
        grown = inverse / longer if real else inverse
        return grown, longer, np.full_like(first, variable), orders + real
