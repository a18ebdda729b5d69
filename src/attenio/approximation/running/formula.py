"""What is computed, and in which tiles: one value that every sweep of a run reads."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.approximation.running.monomials import MOST_ROWS, Monomials
from attenio.errors import InvalidInput

# Terms that one matrix product adds up, whatever its order; its results are added in float64. Certificates count on it:
# the first length whose rounding the tolerance allows is taken, since longer ones are faster.
SUM_LENGTHS = (4096, 1024, 256, 64)

# Features of a tile, over all its heads: 1.25 M numbers of fp32 are 5 MB, which stays in the last cache, while rows are
# many enough for a matrix product to run at its full rate (measured on two Neoverse N1: flat from 256 to 512 rows).
_TILE_FEATURES = 5 * 2**18
_LEAST_ROWS, _MOST_ROWS, _MOST_CAUSAL_ROWS = 64, 1024, 256
# A state of more bytes than this is cut into columns of the values, each with a pass of its own.
_MOST_STATE_BYTES = 2**28


@dataclass(frozen=True, kw_only=True)
class Formula:
    """O_i = sum_j p(s_ij) V_j / sum_j p(s_ij) with s_ij = scale q_i . (k_j - centre), and the tiles it is run in."""

    coefficients: tuple[float, ...]
    d: int
    scale: float
    causal: bool = False
    sum_length: int = SUM_LENGTHS[0]  # terms of one matrix product, whose results are then added in float64
    rows: int | None = None  # rows of a tile; None: as many as the cache likes
    value_columns: int | None = None  # columns of [1, V] whose state is resident; None: all, if memory allows

    def __post_init__(self) -> None:
        for name in ("rows", "value_columns"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name} is {value}; a tile needs at least one, or None to choose it")
        if len(self.coefficients) < 2:
            # a constant is a line with slope zero: one case fewer everywhere below
            object.__setattr__(self, "coefficients", (*self.coefficients, 0.0))

    @cached_property
    def monomials(self) -> Monomials:
        """The features."""
        return Monomials(d=self.d, degree=len(self.coefficients) - 1)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """What each feature counts for, as a column."""
        return self.monomials.weights(self.coefficients)[:, None]

    @property
    def derivative(self) -> tuple[float, ...]:
        """The coefficients of the derivative."""
        return tuple(k * c for k, c in enumerate(self.coefficients))[1:]

    def columns(self, value_dim: int) -> list[tuple[int, int]]:
        """Blocks of the columns of [1, V]: one if its state fits, more if it does not."""
        width = self.value_columns or max(1, _MOST_STATE_BYTES // (12 * self.monomials.count))
        return [(low, min(low + width, value_dim + 1)) for low in range(0, value_dim + 1, width)]

    def tiles(self, group: int) -> "tuple[int, int]":
        """Rows of a tile, and KV heads that are run together, when ``group`` query heads share a KV head."""
        features = min(self.monomials.count, MOST_ROWS)
        most = _MOST_ROWS
        if self.causal:
            # Scores inside a tile are computed one by one: few rows where features are few.
            most = min(max(_power_of_two(self.monomials.count // 8), _LEAST_ROWS), _MOST_CAUSAL_ROWS)
            most = max(most // _power_of_two(math.isqrt(group)), _LEAST_ROWS)
        rows = self.rows or min(max(_power_of_two(_TILE_FEATURES // features), _LEAST_ROWS), most)
        if self.causal:
            # the rows of a tile are also the terms of the product inside it
            rows = min(rows, self.sum_length)
        return rows, max(1, _TILE_FEATURES // (features * rows))


def _power_of_two(value: int) -> int:
    return 1 << max(value, 1).bit_length() - 1
