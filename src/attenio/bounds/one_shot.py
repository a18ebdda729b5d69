"""One shot: what holds when no score is computed twice."""

from attenio.bounds.epochs import product_epochs
from attenio.bounds.floats import Floats
from attenio.bounds.lower_bound import LowerBound, Strength, all_units, between_units
from attenio.workload import Workload


def one_shot_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    return product_epochs(scores * (d + value_dim), fast_words, units, free=scores)


def one_shot(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """Schedules that never recompute a score pay for both products at any size of fast memory.

    Theorem: words >= 2 Z (d + dv)/sqrt(M) - Z - M.
    Assumes: as fused epochs, and each product q·k is computed once.
    Regime: strongest below M = (d + dv)²; there it touches Z (d + dv)²/M, the leading term of AttenIO's schedule.
    Proof: docs/theory/one_shot.md

    >>> one_shot(Workload(n=1024, d=64), 4096).words
    3141632
    """
    d, value_dim = workload.d, workload.value_dim
    words = one_shot_words(float(workload.scores), float(d), float(value_dim), float(fast_words), float(units))
    small = f"fast memory up to (d+dv)²: 2 Z (d+dv)/√M - Z - {all_units(units)}"
    return LowerBound(
        theorem="one-shot",
        words=int(words),
        strength=Strength.SCHEDULE,
        covers="schedules that compute no score twice, with ordinary products",
        regime=small if fast_words <= (d + value_dim) ** 2 else "weak above (d+dv)²: see output-epochs",
        assumptions=(
            "no score is recomputed: each product q·k is computed once",
            "each score is a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            *between_units(units),
        ),
        page="docs/theory/one_shot.md",
    )
