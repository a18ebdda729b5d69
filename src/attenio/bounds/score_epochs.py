"""Score epochs: obtaining the scores alone already forces loads."""

from attenio.bounds.epochs import best_over_epochs
from attenio.bounds.floats import Floats, larger
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, between_units, entries_in_words
from attenio.workload import Workload


def scores_per_epoch(budget: Floats, d: Floats) -> Floats:
    """The most scores that can be completed when ``budget`` words flow into an epoch."""
    return larger(budget, budget * budget / (4.0 * d * d))


def score_epoch_words(scores: Floats, d: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    widest = larger(fast_words, 4.0 * d * d - fast_words)
    return best_over_epochs(
        (fast_words, widest),
        lambda length: length * (scores / scores_per_epoch(fast_words + length, d)),
        fast_words,
        units,
    )


def score_epochs(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """Whatever is done with the scores, computing them loads words.

    Theorem: loads >= min(Z/2, Z d²/M). For M < 2d² also Z(1 - M/4d²) - (4d² - 2M). Where e entries of a key share a
    word, Z/e takes the place of Z.
    Assumes: a score is a sum of d products of its own, in any order; recomputation is allowed.
    Regime: tight for the scores alone from M = 2d² on; below that any bound on loads of this kind stays under Z.
    Proof: docs/theory/score_epochs.md

    >>> score_epochs(Workload(n=1024, d=8), 1024).words
    65536
    """
    entries = workload.entries_per_word
    scores = workload.scores / entries  # an epoch makes as many times more of them
    words = score_epoch_words(scores, float(workload.d), float(fast_words), float(units))
    large = fast_words >= 2 * workload.d**2
    return LowerBound(
        theorem="score-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="fast memory of at least 2d²: Z d²/M" if large else "fast memory below 2d²: between Z/2 and Z",
        assumptions=(
            "each score is a sum of d products of its own",
            "recomputation allowed",
            *entries_in_words(entries),
            *between_units(units),
        ),
        page="docs/theory/score_epochs.md",
    )
