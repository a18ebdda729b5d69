"""The best query tile when words depend on it alone: one weight for every live row, one for every key read.

Keys read do not fall steadily as the tile grows: under a mask, and at ragged ends, a smaller tile may read fewer. Two
facts make the search exact and short (see ``Band``). Keys read have floors that fall as a grows, so only tiles
above some size can be as good as the best one known; and between two kinks the words are concave in the tile, so only
ends of pieces can be best. Patterns without known kinks have all remaining tiles tried. Where tiles are multiples of a
unit, only the first and the last multiple in a piece can be best.
"""

from collections.abc import Iterator
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band, PrefixedRequests
from attenio.masks.patterns.pattern import Counts
from attenio.planning.problems import Problems
from attenio.planning.search.divisors import least_remainder
from attenio.planning.search.stacked_requests import best_request_tile

# Up to this many tiles, one by one in Python integers is faster than in arrays.
_FEW = 20
_LARGEST_INT64_SUM = 2**62
# Up to this many ends of pieces are tried in one go.
_AT_FIRST = 64

Tiles = list[int] | range | NDArray[np.int64]


class RowWords(NamedTuple):
    """Words as a function of the query tile: ``live`` for each row of a live tile, ``loads`` for each key read.

    Also ``visits`` for each run of ``split`` keys that a row visits; ``split`` is at least half of all keys. The
    tile is shared by so many ``heads``, which decides the sizes that a granularity allows.
    """

    problems: Problems
    live: int
    loads: int
    visits: int = 0
    split: int = 1
    heads: int = 1

    @property
    def unit(self) -> int:
        """What tiles are a multiple of."""
        return 1 if self.problems.granularity.rows == 1 else self.problems.granularity.positions(self.heads)

    @property
    def most_words(self) -> int:
        """No tile moves more."""
        return int((self.live + self.loads + self.visits) * (self.problems.counts.scores + self.problems.counts.rows))

    def words(self, tile: int) -> int:
        """The words of one tile size."""
        total = self.loads * self.problems.counts.key_loads(tile)
        if self.live:
            total += self.live * self.problems.counts.live_rows(tile)
        return int(total + self.visits * self.problems.counts.tile_rows(tile, self.split) if self.visits else total)

    def words_of(self, tiles: NDArray[np.int64]) -> Counts:
        """The words of many tile sizes; exact whatever their size."""
        exact = np.int64 if self.most_words < _LARGEST_INT64_SUM else object
        total = self.live * self.problems.counts.live_rows(tiles).astype(exact)
        total = total + self.loads * self.problems.counts.key_loads(tiles).astype(exact)
        if self.visits:
            total = total + self.visits * self.problems.counts.tile_rows(tiles, self.split).astype(exact)
        return total

    def floor(self, tile: int) -> int:
        """A number that no tile up to this size goes below."""
        problems = self.problems
        compulsory = (self.live + self.visits) * problems.counts.touched_rows
        return compulsory + self.loads * problems.floors.least_key_loads(tile)

    def least_tile(self, words: int) -> int:
        """No tile below this one has as few as ``words``."""
        spare = words - (self.live + self.visits) * self.problems.counts.touched_rows
        least = 1
        for constant, area, lost in self.problems.floors.key_load_floors:
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
        if self.visits == 0 or self.problems.floors.kinks is None:
            return self.problems.floors.kinks
        return self.problems.floors.run_kinks(self.split)


def best_row_tile(form: RowWords, most: int, limit: int | None = None) -> tuple[int, int]:
    """Fewest words over all tiles up to ``most``, which must be a size that there is, and the smallest that has them.

    Without known kinks, any tile that has them: looking for a smaller one would mean trying them all. If every tile
    has more words than ``limit``, any tile.
    """
    problems = form.problems
    most = min(most, problems.counts.most_rows)
    if form.unit > 1:
        return _best_multiple(form, most)
    if problems.counts.stacked_requests is not None and form.kinks is None:
        better = _best_for_requests(form, problems.counts.stacked_requests, most, limit)
        if better is not None:
            return better
    even = even_tile(problems.counts.most_rows, most)
    best = (form.words(even), even)
    if problems.counts.is_dense and len(problems.counts.patterns) == 1:
        return best  # every tile needs every key, so only how many tiles there are matters
    best = min(best, (form.words(most), most))
    if form.kinks is None:
        return _best_of_all(form, most, best)
    ranges = [(1, most)]
    if 2 * problems.counts.touched_rows < problems.counts.rows:
        # Among many rows that need no key, tiles that begin near the first one that does are good.
        even_ones = {x // i for x in form.kinks for i in range(x // (most + 1) + 1, x // (most + 1) + 4)}
        best = min(best, *((form.words(tile), tile) for tile in even_ones if tile))
        band = problems.counts.only_band
        if band is not None and form.live and not form.visits and band.live_range[1] == band.rows:
            best = _best_with_all_live_rows(form, band, most, best)
            ranges = _ranges_without(form, band, most, best[0])
    floor = form.floor(most)
    for limits in ranges:
        best = _best_between(form, limits, best, floor)
    return best


def _best_multiple(form: RowWords, most: int) -> tuple[int, int]:
    """The best of the multiples of a unit up to ``most``, and of all rows where that is as many."""
    problems, unit, kinks = form.problems, form.unit, form.kinks
    last = most // unit
    even = even_tile(problems.counts.most_rows, most, unit)
    best = (form.words(even), even)
    if problems.counts.is_dense and len(problems.counts.patterns) == 1:
        return best
    best = min(best, (form.words(most), most))
    if kinks is None or last < 1:
        return _best_of_all(form, last * unit, best) if last else best
    for stop, ends in _candidates(kinks, form.least_tile(best[0]), most):
        if isinstance(ends, range):
            tiles = np.arange(-(-ends.start // unit), stop // unit + 1, dtype=np.int64)
        else:
            array = np.asarray(ends, dtype=np.int64)
            tiles = np.unique(np.concatenate((array // unit, -(-array // unit))))
        tiles = unit * tiles[(tiles >= 1) & (tiles <= last)]
        for start in range(0, len(tiles), problems.floors.arrays_at_once):
            best = min(best, _best_of(form, tiles[start : start + problems.floors.arrays_at_once], best[0]))
    return best


def _best_with_all_live_rows(form: RowWords, band: Band, most: int, best: tuple[int, int]) -> tuple[int, int]:
    """The best of the tiles without a boundary among the rows that need a key, if it beats the one known.

    All keys are read once, and before the last tiles' live rows lie as many others as the tile leaves of those before.
    """
    idle, spare = band.rows - band.touched_rows, best[0] - _least_words(form)
    better = least_remainder(idle, (band.touched_rows, most), spare // form.live)
    return best if better is None else min(best, (_least_words(form) + form.live * better[0], better[1]))


def _ranges_without(form: RowWords, band: Band, most: int, words: int) -> list[tuple[int, int]]:
    """Where tiles with a boundary among the rows that need a key may have as few words.

    With the first boundary j rows behind the first of these, and r before, such a tile of j + r rows costs r live rows
    and min(j, peak, end + height - j) keys read again, or more, the peak and the end being those of ``alive``.
    """
    height, (peak, end) = band.touched_rows, band.most_alive
    spare = words - _least_words(form)
    rows, keys = spare // form.live, spare // form.loads
    if keys >= peak:
        return [(1, min(most, height + rows - 1))]
    return [(1, min(most, max(rows, keys))), (height + end - keys, min(most, height + rows - 1))]


def _least_words(form: RowWords) -> int:
    return form.live * form.problems.counts.touched_rows + form.loads * form.problems.counts.touched_keys


def _best_between(form: RowWords, limits: tuple[int, int], best: tuple[int, int], floor: int) -> tuple[int, int]:
    """The better of the best tile known and the best one of a range, no words going below the floor."""
    problems, kinks = form.problems, form.kinks
    assert kinks is not None
    for last, tiles in _candidates(kinks, max(limits[0], form.least_tile(best[0])), limits[1]):
        for start in range(0, len(tiles), problems.floors.arrays_at_once):
            best = min(best, _best_of(form, tiles[start : start + problems.floors.arrays_at_once], best[0]))
        if best[0] == floor and best[1] <= last:
            break  # nothing has fewer words, and smaller tiles have been tried
    return best


def even_tile(rows: int, most: int, unit: int = 1) -> int:
    """The smallest tile, a multiple of ``unit`` or all rows, that makes as few tiles as one of ``most`` does."""
    even = -(-rows // -(-rows // min(rows, most)))
    return even if unit == 1 else min(-(-even // unit) * unit, rows)


def piece_ends(kinks: tuple[int, ...], least: int, most: int) -> list[int] | NDArray[np.int64] | None:
    """Tiles from ``least`` to ``most`` at an end of a piece; None if there are no fewer than all of them.

    In an array, if they are many: some twice, and not in order.
    """
    count = _pieces(kinks, least, most)
    if count > (most - least + 1) // 2:
        return None
    ranges = [(x, x // (most + 1) + 1, x // (least - 1) if least > 1 else x) for x in kinks]
    if count > _AT_FIRST:
        quotients = np.concatenate([x // np.arange(first, last + 1, dtype=np.int64) for x, first, last in ranges])
        return np.clip(np.concatenate(((least, most), quotients, quotients + 1)), least, most)
    ends = {least, most}
    for x, first, last in ranges:
        for i in range(first, last + 1):
            ends.update((x // i, x // i + 1))
    return sorted(end for end in ends if least <= end <= most)


def _pieces(kinks: tuple[int, ...], least: int, most: int) -> int:
    """How many numbers x//i there are in the range, or next to it."""
    if least == 1:
        return sum(kinks)
    return sum(x // (least - 1) - x // (most + 1) for x in kinks)


def _candidates(kinks: tuple[int, ...], least: int, most: int) -> Iterator[tuple[int, Tiles]]:
    """The last tile of a range and the ends of pieces in it, range by range.

    If ends are many, ranges only double, as a tile in one of the first may rule out the rest.

    With x//i for every i, ranges below the root of x have more ends than tiles, and those above fewer than the root.
    """
    while least <= most:
        stop = most
        if _pieces(kinks, least, most) > _AT_FIRST:
            stop = min(most, max(2 * least, least + _AT_FIRST))
        ends = piece_ends(kinks, least, stop)
        yield stop, range(least, stop + 1) if ends is None else ends
        least = stop + 1


def _best_of(form: RowWords, tiles: Tiles, known: int | None = None) -> tuple[int, int]:
    """The best of these tiles; those that need more words than are ``known`` to do may be left out."""
    counts = form.problems.counts
    if len(tiles) <= (_FEW if len(counts.patterns) == 1 and counts.only_blocks is None else 1):
        return min((form.words(int(tile)), int(tile)) for tile in tiles)
    array = (
        np.arange(tiles.start, tiles.stop, tiles.step, dtype=np.int64)
        if isinstance(tiles, range)
        else np.asarray(tiles, dtype=np.int64)
    )
    if form.live and len(form.problems.counts.patterns) == 1 and len(array) > _AT_FIRST:
        # Rows in live tiles are counted more quickly than keys, and where most rows need no key they say enough.
        rows = form.problems.counts.live_rows(array)
        promising = form.words(int(array[np.argmin(rows)]))
        known = promising if known is None else min(known, promising)
        array = array[rows <= (known - form.loads * form.problems.counts.touched_keys) // form.live]
        if not array.size:
            return known, form.problems.counts.most_rows
    words = form.words_of(array)
    fewest = words.min()
    return int(fewest), int(array[words == fewest].min())


def _best_for_requests(
    form: RowWords, requests: PrefixedRequests, most: int, limit: int | None
) -> tuple[int, int] | None:
    """The best tile of stacked requests; None if the one that reads least meets more runs than it must."""
    fixed = (form.live + form.visits) * requests.rows
    keys, tile = best_request_tile(requests, most, None if limit is None else (limit - fixed) // form.loads)
    if not form.visits:
        return fixed + form.loads * keys, tile
    if requests.tile_rows(tile, form.split) > requests.tile_rows(1, form.split):
        return None
    return form.words(tile), tile


def _best_of_all(form: RowWords, most: int, best: tuple[int, int]) -> tuple[int, int]:
    """Every tile downwards, as large ones are usually good and every good one raises the smallest worth trying."""
    unit, floor = form.unit, form.floor(most)
    step, stop = 16, most // unit
    blocks, first = form.problems.counts.only_blocks, -(-form.least_tile(best[0]) // unit)
    rough = None
    if blocks is not None and blocks.every_size is not None and best[0] > floor:
        # All are counted: looking at them in one go is faster. Each live row visits one run of keys at least.
        once = form._replace(live=form.live + form.visits, visits=0)
        rough = once.words_of(unit * np.arange(first, stop + 1, dtype=np.int64))
    while best[0] > floor and stop > (least := -(-form.least_tile(best[0]) // unit)) - 1:
        start = max(least, stop - step + 1)
        if rough is None:
            best = min(best, _best_of(form, range(unit * start, unit * stop + 1, unit)))
        else:
            best = min(best, _best_of_rough(form, unit * start, rough[start - first : stop - first + 1], best))
        stop, step = start - 1, min(2 * step, form.problems.floors.arrays_at_once)
    return best


def _best_of_rough(form: RowWords, first: int, rough: Counts, best: tuple[int, int]) -> tuple[int, int]:
    """The best of tiles from the first one on, of which this many words are known, or as many at least."""
    if not form.visits:
        place = int(np.argmin(rough))
        return int(rough[place]), first + form.unit * place
    good = np.flatnonzero(rough <= best[0])
    return _best_of(form, first + form.unit * good.astype(np.int64)) if len(good) else best
