"""Sparse inputs: queries and keys with zeros whose places are known, of which nothing is moved or multiplied."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.bounds.epochs import product_epochs
from attenio.bounds.fused_epochs import fused_epoch_words
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.bounds.output_epochs import output_epoch_words
from attenio.bounds.recomputed_scores import recomputed_score_words
from attenio.bounds.score_epochs import score_epoch_words
from attenio.bounds.whole_epochs import whole_epoch_words
from attenio.errors import InvalidInput
from attenio.quantities import checked_count, show_shape

_PAGE = "docs/theory/sparse.md"
_ASSUMPTIONS = (
    "entries outside the patterns are zero and known to be; nothing is moved for them",
    "each score is a sum of the products of its own nonzeros, and each output a sum of products p·v",
    "recomputation allowed",
)


@dataclass(frozen=True)
class CommonNonzeros:
    """How many required pairs of a row and a key have so many nonzeros in common, for every number up to the width."""

    pairs: tuple[int, ...]

    @property
    def products(self) -> int:
        """Products of nonzeros that the scores are made of."""
        return sum(common * pairs for common, pairs in enumerate(self.pairs))

    @property
    def scores(self) -> int:
        """Required pairs that have a product at all."""
        return sum(self.pairs[1:])

    def with_at_least(self, common: int) -> int:
        """Required pairs with at least so many nonzeros in common."""
        return sum(self.pairs[common:])


def common_nonzeros(queries: ArrayLike, keys: ArrayLike, required: ArrayLike | None = None) -> CommonNonzeros:
    """Counts for patterns of Q and K, true where an entry may be nonzero, and the pairs required, all by default.

    >>> common_nonzeros([[1, 1, 0], [0, 0, 1]], [[1, 1, 1], [0, 1, 0]])
    CommonNonzeros(pairs=(1, 2, 1, 0))
    """
    Q, K = _pattern("queries", queries), _pattern("keys", keys)
    if Q.shape[1] != K.shape[1]:
        raise InvalidInput(f"queries are {Q.shape[1]} wide and keys {K.shape[1]}; give patterns of the same width")
    common = Q.astype(np.int64) @ K.astype(np.int64).T
    asked = np.ones(common.shape, dtype=bool) if required is None else _pattern("required", required)
    if asked.shape != common.shape:
        raise InvalidInput(f"required is {show_shape(asked.shape)}; there are {len(Q)} rows and {len(K)} keys")
    counts = np.bincount(common[asked], minlength=Q.shape[1] + 1)
    return CommonNonzeros(tuple(int(count) for count in counts))


def sparse_inputs(common: CommonNonzeros, value_dim: int, fast_words: int) -> LowerBound:
    """The floor under every schedule for queries and keys with known zeros, forward.

    Theorem: what score-epochs, output-epochs, whole-epochs, fused-epochs and recomputed-scores say of Z pairs of width
    l, Z being the required pairs with at least l nonzeros in common; for every l. And 2N/sqrt(M) - Z - M for N
    products of nonzeros.
    Assumes: as those bounds; scores are sums over the nonzeros that a row and a key have in common.
    Regime: any fast memory. For blocks of nonzeros it grows as Zin²/M and as Zin sqrt(Zqk)/sqrt(M).
    Proof: docs/theory/sparse.md

    >>> dense = common_nonzeros(np.ones((64, 8)), np.ones((64, 8)))
    >>> sparse_inputs(dense, 8, 256).words
    4352
    """
    fast, width = float(checked_count("fast memory (words)", fast_words, most=2**60)), float(value_dim)
    best = float(product_epochs(float(common.products), fast, free=float(common.scores)))
    where = "products of nonzeros: 2 N/√M - Z - M"
    for least in range(1, len(common.pairs)):
        pairs = float(common.with_at_least(least))
        if not pairs:
            break
        found = max(
            score_epoch_words(pairs, float(least), fast),
            output_epoch_words(pairs, float(least), width, fast),
            whole_epoch_words(pairs, float(least), width, fast),
            fused_epoch_words(pairs, float(least), width, fast),
            recomputed_score_words(pairs, float(least), width, fast),
        )
        if found > best:
            best, where = found, f"{int(pairs)} pairs with at least {least} nonzeros in common"
    return LowerBound(
        theorem="sparse-inputs",
        words=int(best),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=where,
        citation="derived here, docs/theory/sparse.md; after Li et al. 2024, arXiv:2410.09397",
        assumptions=_ASSUMPTIONS,
        page=_PAGE,
    )


def _pattern(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    pattern = np.asarray(values, dtype=bool)
    if pattern.ndim != 2 or 0 in pattern.shape:
        raise InvalidInput(
            f"{name} has shape {show_shape(pattern.shape)}; give a matrix with at least one row and one column"
        )
    return pattern
