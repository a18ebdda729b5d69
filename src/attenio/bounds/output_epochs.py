"""Output epochs: rows of queries and rows of outputs compete for the same fast memory."""

from attenio.bounds.epochs import best_over_epochs, products_per_epoch
from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, all_units, between_units, entries_in_words
from attenio.workload import Workload


def products_from_held_scores(budget: Floats, value_dim: Floats) -> Floats:
    """The most products p·v in an epoch whose probabilities all flow in."""
    square = value_dim * value_dim
    side, few = root(square + budget) - value_dim, budget <= 3.0 * square
    capped = value_dim * side * side
    return where(few, products_per_epoch(budget), capped) if any_of(few) else capped


def products_from_fresh_scores(budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The most products p·v in an epoch whose probabilities are all computed in it."""
    width = smaller(d, value_dim)
    rows = budget / (2.0 * (d + width))
    return width * rows * rows


def output_products_per_epoch(budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The most products p·v that an epoch with this many words can add to outputs."""
    return larger(products_from_held_scores(budget, value_dim), products_from_fresh_scores(budget, d, value_dim))


def turning_budget(d: Floats, value_dim: Floats) -> Floats:
    """The words of an epoch from which on it is better to compute scores afresh than to bring them in."""
    narrow = 4.0 * d * (d + value_dim)
    middle = 16.0 * d * value_dim - 8.0 * value_dim * root(d * value_dim)
    wide = (256.0 / 27.0) * d * d
    return rounded_down(where(value_dim <= d, narrow, where(9.0 * value_dim <= 16.0 * d, middle, wide)))


def output_epoch_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    turning = larger(fast_words, turning_budget(d, value_dim) - fast_words)
    return best_over_epochs(
        (fast_words, rounded_down(1.5 * fast_words), 2.0 * fast_words, turning),
        lambda length: length * (scores * value_dim / output_products_per_epoch(fast_words + length, d, value_dim)),
        fast_words,
        units,
    )


def _regime(fast_words: int, d: int, value_dim: int, units: int) -> str:
    """Which of the page's special cases this is: its formula is printed only where it holds."""

    def fresh_over_held(budget: float) -> float:
        return float(
            products_from_fresh_scores(budget, float(d), float(value_dim))
            / products_from_held_scores(budget, float(value_dim))
        )

    if fresh_over_held(2.0 * fast_words) >= 1 - 1e-12:  # equal at M = 2d(d+dv), up to rounding
        return "large fast memory: 4 Z d²/M" if d == value_dim else "large fast memory: Z dv (d+e)²/(e M), e=min(d,dv)"
    if fast_words <= value_dim**2 and fresh_over_held(3.0 * fast_words) <= 1:
        return f"fast memory up to dv²: 2 Z dv/√M - {all_units(units)}"
    return "between small and large fast memory: the best epoch"


def output_epochs(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """The floor under every fused schedule, recomputing ones included.

    Theorem: with e = min(d, dv), words >= Z dv (d+e)²/(e M) once M >= 2d(d+dv) (for dv <= d), which is 4 Z d²/M for
    equal widths; 2 Z dv/sqrt(M) - M for M <= dv² if an epoch of 3M words does no more with fresh scores than with held
    ones, W2(3M) >= W1(3M) (always so for dv <= d); in between the best of several epochs. Where some entries of keys
    and values share a word, Z divided by their number takes the place of Z.
    Assumes: scores as sums of products of their own, each output a sum of p·v; recomputation is allowed.
    Regime: matches AttenIO's schedule to leading order for large fast memory.
    Proof: docs/theory/output_epochs.md

    >>> output_epochs(Workload(n=131072, d=64), 262144).words
    1073741824
    """
    d, value_dim, entries = workload.d, workload.value_dim, workload.entries_per_word
    words = output_epoch_words(workload.scores / entries, float(d), float(value_dim), float(fast_words), float(units))
    return LowerBound(
        theorem="output-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=_regime(fast_words, d, value_dim, units),
        assumptions=(
            "each score is a sum of d products of its own",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            *entries_in_words(entries),
            *between_units(units),
        ),
        page="docs/theory/output_epochs.md",
    )
