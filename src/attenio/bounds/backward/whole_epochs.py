"""Whole epochs of the gradient: a fast memory more than gradient rows, as epochs are whole."""

from attenio.bounds.backward.gradient_rows import (
    Weights,
    all_weights,
    budget_for,
    weighed_products_of_held_pairs,
    weighed_products_per_epoch,
)
from attenio.bounds.floats import Floats, larger, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.bounds.whole_epochs import best_whole_epochs, shares_worth_trying
from attenio.workload import Direction, Workload


def _from_rows(scores: Floats, weigh: Weights, fast_words: Floats) -> Floats:
    """With the work of gradient-rows."""
    work = scores * weigh[2]
    held = weighed_products_of_held_pairs(2.0 * fast_words, weigh)
    shares = shares_worth_trying(held, fast_words * fast_words, fast_words)
    counts = (work / weighed_products_per_epoch(share * fast_words, weigh) for share in shares)
    return best_whole_epochs(counts, work, lambda part: budget_for(part, weigh), fast_words)


def whole_gradient_words(
    scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0, *, step: bool = False
) -> Floats:
    """The bound in whole words, for floats or arrays of floats; nothing for several fast memories."""
    best: Floats = 0.0
    for weigh in all_weights(d, value_dim, step=step):
        best = larger(best, _from_rows(scores, weigh, fast_words))
    return where(units > 1.0, 0.0, best)


def whole_gradient_epochs(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every backward pass, or step, on one fast memory, with a second term.

    Theorem: words >= M + k T for all whole k and T with k W(M + T) less than all work, W and the work being those of
    gradient-rows. For equal widths about 12 Z d²/M + M from M = 5 d² on, 16 Z d²/M + M for a step.
    Assumes: as gradient-rows; one fast memory, which is empty at the beginning.
    Regime: adds to gradient-rows where fast memory is within a factor of ten of the inputs.
    Proof: docs/theory/whole_epochs.md

    >>> whole_gradient_epochs(Workload(n=4096, d=64, direction="backward"), 4096 * 64).words / (4096 * 64)
    12.99995...
    """
    sizes = float(workload.scores), float(workload.d), float(workload.value_dim), float(fast_words)
    words = whole_gradient_words(*sizes, step=workload.direction is Direction.TRAINING)
    return LowerBound(
        theorem="whole-gradient-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="M + k T, for the best whole number k of epochs",
        assumptions=(
            "each score and each dP is a sum of products of its own",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/whole_epochs.md",
    )
