"""The search of ``search.row_tiles`` for many cases at once: the same floors, the same kinks, the same answer."""

from dataclasses import dataclass

import numpy as np

from attenio.patterns import Band
from attenio.patterns.sums import ceil_div
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.planning.sweeping.cases import NOTHING, Ints, batches, single, spread, take_band

__all__ = ["RowForms", "best_row_tiles", "take_better"]

_AT_ONCE = 2**20
# A case with more candidates than this is searched by itself, so that arrays stay small.
_TOO_MANY = 2**14


@dataclass(frozen=True, kw_only=True)
class RowForms:
    """Words of every case as a function of its query tile: ``live`` a row of a live tile, ``loads`` a key read."""

    band: Band
    live: Ints
    loads: Ints

    def take(self, index: Ints) -> "RowForms":
        """Some of the cases."""
        return RowForms(band=take_band(self.band, index), live=self.live[index], loads=self.loads[index])

    def words(self, tiles: Ints) -> Ints:
        """The words of one tile size for every case."""
        words = self.loads * self.band.key_loads(tiles)
        return np.asarray(words + self.live * self.band.live_rows(tiles) if self.live.any() else words)

    def floor(self, tiles: Ints) -> Ints:
        """Numbers that no tile up to this size goes below."""
        loads = self.band.touched_keys
        for constant, area, lost in self.band.key_load_floors:
            loads = np.maximum(loads, constant + ceil_div(area, tiles) - lost * tiles)
        return np.asarray(self.loads * loads + self.live * self.band.touched_rows)

    def least_tiles(self, words: Ints) -> Ints:
        """No tile below these has as few as ``words``."""
        spare = words - self.live * self.band.touched_rows
        (constant, area, _), (second, _, lost) = self.band.key_load_floors
        room = spare - self.loads * constant
        least = np.where((area > 0) & (room > 0), ceil_div(self.loads * area, np.maximum(room, 1)), 1)
        room = (spare - self.loads * second) / self.loads
        root = (np.sqrt(room * room + 4.0 * lost * area) - room) / (2.0 * lost)
        # The root is rounded: one part in a billion and one tile are far more than it may be off.
        return np.asarray(np.maximum(least, np.floor(root * (1 - 1e-9)).astype(np.int64) - 1))


def best_row_tiles(forms: RowForms, most: Ints) -> tuple[Ints, Ints]:
    """Fewest words over all tiles from 1 to ``most`` for every case, and the smallest tile that has them."""
    rows = forms.band.rows
    most = np.minimum(most, rows)
    tiles = ceil_div(rows, ceil_div(rows, most))
    words = forms.words(tiles)
    masked = np.flatnonzero(~forms.band.is_dense)
    if masked.size:
        found = _best_masked(forms.take(masked), most[masked], words[masked], tiles[masked])
        words[masked], tiles[masked] = found
    return words, tiles


def _best_masked(forms: RowForms, most: Ints, words: Ints, tiles: Ints) -> tuple[Ints, Ints]:
    at_most = forms.words(most)
    words, tiles = np.minimum(words, at_most), np.where(at_most < words, most, tiles)
    least = np.clip(forms.least_tiles(words), 1, most)
    span = most - least + 1
    # The same numbers as Band.kinks; each gives x//i and x//i + 1 for i from first to last.
    ranges = [(x, x // (most + 1) + 1, np.where(least > 1, x // np.maximum(least - 1, 1), x)) for x in forms.band.kinks]
    ends = sum(np.maximum(last - first + 1, 0) for _, first, last in ranges)
    every = 2 * ends >= span
    alone = np.minimum(span, ends) > _TOO_MANY
    for index in np.flatnonzero(alone):
        words[index], tiles[index] = _best_alone(forms, int(index), int(most[index]))
    _try_tiles(forms, np.where(every & ~alone, span, 0), lambda owner, number: least[owner] + number, (words, tiles))
    for x, first, last in ranges:
        counts = np.where(every | alone, 0, np.maximum(last - first + 1, 0))

        def end(owner: Ints, number: Ints, *, upper: int, x: Ints = x, first: Ints = first) -> Ints:
            return np.clip(x[owner] // (first[owner] + number) + upper, least[owner], most[owner])

        for upper in (0, 1):
            _try_tiles(forms, counts, lambda owner, number, end=end, upper=upper: end(owner, number, upper=upper), (words, tiles))
    return words, tiles


def _try_tiles(forms: RowForms, counts: Ints, tile_of, best: tuple[Ints, Ints]) -> None:  # type: ignore[no-untyped-def]
    """Try ``counts[k]`` tiles of every case k, given by owner and number, and keep what is better in ``best``."""
    chosen = np.flatnonzero(counts)
    for part in batches(counts[chosen], _AT_ONCE):
        cases = chosen[part]
        owner, number = spread(counts[cases])
        tiles = tile_of(cases[owner], number)
        take_better(best, cases, counts[cases], (forms.take(cases[owner]).words(tiles), tiles))


def take_better(best: tuple[Ints, Ints], cases: Ints, counts: Ints, found: tuple[Ints, Ints]) -> None:
    """Replace words and tiles of the cases where one of ``counts`` found ones has fewer words, or as few and is smaller."""
    words, tiles = found
    starts = np.cumsum(counts) - counts
    fewest = np.minimum.reduceat(words, starts)
    smallest = np.minimum.reduceat(np.where(words == np.repeat(fewest, counts), tiles, NOTHING), starts)
    better = (fewest < best[0][cases]) | ((fewest == best[0][cases]) & (smallest < best[1][cases]))
    best[0][cases[better]], best[1][cases[better]] = fewest[better], smallest[better]


def _best_alone(forms: RowForms, index: int, most: int) -> tuple[int, int]:
    one = RowWords(problems=single(forms.band, index), live=int(forms.live[index]), loads=int(forms.loads[index]))
    return best_row_tile(one, most)
