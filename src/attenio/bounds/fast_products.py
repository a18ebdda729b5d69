"""Fast products: a better way to multiply matrices does not lower the traffic of the scores."""

from attenio.bounds.epochs import best_over_epochs
from attenio.bounds.floats import Floats, larger
from attenio.bounds.lower_bound import EXPLICIT_SCORES, LowerBound, Strength, between_units
from attenio.workload import Workload


def explicit_scores_per_epoch(budget: Floats, d: Floats) -> Floats:
    """The most entries of QKᵀ that ``budget`` words can determine, however they are encoded."""
    return larger(2.0 * budget, budget * budget / (d * d))


def fast_product_words(scores: Floats, d: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    widest = larger(fast_words, 2.0 * d * d - fast_words)
    return best_over_epochs(
        (fast_words, widest),
        lambda length: length * (scores / explicit_scores_per_epoch(fast_words + length, d)),
        fast_words,
        units,
    )


def fast_products(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """Any algorithm for QKᵀ, Strassen's included, that makes every required score explicit.

    Theorem: words >= min(Z d²/4M, Z/4). For M < d² also Z/2 (1 - M/2d²) - (2d² - 2M).
    Assumes: moves do not depend on values; each compute step is one of finitely many smooth functions (sums, products,
    quotients, exp, log, root), the choice made by comparing words; every required score is at some time a word in fast
    memory.
    Regime: the same order as the schedules from M = d² on.
    Proof: docs/theory/fast_products.md

    >>> fast_products(Workload(n=1024, d=8), 1024).words
    16384
    """
    words = fast_product_words(float(workload.scores), float(workload.d), float(fast_words), float(units))
    large = fast_words >= workload.d**2
    return LowerBound(
        theorem="fast-products",
        words=int(words),
        strength=Strength.ABSOLUTE,
        covers=EXPLICIT_SCORES,
        regime="fast memory of at least d²: Z d²/4M" if large else "fast memory below d²: between Z/4 and Z/2",
        citation="after Saha & Ye 2024, arXiv:2402.07443, Thm 4.8; constants: docs/theory/fast_products.md",
        assumptions=(
            "any algorithm for QKᵀ whose moves do not depend on values",
            "each step is one of finitely many smooth functions (sums, products, quotients, exp, log, root),"
            " the choice made by comparing words",
            "every required score is at some time a word in fast memory",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/fast_products.md",
    )
