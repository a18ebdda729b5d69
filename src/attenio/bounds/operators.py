"""Operator by operator: what it costs to write the score matrix down between the products."""

from attenio.bounds.epochs import product_epochs
from attenio.bounds.floats import Floats, larger
from attenio.bounds.lower_bound import LowerBound, Strength, between_units
from attenio.bounds.score_epochs import score_epoch_words
from attenio.workload import Workload


def operator_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    score_loads = score_epoch_words(scores, d, fast_words, units)
    first = larger(product_epochs(scores * d, fast_words, units), scores + score_loads)
    last = larger(product_epochs(scores * value_dim, fast_words, units), scores)
    return first + 2.0 * scores + last


def operator_by_operator(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """The floor under QKᵀ, softmax and PV as three operators that meet in slow memory.

    Theorem: words >= max(2 Z d/sqrt(M) - M, Z + loads of score epochs) + 2 Z + max(2 Z dv/sqrt(M) - M, Z).
    Assumes: ordinary products; each required score is stored, loaded by softmax and stored as a probability, and every
    use of a probability in the last product is of a loaded word.
    Regime: at least 4 Z at any size of fast memory, which is why fusing pays.
    Proof: docs/theory/operators.md

    >>> operator_by_operator(Workload(n=1024, d=64), 2**20).words
    4198400
    """
    words = operator_words(
        float(workload.scores), float(workload.d), float(workload.value_dim), float(fast_words), float(units)
    )
    return LowerBound(
        theorem="operator-by-operator",
        words=int(words),
        strength=Strength.SCHEDULE,
        covers="schedules that write the scores to slow memory between three operators",
        regime="any fast memory: at least 4 Z",
        citation="after Smith et al. 2019, arXiv:1702.02017; derived here, docs/theory/operators.md",
        assumptions=(
            "scores are written to slow memory between operators",
            "softmax is an operator of its own: it loads every score and stores every probability",
            "every use of a probability in the last product is of a loaded word",
            "ordinary products; recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/operators.md",
    )
