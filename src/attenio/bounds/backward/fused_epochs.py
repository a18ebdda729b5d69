"""Fused epochs of the gradient: in a small fast memory dP has to be paid for beside the three gradients."""

from attenio.bounds.epochs import best_over_epochs, products_per_epoch
from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, all_units, between_units
from attenio.bounds.whole_products import budget_without_fresh_pairs, whole_product_words
from attenio.workload import Workload


def _weight_of_row_gradients(share: Floats) -> Floats:
    """What a product for dQ or dK weighs, A being ``share`` times 4d², a third at most."""
    best = 1.0 / (1.0 + root(larger(1.0 - 3.0 * share, 0.0)))
    return 0.5 / root(best * (1.0 - best + share * best * best))


def fused_gradient_words(
    scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0
) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    small = 3.0 * fast_words <= 2.0 * d * d
    if not any_of(small):  # nor are there whole products
        return where(small, 0.0, 0.0)

    def leading(length: Floats) -> Floats:
        budget = fast_words + length
        share, rest = budget / (4.0 * d * d), larger(1.0 - budget / (4.0 * value_dim * value_dim), 0.0)
        weighed = value_dim * (rest + root(rest)) + 2.0 * d * _weight_of_row_gradients(share)
        words = length * (scores * weighed / products_per_epoch(budget))
        return where((3.0 * share <= 1.0) & (rest > 0.0), words, 0.0)

    products, narrow = 2.0 * (d + value_dim), smaller(d, value_dim)

    def unweighed(length: Floats) -> Floats:
        budget = fast_words + length
        share = budget / (narrow * narrow)
        words = length * (scores * products / (products_per_epoch(budget) * (1.0 + share / 16.0)))
        return where(3.0 * share <= 4.0, words, 0.0)

    lengths = [rounded_down(share * fast_words) for share in (1.0, 1.5, 1.66, 2.0)]
    best = best_over_epochs(lengths, leading, fast_words, units, free=scores)
    best = larger(best, best_over_epochs(lengths, unweighed, fast_words, units, free=scores))
    return larger(best, whole_product_words(scores, products, budget_without_fresh_pairs(narrow), fast_words, units))


def fused_gradient_epochs(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """The products of dP count when the fast memory is small, even if dP may be recomputed.

    Theorem: for whole T >= M and A = M + T <= 4d²/3, 4dv², with r = 1 - A/4dv² and a weight w close to 1,
    words >= T Z (dv (r + sqrt(r)) + 2 w d)/(A/3)^(3/2) - Z - (T - M). With e the lesser of d and dv and A <= 4e²/3 also
    words >= T 2 Z (d + dv)/((A/3)^(3/2) (1 + A/16e²)) - Z - (T - M).
    Assumes: as gradient-rows, and dP occupies a word when it is used.
    Regime: fast memory up to about d²/2; approaches 8 Z d/sqrt(M) for equal widths.
    Proof: docs/theory/backward_fused_epochs.md

    >>> fused_gradient_epochs(Workload(n=1024, d=64, direction="backward"), 256).words
    32116939
    """
    sizes = float(workload.scores), float(workload.d), float(workload.value_dim), float(fast_words), float(units)
    small = 3 * fast_words <= 2 * workload.d**2 and fast_words < 2 * workload.value_dim**2
    regime = f"small fast memory: about 4 Z (d+dv)/√M - Z - {all_units(units)}"
    return LowerBound(
        theorem="fused-gradient-epochs",
        words=int(fused_gradient_words(*sizes)),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=regime if small else "says nothing above 2d²/3 or 2dv²",
        assumptions=(
            "each score and each dP is a sum of products of its own, and dP a word when it is used",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/backward_fused_epochs.md",
    )
