"""What every epoch argument shares: cut a run where a clock has advanced by one epoch, and count its words.

Proof: docs/theory/model.md, sections "Epochs" and "From one epoch to the whole run".
"""

from collections.abc import Callable, Iterable
from math import inf

from attenio.bounds.floats import Floats, cube_root, larger, root, rounded_down, rounded_up, where

# A dozen roundings cost at most a few 1e-16 of the leading term, so this keeps a bound on the safe side of the theorem.
_SAFETY = 1.0 - 1e-12


def whole_words(leading: Floats, subtracted: Floats = 0.0) -> Floats:
    """Whole words that are at least ``leading - subtracted``: a run moves whole words, so rounding up stays a bound."""
    return larger(rounded_up(leading * _SAFETY - subtracted), 0.0)


def best_over_epochs(
    lengths: Iterable[Floats],
    leading: Callable[[Floats], Floats],
    fast_words: Floats,
    units: Floats,
    free: Floats = 0.0,
) -> Floats:
    """The best bound over several lengths of an epoch; each of them is a theorem on its own.

    ``leading(T)`` is T times the number of epochs of T ticks; it holds for whole T of at least the fast memory.
    ``units`` fast memories each start empty, hence T - M is lost once for each of them. ``free`` ticks cost no word.
    """
    best: Floats = 0.0
    for length in lengths:
        best = larger(best, whole_words(leading(length), free + units * (length - fast_words)))
    return best


def products_per_epoch(budget: Floats) -> Floats:
    """The most products of an ordinary matrix product that an epoch with this many words can do: (A/3)^(3/2)."""
    third = budget / 3.0
    return third * root(third)


def product_epochs(
    products: Floats, fast_words: Floats, units: Floats = 1.0, free: Floats = 0.0, fraction: Floats = 0.0
) -> Floats:
    """Words for this many products that accumulate in words of fast memory; about T = 2M is the best epoch.

    A clock that advances by fractions of a tick may pass the end of an epoch by ``fraction`` before it is seen.
    """
    middle = (rounded_down(1.5 * fast_words),) if fraction else ()
    return best_over_epochs(
        (fast_words, *middle, 2.0 * (fast_words + fraction)),
        lambda length: length * (products / products_per_epoch(fast_words + length + fraction)),
        fast_words,
        units,
        free,
    )


def product_epochs_from_empty(
    work: Floats, fast_words: Floats, beyond: Floats = 0.0, free: Floats = 0.0, longest: Floats = inf
) -> Floats:
    """Words for this much work on one fast memory that begins empty, for the best whole number of epochs.

    An epoch with A words, up to the ``longest``, does up to ((A + beyond)/3)^(3/2); the clock may pass its end by less
    than a word, which the next epoch has less. Proof: docs/theory/whole_epochs.md, section "Small fast memories".
    """
    room = fast_words + beyond
    about = room + 0.25 / larger(3.0 * room - 2.0, 1.0)  # the best epochs have three times that
    least = larger(rounded_down(work / (about * root(about))), 1.0)
    best: Floats = 0.0
    for epochs in (least, least + 1.0):
        side = cube_root(work / epochs)
        budget = 3.0 * side * side
        # where an epoch may be a word longer, what epochs do beyond their mean is that of so many words more
        long_enough = (budget > 3.0) & (budget + 1.0 <= longest + beyond)
        needed = room + where(long_enough, 0.25 / larger(budget - 2.0, 1.0), 1.0)
        words = whole_words(epochs * budget, free + (epochs * needed - fast_words))
        best = larger(best, where((budget * _SAFETY > needed) & (budget <= longest + beyond), words, 0.0))
    return best
