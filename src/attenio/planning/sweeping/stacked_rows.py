"""The search of ``words.stacked_rows`` for many cases at once, by the same floors."""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.sweeping.cases import Cases, Ints, take
from attenio.planning.words.stacked_rows import StackedRows, StackedWords
from attenio.planning.words.staying_sums import StayingSums, SumsWords, sums_words

Floats = NDArray[np.float64]


def stacked_of(cases: Cases, phase: StackedRows) -> StackedWords:
    """Phases, rows of all heads and keys of the cases."""
    names, sizes = phase[:2], (value + 0 * cases.rows for value in phase[2:])
    return StackedWords(
        StackedRows(*names, *sizes), cases.group * cases.rows, cases.keys, cases.fast_words - phase.beside
    )


def sums_of(cases: Cases, phase: StayingSums) -> SumsWords:
    """The same of sums that stay."""
    names = ("per_row", "per_sum", "beside", "loads", "travels", "once")
    every = phase._replace(**{name: getattr(phase, name) + 0 * cases.rows for name in names})
    return sums_words(every, (cases.group, cases.rows, cases.keys), cases.fast_words)


def stacked_floors(cases: Cases, phase: StackedRows | StayingSums, spare: Counts) -> Floats:
    """Words that no tiles go below; infinite where none fit, a mask hides scores, or nothing is to spare."""
    found = np.full(len(cases), np.inf)
    free = (cases.row_unit == 1) & (cases.key_unit == 1) & (spare >= 0)
    index = np.flatnonzero(free & cases.band.is_dense)
    if index.size:
        some, few = take(cases, index), take(phase, index)
        words = stacked_of(some, few) if isinstance(few, StackedRows) else sums_of(some, few)
        found[index] = np.where(words.most >= 1, words.floor(), np.inf)
    return found


def best_tiles_of_stacked(words: StackedWords | SumsWords, limit: Ints) -> tuple[Ints, Ints, Ints]:
    """Fewest words, the tile that has them, and slots, in cases in which some fit; beyond ``limit``, any."""
    low, high = np.asarray(words.fewest), np.asarray(words.end)
    best, counts = np.asarray(words.words(low)), low.copy()
    _take_better(words, np.flatnonzero(high > low), np.minimum(high, words.rows), best, counts)
    high = np.minimum(high, words.rows + 1) - 1
    left = np.flatnonzero(low < high)
    while left.size:
        low[left] += 1
        some = take(words, left)
        left = left[some.least(low[left]) <= np.minimum(best, limit)[left]]
        _take_better(words, left, low, best, counts)
        left = left[low[left] < high[left]]
    left = np.flatnonzero(low < high)
    while left.size:
        some = take(words, left)
        left = left[some.least(high[left]) <= np.minimum(best, limit)[left]]
        _take_better(words, left, high, best, counts)
        high[left] -= 1
        left = left[low[left] < high[left]]
    return best, np.asarray(ceil_div(words.rows, counts)), np.asarray(words.slots(counts))


def _take_better(words: StackedWords | SumsWords, index: Ints, tried: Ints, best: Ints, counts: Ints) -> None:
    """Replace words and numbers of tiles of some cases where others move less, or as few in fewer tiles."""
    if not index.size:
        return
    found, many = np.asarray(take(words, index).words(tried[index])), tried[index]
    better = (found < best[index]) | ((found == best[index]) & (many < counts[index]))
    chosen = index[better]
    best[chosen], counts[chosen] = found[better], many[better]
