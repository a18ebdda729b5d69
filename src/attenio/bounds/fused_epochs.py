"""Fused epochs: in a small fast memory both products of attention have to be paid for."""

from attenio.bounds.epochs import best_over_epochs, product_epochs_from_empty, products_per_epoch
from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import (
    OWN_SUMS,
    LowerBound,
    Strength,
    all_units,
    beside_leading_words,
    between_units,
    room_of_products,
)
from attenio.bounds.whole_products import best_whole_epoch, budget_with_few_fresh_pairs, whole_product_words
from attenio.workload import Workload


def _without_weights(square: Floats) -> Floats:
    """The most words of an epoch in which score products count as much as others."""
    return rounded_down(11.0 * square / 6.0)


def _lengths(square: Floats, fast_words: Floats) -> tuple[Floats, ...]:
    """The lengths of an epoch that are tried, the best one in a small fast memory first."""
    most = larger(smaller(2.0 * fast_words, rounded_down(5.0 * square) - fast_words), fast_words)
    longest = smaller(larger(_without_weights(square) - fast_words, fast_words), 2.0 * fast_words)
    return most, fast_words, rounded_down(1.5 * fast_words), rounded_down(1.75 * fast_words), longest


def _weighted(square: Floats, d: Floats, budget: Floats) -> Floats:
    """The weight of a score product times d."""
    return where(6.0 * budget <= 11.0 * square, d, root(larger(square - budget / 10.0, 0.0)))


def _leading(sizes: tuple[Floats, Floats, Floats], fast_words: Floats, length: Floats) -> Floats:
    """Words of epochs of this length, those that are free among them; none where they are too long."""
    (scores, d, value_dim), budget = sizes, fast_words + length
    square = d * d
    words = length * (scores * (value_dim + _weighted(square, d, budget)) / products_per_epoch(budget))
    return where(budget <= 5.0 * square, words, 0.0)


def fused_epoch_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    square = d * d
    small = 2.0 * fast_words <= 5.0 * square
    if not any_of(small):  # nor are there whole products
        return where(small, 0.0, 0.0)

    lengths = _lengths(square, fast_words)
    few, work = budget_with_few_fresh_pairs(d), scores * (d + value_dim)
    alone = product_epochs_from_empty(work, fast_words, free=scores, longest=_without_weights(square))
    alone = where(small & (units <= 1.0), alone, 0.0)

    def leading(length: Floats) -> Floats:
        return _leading((scores, d, value_dim), fast_words, length)

    best = larger(alone, best_over_epochs(lengths, leading, fast_words, units, free=scores))
    return larger(best, whole_product_words(scores, d + value_dim, few, fast_words, units))


def fused_epochs(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """Both products count when the fast memory is small, even if scores may be recomputed.

    Theorem: for 18M <= 11d², words >= 2 Z (d + dv)/sqrt(M) - Z - M, for 3M <= 5d² with sqrt(d² - 3M/10) for d. Shorter
    epochs serve up to M = 5d²/2. On one fast memory also M + k T - Z, if k ((M + T + e)/3)^1.5 < Z (d + dv), where
    e = 1/4(M + T - 1), and M + T + 2 <= 11d²/6: about 2 Z (d + dv)/sqrt(M) - Z + M up to M = (Z (d + dv))^(2/3).
    Assumes: as output epochs, and a score occupies a word when it is used.
    Regime: fast memory up to about 3d²/2; approaches 4 Z d/sqrt(M) for equal widths.
    Proof: docs/theory/fused_epochs.md

    >>> fused_epochs(Workload(n=1024, d=64), 256).words
    15728886
    """
    sizes = float(workload.scores), float(workload.d), float(workload.value_dim)
    words = fused_epoch_words(*sizes, float(fast_words), float(units))
    return LowerBound(
        theorem="fused-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=_regime(sizes, words, fast_words, units),
        assumptions=(
            "each score is a sum of d products of its own, and a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/fused_epochs.md",
    )


def _regime(sizes: tuple[float, float, float], words: float, fast_words: int, units: int) -> str:
    """The formula of the epochs that these words are of."""
    scores, d, value_dim = sizes
    square, fast, work = d * d, float(fast_words), scores * (d + value_dim)
    if 2 * fast_words > 5 * square:
        return "says nothing above 5d²/2"
    if words > 0 and whole_product_words(scores, d + value_dim, budget_with_few_fresh_pairs(d), fast, units) == words:
        length, done = best_whole_epoch(fast_words)
        return f"tiny fast memory: {length} Z (d+dv)/{done} - Z - {units * (length - fast_words)}"
    of_lengths = {
        length: best_over_epochs((length,), lambda each: _leading(sizes, fast, each), fast, float(units), free=scores)
        for length in _lengths(square, fast)
    }
    best = max(of_lengths, key=lambda length: of_lengths[length])
    if of_lengths[best] < words:
        if (fast_words + 1) ** 3 > work**2:
            return "small fast memory: M + k T - Z, for the best whole number k of epochs"
        of_work = work, fast_words, units
        return f"small fast memory: 2 Z (d+dv)/{room_of_products(*of_work)} - Z {beside_leading_words(*of_work)}"
    weight = _weighted(square, d, fast + best) / d
    if best == 2 * fast_words and weight == 1.0:
        return f"small fast memory: 2 Z (d+dv)/√M - Z - {all_units(units)}"
    lost = "(T-M)" if units == 1 else f"{units} (T-M)"
    whole, known = ("(d+dv)", "") if weight == 1.0 else ("(dv + λd)", f" and λ = {weight:.6g}")
    formula = f"T Z {whole}/((M+T)/3)^1.5 - Z - {lost}"
    return f"between small and large fast memory: {formula}, T = {int(best):,}{known}"
