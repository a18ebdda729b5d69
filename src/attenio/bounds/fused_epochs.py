"""Fused epochs: in a small fast memory both products of attention have to be paid for."""

from attenio.bounds.epochs import best_over_epochs, products_per_epoch
from attenio.bounds.floats import Floats, larger, root, rounded_down, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, all_units, between_units
from attenio.bounds.whole_products import whole_product_words
from attenio.workload import Workload


def fused_epoch_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""

    def leading(length: Floats) -> Floats:
        budget = fast_words + length
        weighted = root(larger(d * d - budget / 10.0, 0.0))  # the weight of a score product times d
        words = length * (scores * (value_dim + weighted) / products_per_epoch(budget))
        return where(budget <= 5.0 * d * d, words, 0.0)

    lengths = (fast_words, rounded_down(1.5 * fast_words), rounded_down(1.75 * fast_words), 2.0 * fast_words)
    best = best_over_epochs(lengths, leading, fast_words, units, free=scores)
    return larger(best, whole_product_words(scores, d + value_dim, d, fast_words, units))


def fused_epochs(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """Both products count when the fast memory is small, even if scores may be recomputed.

    Theorem: for 3M <= 5d², words >= 2 Z (dv + sqrt(d² - 3M/10))/sqrt(M) - Z - M; shorter epochs serve up to M = 5d²/2.
    Assumes: as output epochs, and a score occupies a word when it is used.
    Regime: fast memory up to about 3d²/2; approaches 4 Z d/sqrt(M) for equal widths.
    Proof: docs/theory/fused_epochs.md

    >>> fused_epochs(Workload(n=1024, d=64), 256).words
    15649369
    """
    words = fused_epoch_words(
        float(workload.scores), float(workload.d), float(workload.value_dim), float(fast_words), float(units)
    )
    if 3 * fast_words <= 5 * workload.d**2:
        regime = f"small fast memory: 2 Z (dv + √(d²-3M/10))/√M - Z - {all_units(units)}"
    elif 2 * fast_words <= 5 * workload.d**2:
        regime = "between small and large fast memory: a shorter epoch"
    else:
        regime = "says nothing above 5d²/2"
    return LowerBound(
        theorem="fused-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=regime,
        assumptions=(
            "each score is a sum of d products of its own, and a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/fused_epochs.md",
    )
