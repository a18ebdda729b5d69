"""Whole epochs: the words of an epoch bound and one fast memory more, as epochs come in whole numbers."""

from collections.abc import Callable

import numpy as np

from attenio.bounds.epochs import Floats
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.bounds.output_epochs import output_products_per_epoch
from attenio.workload import Workload

# Budgets are roots in floating point: this much less is on the safe side.
_SAFETY = 1.0 - 1e-12
# Epochs of 2M words are the best where the work of one grows with their square, of 3M words where with the power 3/2.
_SHARES = np.array((2.0, 2.5, 3.0))

Budget = Callable[[Floats], Floats]  # the words that an epoch needs for so much work


def budget_for(products: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The words that an epoch needs for so many products p·v: the inverse of ``output_products_per_epoch``."""
    width = np.minimum(d, value_dim)
    fresh = 2.0 * (d + width) * np.sqrt(products / width)
    few = 3.0 * np.cbrt(products) ** 2
    many = (np.sqrt(products / value_dim) + value_dim) ** 2 - value_dim * value_dim
    return np.minimum(fresh, np.where(products <= value_dim * value_dim * value_dim, few, many))


def words_of(epochs: Floats, work: Floats, budget: Budget, fast_words: Floats) -> Floats:
    """M + k T for k epochs and the largest whole T with which k of them do not do all the work; 0 without one."""
    length = np.ceil(budget(work / epochs) * _SAFETY) - 1.0 - fast_words
    return np.where(length >= 1.0, fast_words + epochs * length, 0.0)


def best_whole_epochs(counts: Floats, work: Floats, budget: Budget, fast_words: Floats) -> Floats:
    """The best of the whole numbers of epochs next to ``counts``, a choice in every row."""
    count = np.maximum(np.floor(counts), 1.0)
    return words_of(np.concatenate((count, count + 1.0)), work, budget, fast_words).max(axis=0)


def whole_epoch_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats; nothing for several fast memories."""
    several = np.broadcast_shapes(*map(np.shape, (scores, d, value_dim, fast_words)))
    each = output_products_per_epoch(_SHARES.reshape(-1, *(1 for _ in several)) * fast_words, d, value_dim)
    work = scores * value_dim
    found = best_whole_epochs(work / each, work, lambda part: budget_for(part, d, value_dim), fast_words)
    return np.where(np.asarray(units) > 1.0, 0.0, found)


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
        citation="derived here, docs/theory/whole_epochs.md",
        assumptions=(
            "each score is a sum of d products of its own",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/whole_epochs.md",
    )
