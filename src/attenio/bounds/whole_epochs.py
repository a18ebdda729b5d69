"""Whole epochs: the words of an epoch bound and one fast memory more, as epochs come in whole numbers."""

from collections.abc import Callable, Iterable

from attenio.bounds.floats import Floats, any_of, cube_root, larger, root, rounded_down, rounded_up, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.bounds.output_epochs import (
    output_products_per_epoch,
    products_from_fresh_scores,
    products_from_held_scores,
)
from attenio.workload import Workload

# Budgets are roots in floating point: this much less is on the safe side. So are words that it does not have exactly.
_SAFETY = 1.0 - 1e-12
_EXACT = 2.0**53
# Epochs of 2M words are the best where the work of one grows with their square, of 3M words where with the power 3/2.
SHARES = (2.0, 2.5, 3.0)

# From so many words on, what an epoch of whole words loses is less than what another share of 2M words does.
ENOUGH = 1000.0

Budget = Callable[[Floats], Floats]  # the words that an epoch needs for so much work


def budget_for(products: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The words that an epoch needs for so many products p·v: the inverse of ``output_products_per_epoch``."""
    width = smaller(d, value_dim)
    fresh = 2.0 * (d + width) * root(products / width)
    capped, few = root(products / value_dim) + value_dim, products <= value_dim * value_dim * value_dim
    held = capped * capped - value_dim * value_dim
    if any_of(few):
        side = cube_root(products)
        held = where(few, 3.0 * side * side, held)
    return smaller(fresh, held)


def words_of(epochs: Floats, work: Floats, budget: Budget, fast_words: Floats) -> Floats:
    """M + k T for k epochs and the largest whole T with which k of them do not do all the work; 0 without one."""
    length = rounded_up(budget(work / epochs) * _SAFETY) - 1.0 - fast_words
    words = fast_words + epochs * length
    if any_of(words >= _EXACT):
        words = where(words < _EXACT, words, words * _SAFETY)
    return where(length >= 1.0, words, 0.0)


def best_whole_epochs(counts: Iterable[Floats], work: Floats, budget: Budget, fast_words: Floats) -> Floats:
    """The best of the whole numbers of epochs next to any of the counts."""
    best: Floats = 0.0
    for count in counts:
        whole = larger(rounded_down(count), 1.0)
        for epochs in (whole, whole + 1.0):
            best = larger(best, words_of(epochs, work, budget, fast_words))
    return best


def shares_worth_trying(
    held: Floats, fresh: Floats, fast_words: Floats, shares: tuple[float, ...] = SHARES
) -> tuple[float, ...]:
    """Those next to whose counts the best may be, the most work of 2M words being ``held`` or ``fresh``.

    Where that is fresh, work grows with the square of words from there on, and the best are next to the first count.
    """
    return shares if any_of((held > fresh) | (fast_words < ENOUGH)) else shares[:1]


def whole_epoch_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats; nothing for several fast memories."""
    work = scores * value_dim
    twice = 2.0 * fast_words
    held, fresh = products_from_held_scores(twice, value_dim), products_from_fresh_scores(twice, d, value_dim)
    shares = shares_worth_trying(held, fresh, fast_words)
    counts = (work / output_products_per_epoch(share * fast_words, d, value_dim) for share in shares)
    best = best_whole_epochs(counts, work, lambda part: budget_for(part, d, value_dim), fast_words)
    return where(units > 1.0, 0.0, best)


def whole_epochs(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every fused schedule on one fast memory, with a second term.

    Theorem: words >= M + k T for all whole k and T with k W(M + T) < Z dv, W being that of output-epochs. For equal
    widths and M >= 4d² that is about 4 Z d²/M + M.
    Assumes: as output-epochs; one fast memory, which is empty at the beginning.
    Regime: adds to output-epochs where fast memory is within a factor of ten of the inputs.
    Proof: docs/theory/whole_epochs.md

    >>> whole_epochs(Workload(n=4096, d=64), 4096 * 64).words / (4096 * 64)
    4.99998...
    """
    d, value_dim = float(workload.d), float(workload.value_dim)
    words = whole_epoch_words(float(workload.scores), d, value_dim, float(fast_words))
    return LowerBound(
        theorem="whole-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="M + k T, for the best whole number k of epochs",
        assumptions=(
            "each score is a sum of d products of its own",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/whole_epochs.md",
    )
