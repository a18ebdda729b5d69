"""The best query tile when words depend on it alone: one weight for every live row, one for every key read.

Keys read do not fall steadily as the tile grows: under a mask, and at ragged ends, a smaller tile may read fewer. Two
facts make the search exact and short (see ``patterns.band``). Keys read have floors that fall as a grows, so only tiles
above some size can be as good as the best one known; and between two kinks the words are concave in the tile, so only
ends of pieces can be best. Patterns without known kinks have all remaining tiles tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from attenio.patterns.pattern import Counts
from attenio.patterns.sums import ceil_div
from attenio.planning.problems import Problems

__all__ = ["RowWords", "best_row_tile", "piece_ends"]

# Up to this many tiles, one by one in Python integers is faster than in arrays.
_FEW = 20
_LARGEST_INT64_SUM = 2**62


@dataclass(frozen=True, kw_only=True)
class RowWords:
    """Words as a function of the query tile: ``live`` for each row of a live tile, ``loads`` for each key read.

    Also ``met`` for each row and run of ``split`` keys that its tile meets; ``split`` is at least half of all keys.
    """

    problems: Problems
    live: int
    loads: int
    met: int = 0
    split: int = 1

    def words(self, tile: int) -> int:
        """The words of one tile size."""
        total = self.loads * self.problems.key_loads(tile)
        if self.live:
            total += self.live * self.problems.live_rows(tile)
        return int(total + self.met * self.problems.tile_rows(tile, self.split) if self.met else total)

    def words_of(self, tiles: NDArray[np.int64]) -> Counts:
        """The words of many tile sizes; exact whatever their size."""
        most = (self.live + self.loads + self.met) * (self.problems.scores + self.problems.rows)
        exact = np.int64 if most < _LARGEST_INT64_SUM else object
        total = self.live * self.problems.live_rows(tiles).astype(exact)
        total = total + self.loads * self.problems.key_loads(tiles).astype(exact)
        if self.met:
            total = total + self.met * self.problems.tile_rows(tiles, self.split).astype(exact)
        return total

    def floor(self, tile: int) -> int:
        """A number that no tile up to this size goes below."""
        rows = (self.live + self.met) * self.problems.touched_rows
        loads = self.problems.touched_keys
        for constant, area, lost in self.problems.key_load_floors:
            loads = max(loads, constant - (-area // tile) - lost * tile)
        return rows + self.loads * loads

    def least_tile(self, words: int) -> int:
        """No tile below this one has as few as ``words``."""
        spare = words - (self.live + self.met) * self.problems.touched_rows
        least = 1
        for constant, area, lost in self.problems.key_load_floors:
            room = spare - self.loads * constant
            if lost:  # the positive root of lost*a*a + room*a = area, all but room times loads
                root = isqrt(room * room + 4 * lost * area * self.loads * self.loads)
                least = max(least, (root - room) // (2 * lost * self.loads))
            elif area and room > 0:
                least = max(least, -(-self.loads * area // room))
        return least

    @property
    def kinks(self) -> tuple[int, ...] | None:
        """Ends of the pieces on which the words are concave, or None where every tile has to be tried."""
        if self.met == 0 or self.problems.kinks is None:
            return self.problems.kinks
        return self.problems.run_kinks(self.split)


def best_row_tile(form: RowWords, most: int) -> tuple[int, int]:
    """Fewest words over all tiles from 1 to ``most``, and the smallest tile that has them.

    Without known kinks, any tile that has them: looking for a smaller one would mean trying them all.
    """
    problems = form.problems
    most = min(most, problems.most_rows)
    even = int(ceil_div(problems.most_rows, ceil_div(problems.most_rows, most)))
    best = (form.words(even), even)
    if problems.is_dense and len(problems.patterns) == 1:
        return best  # every tile needs every key, so only how many tiles there are matters
    best = min(best, (form.words(most), most))
    if form.kinks is None:
        return _best_of_all(form, most, best)
    for tiles in _candidates(form.kinks, form.least_tile(best[0]), most, problems.arrays_at_once):
        best = min(best, _best_of(form, tiles))
    return best


def piece_ends(kinks: tuple[int, ...], least: int, most: int) -> list[int] | None:
    """Tiles from ``least`` to ``most`` at an end of a piece, ascending; None if there are no fewer than all of them."""
    ranges = [(x, x // (most + 1) + 1, x // (least - 1) if least > 1 else x) for x in kinks]
    if sum(last - first + 1 for _, first, last in ranges) > (most - least + 1) // 2:
        return None
    ends = {least, most}
    for x, first, last in ranges:
        for i in range(first, last + 1):
            ends.update((x // i, x // i + 1))
    return sorted(end for end in ends if least <= end <= most)


def _candidates(kinks: tuple[int, ...], least: int, most: int, at_once: int) -> Iterator[list[int] | range]:
    ends = piece_ends(kinks, least, most)
    if ends is not None:
        yield from (ends[start : start + at_once] for start in range(0, len(ends), at_once))
    else:
        yield from (range(start, min(start + at_once, most + 1)) for start in range(least, most + 1, at_once))


def _best_of(form: RowWords, tiles: list[int] | range) -> tuple[int, int]:
    if len(tiles) <= (_FEW if len(form.problems.patterns) == 1 else 1):
        return min((form.words(tile), tile) for tile in tiles)
    array = np.asarray(tiles, dtype=np.int64)
    words = form.words_of(array)
    first = int(np.argmin(words))  # the first of equals: tiles ascend
    return int(words[first]), int(array[first])


def _best_of_all(form: RowWords, most: int, best: tuple[int, int]) -> tuple[int, int]:
    """Every tile downwards, as large ones are usually good and every good one raises the smallest worth trying."""
    step, stop, floor = 16, most, form.floor(most)
    while best[0] > floor and stop > (least := form.least_tile(best[0])) - 1:
        start = max(least, stop - step + 1)
        best = min(best, _best_of(form, range(start, stop + 1)))
        stop, step = start - 1, min(2 * step, form.problems.arrays_at_once)
    return best
