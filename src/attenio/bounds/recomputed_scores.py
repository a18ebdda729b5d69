"""Recomputed scores: every column of the values pays for its share of the score it is multiplied with."""

from attenio.bounds.epochs import product_epochs, product_epochs_from_empty
from attenio.bounds.floats import Floats, larger, root, where
from attenio.bounds.lower_bound import (
    OWN_SUMS,
    LowerBound,
    Strength,
    beside_leading_words,
    between_units,
    room_of_products,
)
from attenio.workload import Workload


def counted_products(making: Floats, using: Floats) -> Floats:
    """Of the products that make a pair and those that use it, as many as count at any size of fast memory.

    That is the least of making/s + using s over 0 < s <= 1.

    >>> counted_products(64.0, 64.0), counted_products(16.0, 64.0)
    (128.0, 64.0)
    """
    return where(using <= making, making + using, 2.0 * root(making * using))


def recomputed_score_words(
    scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0
) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    products = scores * counted_products(d, value_dim)
    alone = where(units > 1.0, 0.0, product_epochs_from_empty(products, fast_words, free=scores))
    return larger(alone, product_epochs(products, fast_words, units, free=scores, fraction=1.0))


def recomputed_scores(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """Both products count at any size of fast memory, however often scores are recomputed.

    Theorem: words >= M + k T - Z if k is whole, T > 0 and k ((M + T + e)/3)^1.5 < Z G, e = 1/4(M + T - 1), G = d + dv
    for dv <= d and 2 sqrt(d dv) for dv > d: about 2 Z G/sqrt(M) + M - Z up to M = (Z G)^(2/3). On each of several
    units, and beyond, 2 Z G/sqrt(M + 1) - M - 2 - Z.
    Assumes: as fused epochs.
    Regime: strongest from about d²/2 up to M = (d + dv)², where it meets Z (d + dv)²/M, the leading term of AttenIO's.
    Proof: docs/theory/recomputed_scores.md

    >>> recomputed_scores(Workload(n=1024, d=64), 4096).words
    3149824
    """
    d, value_dim = workload.d, workload.value_dim
    sizes = float(workload.scores), float(d), float(value_dim), float(fast_words), float(units)
    counted = "(d+dv)" if value_dim <= d else "2 √(d dv)"
    of_work = sizes[0] * counted_products(*sizes[1:3]), fast_words, units
    leading = f"2 Z {counted}/{room_of_products(*of_work)}"
    small = f"fast memory up to (d+dv)²: {leading} - Z {beside_leading_words(*of_work)}"
    return LowerBound(
        theorem="recomputed-scores",
        words=int(recomputed_score_words(*sizes)),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=small if fast_words <= (d + value_dim) ** 2 else "weak above (d+dv)²: see output-epochs",
        assumptions=(
            "each score is a sum of d products of its own, and a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/recomputed_scores.md",
    )
