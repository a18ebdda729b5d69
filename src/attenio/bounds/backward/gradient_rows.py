"""Gradient rows: rows of Q, dO, dQ and of K, V, dK, dV compete for a large fast memory."""

from attenio.bounds.epochs import best_over_epochs
from attenio.bounds.floats import Floats, larger, root, smaller
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, between_units
from attenio.workload import Direction, Workload

Weights = tuple[Floats, Floats, Floats]  # of a product dS·k or dS·q, of a product with p, of all products of a pair


def weights(d: Floats, value_dim: Floats, *, step: bool = False) -> Weights:
    """What products count, so that an epoch of y words does at most y²/4 with pairs made afresh."""
    width, narrow = d + value_dim, smaller(d, value_dim)
    with_p = 2.0 * (d + narrow)
    together = smaller((width + d) * (width + d), 2.0 * (width + d) * width - value_dim * with_p)
    pair = together + value_dim * with_p * (2.0 if step else 1.0)
    return together / (2.0 * d), with_p, pair


def weighed_products_per_epoch(budget: Floats, weigh: Weights) -> Floats:
    """The most weighed products in an epoch with this many words, held pairs included."""
    heaviest, pair = larger(weigh[0], weigh[1]), weigh[2]
    least = pair + heaviest * heaviest / 4.0
    words = larger(budget, least)  # shorter epochs do no more for each word than this one
    side = heaviest * words / (root(pair * pair + heaviest * heaviest * words) + pair)
    rest = words - side * side
    most = larger(words * words / 4.0, rest * rest / 4.0 + pair * side * side)
    return most * (budget / words)


def _words(scores: Floats, weigh: Weights, fast_words: Floats, units: Floats) -> Floats:
    return best_over_epochs(
        (fast_words, 2.0 * fast_words),
        lambda length: length * (scores * weigh[2] / weighed_products_per_epoch(fast_words + length, weigh)),
        fast_words,
        units,
    )


def gradient_row_words(
    scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0, *, step: bool = False
) -> Floats:
    """The bound in whole words, for floats or arrays of floats; a step also computes the output."""
    backward = _words(scores, weights(d, value_dim), fast_words, units)
    if not step:
        return backward
    return larger(backward, _words(scores, weights(d, value_dim, step=True), fast_words, units))


def gradient_rows(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """The floor under every backward pass, two-pass and recomputing ones included, for large fast memory.

    Theorem: words >= Z G/M once an epoch of 2M words does most with pairs made afresh. For dv <= d that is so from
    M = 5G/4 on and G = 2 (2d+dv)(d+dv), hence 12 Z d²/M for equal widths; G = 4 (d+dv)², 16 Z d²/M, for a training
    step. Below, the best epoch.
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
    fresh = weighed_products_per_epoch(2.0 * fast_words, weigh) <= float(fast_words) ** 2
    return LowerBound(
        theorem="gradient-rows",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=(
            f"large fast memory: Z G/M, G = {weigh[2]:.6g}"
            if fresh
            else f"below about 5G/4 = {1.25 * weigh[2]:.6g} words: the best epoch"
        ),
        citation="derived here, docs/theory/backward_gradient_rows.md",
        assumptions=(
            "each score and each dP is a sum of products of its own",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/backward_gradient_rows.md",
    )
