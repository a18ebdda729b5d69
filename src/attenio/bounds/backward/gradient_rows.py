"""Gradient rows: rows of Q, dO, dQ and of K, V, dK, dV compete for a large fast memory."""

from math import ceil

from attenio.bounds.epochs import best_over_epochs, products_per_epoch
from attenio.bounds.floats import Floats, any_of, cube_root, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, between_units
from attenio.quantities import show_number, show_words
from attenio.workload import Direction, Workload

Weights = tuple[Floats, Floats, Floats]  # of a product dS·k or dS·q, of a product with p, of all products of a pair


def weights(d: Floats, value_dim: Floats, *, step: bool = False) -> Weights:
    """What products count, so that an epoch of y words does at most y²/4 with pairs made afresh."""
    width, narrow = d + value_dim, smaller(d, value_dim)
    with_p = 2.0 * (d + narrow)
    together = smaller((width + d) * (width + d), 2.0 * (width + d) * width - value_dim * with_p)
    pair = together + value_dim * with_p * (2.0 if step else 1.0)
    return together / (2.0 * d), with_p, pair


def even_weights(d: Floats, value_dim: Floats, *, step: bool = False) -> Weights:
    """Every product counts the same, which is better in small fast memories where values are wider than keys."""
    each = where(value_dim <= d, 2.0 * (d + value_dim), 4.0 * d)
    return each, each, each * (2.0 * (d + value_dim) if step else 2.0 * d + value_dim)


def all_weights(d: Floats, value_dim: Floats, *, step: bool = False) -> tuple[Weights, ...]:
    """Every choice of weights, which are the same where values are no wider; a step is also a backward pass."""
    ways, kinds = (False, True) if step else (False,), (weights, even_weights) if any_of(value_dim > d) else (weights,)
    return tuple(weigh(d, value_dim, step=way) for weigh in kinds for way in ways)


def _heaviest(weigh: Weights) -> Floats:
    return larger(weigh[0], weigh[1])


def weighed_products_per_epoch(budget: Floats, weigh: Weights) -> Floats:
    """The most weighed products in an epoch with this many words: of pairs made afresh, or of pairs that flow in."""
    return larger(budget * budget / 4.0, weighed_products_of_held_pairs(budget, weigh))


def weighed_products_of_held_pairs(budget: Floats, weigh: Weights) -> Floats:
    """The same where all pairs flow in."""
    heavy, pair = _heaviest(weigh), weigh[2]
    side = heavy * budget / (root(pair * pair + heavy * heavy * budget) + pair)
    return where(heavy * heavy * budget <= 3.0 * pair * pair, heavy * products_per_epoch(budget), pair * side * side)


def budget_for(work: Floats, weigh: Weights) -> Floats:
    """The words that an epoch needs for so much work: the inverse of ``weighed_products_per_epoch``."""
    heavy, pair = _heaviest(weigh), weigh[2]
    pairs, few = work / pair, heavy * heavy * work <= pair * pair * pair
    held = pairs + 2.0 * pair / heavy * root(pairs)
    if any_of(few):
        side = cube_root(work / heavy)
        held = where(few, 3.0 * side * side, held)
    return smaller(2.0 * root(work), held)


def _turning_budget(weigh: Weights) -> Floats:
    """The words of an epoch from which on it does most with pairs made afresh."""
    return (16.0 / 27.0) * _heaviest(weigh) * _heaviest(weigh)


def _words(scores: Floats, weigh: Weights, fast_words: Floats, units: Floats) -> Floats:
    turning = larger(fast_words, rounded_down(_turning_budget(weigh)) - fast_words)
    return best_over_epochs(
        (fast_words, 2.0 * fast_words, smaller(turning, 2.0 * fast_words)),
        lambda length: length * (scores * weigh[2] / weighed_products_per_epoch(fast_words + length, weigh)),
        fast_words,
        units,
    )


def gradient_row_words(
    scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0, *, step: bool = False
) -> Floats:
    """The bound in whole words, for floats or arrays of floats; a step also computes the output."""
    best: Floats = 0.0
    for weigh in all_weights(d, value_dim, step=step):
        best = larger(best, _words(scores, weigh, fast_words, units))
    return best


def gradient_rows(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """The floor under every backward pass, two-pass and recomputing ones included.

    Theorem: words >= T Z G/W(M + T) - (T - M) for whole T >= M, W(A) = max(A²/4, w (A/3)^(3/2)) and w the weight of a
    product. That is Z G/M from M = 8w²/27 on, for equal widths 12 Z d²/M from M = 4.75 d² on; G = 4 (d+dv)²,
    16 Z d²/M, for a training step. Below, 6 Z d/sqrt(M) - M, and 8 Z d/sqrt(M) - M for a step.
    Assumes: dQ, dK and dV are sums of their products in any order; scores and dP as sums of products of their own.
    Regime: within 7/6 of the two-pass schedule for large fast memory and equal widths.
    Proof: docs/theory/backward_gradient_rows.md

    >>> gradient_rows(Workload(n=131072, d=64, direction="backward"), 262144).words
    3221225472
    """
    d, value_dim = float(workload.d), float(workload.value_dim)
    step = workload.direction is Direction.TRAINING
    words = gradient_row_words(float(workload.scores), d, value_dim, float(fast_words), float(units), step=step)
    weigh = weights(d, value_dim, step=step)
    least = _turning_budget(weigh) / 2.0
    return LowerBound(
        theorem="gradient-rows",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=(
            f"large fast memory: Z G/M, G = {show_number(weigh[2])}"
            if fast_words >= least
            else f"below {show_words(ceil(least))}: the best epoch"
        ),
        assumptions=(
            "each score and each dP is a sum of products of its own",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/backward_gradient_rows.md",
    )
