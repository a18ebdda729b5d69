"""Lower bounds on the words that a weight gradient moves."""

from math import sqrt

from attenio.bounds import LowerBound, Strength
from attenio.bounds.epochs import best_over_epochs, products_per_epoch
from attenio.bounds.lower_bound import ANY_ALGORITHM, GROWTH, OWN_SUMS
from attenio.bounds.score_epochs import score_epoch_words
from attenio.quantities import checked_count
from attenio.weight_gradient.workload import WeightGradient, checked_weight_gradient

_PAGE = "docs/guide/weight_gradient.md"


def bounds_for_weight_gradient(workload: WeightGradient, fast_words: int) -> tuple[LowerBound, ...]:
    """Every bound for a fast memory of this many words, the absolute ones first."""
    checked_weight_gradient(workload)
    checked_count("fast memory (words)", fast_words, most=2**60)
    return (
        compulsory_weight_words(workload),
        pair_epochs(workload, fast_words),
        meeting_epochs(workload, fast_words),
        weight_growth(workload, fast_words),
    )


def compulsory_weight_words(workload: WeightGradient) -> LowerBound:
    """Inputs that are needed are read once, outputs are written once.

    Theorem: at least 2(R + F)d + 4d² words move, with R rows that need a key and F keys that a row needs.
    Assumes: inputs start and outputs end in slow memory; every required score is computed from its entries.
    Regime: any fast memory; attained once all keys and weights fit, or all rows.
    Proof: each of the R rows of A1 and dO, of the F rows of A2 and A3, and X and Y is an operand of some product that
    the definition asks for, and is in slow memory only until it is loaded; dX and dY are not there until stored.

    >>> compulsory_weight_words(WeightGradient(n=1024, d=64)).words
    278528
    """
    return LowerBound(
        theorem="compulsory",
        words=workload.compulsory_words,
        strength=Strength.ABSOLUTE,
        covers=ANY_ALGORITHM,
        regime="any fast memory; attained once all keys and weights fit, or all rows",
        citation="folklore; docs/guide/weight_gradient.md",
        assumptions=(
            "inputs start and outputs end in slow memory, and all six inputs are separate arrays",
            "every required score is computed from its entries",
        ),
        page=_PAGE,
    )


def pair_epochs(workload: WeightGradient, fast_words: int) -> LowerBound:
    """Whatever is done with f and q, multiplying them pair by pair loads words.

    Theorem: loads >= min(Z/2, 4 Z d²/M). For M < 8d² also Z(1 - M/16d²) - (16d² - 2M).
    Assumes: every required product f_ij q_ij is computed, from a score and a q_ij that are each a sum of d² products
    of their own, grouped in any order; recomputation is allowed.
    Regime: the second form of the theorem below 8d²; no dataflow known comes nearer than 5/2 times 4 Z d²/M.
    Proof: docs/guide/weight_gradient.md. Score epochs with rows and keys of twice the width.

    >>> pair_epochs(WeightGradient(n=1024, d=8), 1024).words == 4 * 1024**2 * 8**2 // 1024
    True
    """
    d, large = workload.d, fast_words >= 8 * workload.d**2
    return LowerBound(
        theorem="pair-epochs",
        words=int(score_epoch_words(float(workload.scores), 2.0 * d, float(fast_words))),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="fast memory of at least 8d²: 4 Z d²/M" if large else "fast memory below 8d²: between Z/2 and Z",
        assumptions=(
            "every required product f_ij q_ij is computed, and each score and q_ij is a sum of d² products of its own",
            "A1, A2 and A3 are separate arrays",
            "recomputation allowed",
        ),
        page=_PAGE,
    )


def meetings_per_epoch(budget: float, d: float) -> float:
    """The most columns of scores and of q that rows and keys can make in an epoch with this many words."""
    made = budget / d  # what entries that meet without a projection add
    side = budget / ((made + sqrt(made * made + 12.0 * budget)) / 2.0)  # the root of the best number of pairs
    projected = (budget - side * side) * (side + made / 2.0) / 2.0
    mixed: float = sqrt(2.0) * products_per_epoch(budget)
    return min(mixed, projected)


def meeting_epochs(workload: WeightGradient, fast_words: int) -> LowerBound:
    """Rows and keys have to meet for the scores and for q, and in a small fast memory they do so d times for each.

    Theorem: with W(A) <= sqrt(2) (A/3)^(3/2), and close to (A/3)^(3/2) for A much smaller than d²,
    words >= T 2Zd/W(M + T) - 2Z - (T - M) for whole T >= M: at least 2 sqrt(2) Z d/sqrt(M) - 2Z - M, and close to
    4 Z d/sqrt(M) for M much smaller than d².
    Assumes: as pair-epochs, and the score and q of a pair are words when they are multiplied.
    Regime: fast memory below about d²; tiled-products moves 8 Z d/sqrt(M) + 3 Z.
    Proof: docs/guide/weight_gradient.md

    >>> meeting_epochs(WeightGradient(n=1024, d=64), 64).words / (1024**2 * 64 / 8)
    3.10...
    """
    scores, d, fast = float(workload.scores), float(workload.d), float(fast_words)
    words = best_over_epochs(
        (fast, float(int(1.5 * fast)), 2.0 * fast),
        lambda length: length * (2.0 * scores * d / meetings_per_epoch(fast + length, d)),
        fast,
        1.0,
        free=2.0 * scores,
    )
    return LowerBound(
        theorem="meeting-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="small fast memory: from 2√2 Z d/√M - 2Z - M to 4 Z d/√M - 2Z - M",
        assumptions=(
            "every required product f_ij q_ij is computed, and each score and q_ij is a sum of d² products of its own",
            "a score and a q_ij are words when they are multiplied",
            "A1, A2 and A3 are separate arrays",
            "recomputation allowed",
        ),
        page=_PAGE,
    )


def weight_growth(workload: WeightGradient, fast_words: int) -> LowerBound:
    """How the traffic grows in the two regimes.

    Theorem: Θ(min((n²d² + nd³)/M, (n²d + nd²)/sqrt(M))); required scores stand for n² and rows with a key for n.
    Assumes: ordinary matrix products. No constant is claimed.
    Regime: the two terms cross at M = d².
    Proof: cited.

    >>> bound = weight_growth(WeightGradient(n=1024, d=64), 4096)
    >>> bound.words, bound.strength
    (1114112, <Strength.ASYMPTOTIC: 'asymptotic'>)
    """
    d, products = workload.d, workload.scores + int(workload.pattern.rows) * workload.d
    large = fast_words >= d * d
    words = products * d * d / fast_words if large else products * d / sqrt(fast_words)
    return LowerBound(
        theorem="weight-gradient-growth",
        words=int(words),
        strength=Strength.ASYMPTOTIC,
        covers=GROWTH,
        regime="fast memory of at least d²: grows as (Z d² + R d³)/M"
        if large
        else "fast memory below d²: grows as (Z d + R d²)/√M",
        citation="Li, Liang, Shi, Song, Yue & Zhang 2024, arXiv:2410.09397, Thm 1.1",
        assumptions=("ordinary matrix products", "growth only: the constant is not stated"),
        page=_PAGE,
    )
