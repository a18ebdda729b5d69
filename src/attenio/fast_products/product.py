"""Run a product QKᵀ on the counted memory, ordinary or Strassen's.

>>> Q, K = random_factors(Shape(rows=12, keys=10, depth=9))
>>> run = strassen_product(Q, K, fast_words=16, levels=2)
>>> run.moved_words == strassen_words(run.shape, 16, 2), run.peak_words <= 16, run.max_abs_error < 1e-4
(True, True, True)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.fast_products.classical import multiply
from attenio.fast_products.shape import Block, Shape
from attenio.fast_products.strassen import strassen
from attenio.fast_products.words import ProductTile, best_levels, best_tile, strassen_words
from attenio.memory import FastMemory, SlowArray, Trace
from attenio.memory.matrix import Values
from attenio.quantities import checked_count, show_shape


@dataclass(frozen=True, kw_only=True, eq=False)
class ProductRun:
    """One product on the counted memory; ``levels`` is 0 for the ordinary one."""

    shape: Shape
    fast_words: int
    levels: int
    scores: Values
    trace: Trace
    peak_words: int
    max_abs_error: float

    @property
    def moved_words(self) -> int:
        """Words moved in both directions."""
        return self.trace.moved_words


def random_factors(shape: Shape, seed: int = 0) -> tuple[Values, Values]:
    """Standard normal Q and K of a shape."""
    rng = np.random.default_rng(seed)
    draws = (rng.standard_normal((height, shape.depth)) for height in (shape.rows, shape.keys))
    Q, K = (values.astype(np.float32) for values in draws)
    return Q, K


def classical_product(
    Q: ArrayLike, K: ArrayLike, *, fast_words: int, tile: ProductTile | None = None, record: bool = False
) -> ProductRun:
    """QKᵀ by its ordinary products, with the tile that moves fewest words unless one is given."""
    job = _Job.of(Q, K, fast_words, record)
    chosen = best_tile(job.shape, fast_words) if tile is None else tile
    multiply(job.fast, job.Q, job.K, job.S, chosen)
    return job.run(levels=0)


def strassen_product(
    Q: ArrayLike, K: ArrayLike, *, fast_words: int, levels: int | None = None, record: bool = False
) -> ProductRun:
    """QKᵀ by ``levels`` steps of Strassen's method, by default as many as move fewest words.

    A block with a side of length one is not cut further, however many levels are asked for.
    """
    job = _Job.of(Q, K, fast_words, record)
    chosen = best_levels(job.shape, fast_words) if levels is None else checked_count("levels", levels, least=0, most=60)
    strassen_words(job.shape, fast_words, chosen)  # says what is missing when the memory is too small for a step
    strassen(job.fast, job.Q, job.K, job.S, levels=chosen)
    return job.run(levels=chosen)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """A fast memory and the three matrices in slow memory."""

    shape: Shape
    fast: FastMemory
    Q: Block
    K: Block
    S: Block

    @classmethod
    def of(cls, Q: ArrayLike, K: ArrayLike, fast_words: int, record: bool) -> "_Job":
        left, right = (as_matrix(name, values) for name, values in (("Q", Q), ("K", K)))
        if left.shape[1] != right.shape[1]:
            raise InvalidInput(f"Q is {left.shape[1]:,} wide and K {right.shape[1]:,}; give both the same width")
        shape = Shape(rows=left.shape[0], keys=right.shape[0], depth=left.shape[1])
        fp32 = ElementType.FP32
        return cls(
            shape=shape,
            fast=FastMemory(fast_words, trace=Trace(record=record)),
            Q=Block.whole(SlowArray.elements("Q", left, fp32)),
            K=Block.whole(SlowArray.elements("K", right, fp32)),
            S=Block.whole(SlowArray.unwritten("S", (shape.rows, shape.keys), fp32)),
        )

    def run(self, *, levels: int) -> ProductRun:
        scores = self.S.array.values
        exact = self.Q.array.values.astype(np.float64) @ self.K.array.values.astype(np.float64).T
        return ProductRun(
            shape=self.shape,
            fast_words=self.fast.capacity_words,
            levels=levels,
            scores=scores,
            trace=self.fast.trace,
            peak_words=self.fast.peak_words,
            max_abs_error=float(np.abs(scores - exact).max()),
        )


def as_matrix(name: str, values: ArrayLike) -> NDArray[np.float32]:
    """Values as a matrix, or an error that names it."""
    matrix = np.asarray(values, dtype=np.float32)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInput(
            f"{name} has shape {show_shape(matrix.shape)}; give a matrix with at least one row and one column"
        )
    return matrix
