"""Fused epochs: in a small fast memory both products of attention have to be paid for."""

from attenio.bounds.epochs import best_over_epochs, product_epochs_from_empty, products_per_epoch
from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, all_units, between_units
from attenio.bounds.whole_products import budget_with_few_fresh_pairs, whole_product_words
from attenio.workload import Workload


def fused_epoch_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    square = d * d
    small = 2.0 * fast_words <= 5.0 * square
    if not any_of(small):  # nor are there whole products
        return where(small, 0.0, 0.0)

    def leading(length: Floats) -> Floats:
        budget = fast_words + length
        lighter = root(larger(square - budget / 10.0, 0.0))
        weighted = where(6.0 * budget <= 11.0 * square, d, lighter)  # the weight of a score product times d
        words = length * (scores * (value_dim + weighted) / products_per_epoch(budget))
        return where(budget <= 5.0 * square, words, 0.0)

    without_weights = rounded_down(11.0 * square / 6.0)
    longest = smaller(larger(without_weights - fast_words, fast_words), 2.0 * fast_words)
    most = larger(smaller(2.0 * fast_words, rounded_down(5.0 * square) - fast_words), fast_words)
    lengths = (fast_words, rounded_down(1.5 * fast_words), rounded_down(1.75 * fast_words), longest, most)
    few, work = budget_with_few_fresh_pairs(d), scores * (d + value_dim)
    alone = product_epochs_from_empty(work, fast_words, free=scores, longest=without_weights)
    alone = where(small & (units <= 1.0), alone, 0.0)
    best = larger(alone, best_over_epochs(lengths, leading, fast_words, units, free=scores))
    return larger(best, whole_product_words(scores, d + value_dim, few, fast_words, units))


def fused_epochs(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """Both products count when the fast memory is small, even if scores may be recomputed.

    Theorem: for 18M <= 11d², words >= 2 Z (d + dv)/sqrt(M) - Z - M, for 3M <= 5d² with sqrt(d² - 3M/10) for d. Shorter
    epochs serve up to M = 5d²/2. On one fast memory also M + k T - Z, if k ((M + T + 1)/3)^1.5 < Z (d + dv) and
    M + T < 11d²/6: about 2 Z (d + dv)/sqrt(M + 1) - Z + M up to M = (Z (d + dv))^(2/3).
    Assumes: as output epochs, and a score occupies a word when it is used.
    Regime: fast memory up to about 3d²/2; approaches 4 Z d/sqrt(M) for equal widths.
    Proof: docs/theory/fused_epochs.md

    >>> fused_epochs(Workload(n=1024, d=64), 256).words
    15728384
    """
    words = fused_epoch_words(
        float(workload.scores), float(workload.d), float(workload.value_dim), float(fast_words), float(units)
    )
    if 18 * fast_words <= 11 * workload.d**2:
        regime = f"small fast memory: 2 Z (d+dv)/√M - Z - {all_units(units)}"
    elif 3 * fast_words <= 5 * workload.d**2:
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
