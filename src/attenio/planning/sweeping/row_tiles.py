"""The search of ``search.row_tiles`` for many cases at once: the same floors, the same kinks, the same answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attenio.granularity import Granularity
from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.problems.counting import seen_by, times_of
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.planning.search.whole_tiles import best_whole_tile, first_taller
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, batches, is_zero, single, spread, take
from attenio.planning.sweeping.room import rounded_down, rounded_up
from attenio.planning.words.form import WholeRows

_AT_ONCE = 2**20
# A case with more candidates than this is searched by itself, so that arrays stay small.
_TOO_MANY = 2**14


@dataclass(frozen=True, kw_only=True)
class RowForms:
    """Words of every case as a function of its query tile: ``live`` a row of a live tile, ``loads`` a key read.

    Tiles are multiples of ``unit``, or all rows.
    """

    band: Band
    live: Counts
    loads: Counts
    unit: Counts

    def words(self, tiles: Ints) -> Ints:
        """The words of one tile size for every case."""
        words = self.loads * self.band.key_loads(tiles)
        return np.asarray(words if is_zero(self.live) else words + self.live * self.band.live_rows(tiles))

    def floor(self, tiles: Ints) -> Ints:
        """Numbers that no tile up to this size goes below."""
        (first, area, _), (second, _, _) = self.band.key_load_floors  # of the same area
        loads = np.maximum(first, second - tiles) + ceil_div(np.broadcast_to(area, tiles.shape), tiles)
        words = self.loads * np.maximum(loads, self.band.touched_keys)
        return np.asarray(words if is_zero(self.live) else words + self.live * self.band.touched_rows)

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
    """Fewest words over all tiles up to ``most``, a size that there is, and the smallest with them, in every case."""
    rows = forms.band.rows
    tiles = np.minimum(rounded_up(ceil_div(rows, ceil_div(rows, most)), forms.unit), rows)
    words = forms.words(tiles)
    masked = np.flatnonzero(~forms.band.is_dense)
    if masked.size == len(words):
        return _best_masked(forms, most, words, tiles)
    if masked.size:
        best = _best_masked(take(forms, masked), most[masked], words[masked], tiles[masked])
        words[masked], tiles[masked] = best
    return words, tiles


def _best_masked(forms: RowForms, most: Ints, words: Ints, tiles: Ints) -> tuple[Ints, Ints]:
    at_most = forms.words(most)
    words, tiles = np.minimum(words, at_most), np.where(at_most < words, most, tiles)
    unit, least = forms.unit, np.clip(forms.least_tiles(words), 1, most)
    pieces = _pieces(forms.band, least, most)
    free, highest, lowest = type(unit) is int, most, least
    if not free:  # below the unit there is nothing but all rows
        highest = np.where(most < unit, most, rounded_down(most, unit))
        lowest = np.minimum(rounded_up(least, unit), highest)
    span, ends = (highest - lowest) // unit + 1, sum(piece.counts for piece in pieces)
    alone = np.minimum(span, ends) > _TOO_MANY
    for index in np.flatnonzero(alone).tolist():
        words[index], tiles[index] = _best_alone(forms, index, int(most[index]))
    every = 2 * ends >= span
    # free tiles have been tried up to the largest
    for batch in _batches(np.where(every & ~alone, span - free, 0)):
        some = take(forms, batch.owner)
        take_better((words, tiles), batch, some, lowest[batch.owner] + batch.number * some.unit)
    for piece in pieces:
        for batch in _batches(np.where(every | alone, 0, piece.counts)):
            some, low, high = take(forms, batch.owner), lowest[batch.owner], highest[batch.owner]
            end = rounded_down(piece.x[batch.owner] // (piece.first[batch.owner] + batch.number), some.unit)
            for tile in (end, end + some.unit):
                take_better((words, tiles), batch, some, np.clip(tile, low, high))
    in_units = np.flatnonzero((unit > 1) & ~every & ~alone) if not free else np.zeros(0, dtype=np.int64)
    if in_units.size:  # the first multiple of a piece that begins below the least tile
        batch = Batch(in_units, np.ones_like(in_units), in_units, np.zeros_like(in_units))
        take_better((words, tiles), batch, take(forms, in_units), lowest[in_units])
    return words, tiles


@dataclass(frozen=True)
class _Pieces:
    """Ends of pieces x//i and x//i + 1, for ``counts`` numbers i from ``first`` on, in every case."""

    x: Ints
    first: Ints
    counts: Ints


def _pieces(band: Band, least: Ints, most: Ints) -> list[_Pieces]:
    """The pieces of ``search.row_tiles.piece_ends``; the same number is not taken twice."""
    rows, start, end = band.kinks
    pieces = []
    for x in (rows, np.where(start == rows, 0, start), np.where((end == rows) | (end == start), 0, end)):
        first = x // (most + 1) + 1
        last = np.where(least > 1, x // np.maximum(least - 1, 1), x)
        pieces.append(_Pieces(x, first, np.maximum(last - first + 1, 0)))
    return pieces


@dataclass(frozen=True)
class Batch:
    """Items of some cases, ``counts[k]`` of ``cases[k]`` one after the other, with their owners and numbers."""

    cases: Ints
    counts: Ints
    owner: Ints
    number: Ints


def _batches(counts: Ints) -> Iterator[Batch]:
    """Cases with ``counts`` items each, some at a time."""
    chosen = np.flatnonzero(counts)
    if not chosen.size:
        return
    for batch in batches(counts[chosen], _AT_ONCE):
        cases = chosen[batch]
        owner, number = spread(counts[cases])
        yield Batch(cases, counts[cases], cases[owner], number)


def take_better(best: tuple[Ints, Ints], batch: Batch, forms: RowForms, tiles: Ints) -> None:
    """Replace words and tiles of cases where an item has fewer words, or as few and is smaller; forms are of items."""
    words = forms.words(tiles)
    starts = np.cumsum(batch.counts) - batch.counts
    fewest = np.minimum.reduceat(words, starts.astype(np.intp, copy=False))
    smallest = np.minimum.reduceat(
        np.where(words == np.repeat(fewest, batch.counts), tiles, NOTHING), starts.astype(np.intp, copy=False)
    )
    known_words, known_tiles = best[0][batch.cases], best[1][batch.cases]
    better = (fewest < known_words) | ((fewest == known_words) & (smallest < known_tiles))
    best[0][batch.cases[better]], best[1][batch.cases[better]] = fewest[better], smallest[better]


def _best_alone(forms: RowForms, index: int, most: int) -> tuple[int, int]:
    live, loads, unit = (int(take(values, index)) for values in (forms.live, forms.loads, forms.unit))
    problems = single(forms.band, index, Granularity(rows=unit))
    return best_row_tile(RowWords(problems=problems, live=live, loads=loads), most)


class _Room(NamedTuple):
    """Rows of which all scores fit, at most, words that each takes, and those beside them."""

    most: Ints
    each: Ints
    beside: Ints


def room_of_whole_rows(seen: Cases, phase: WholeRows) -> _Room:
    """Room for rows of which all scores stay, or keys, as a phase sees them."""
    longest = np.maximum(seen.band.longest_row, 1)
    each, beside = longest * phase.per_score + phase.per_row, longest * phase.spare + phase.beside
    return _Room(np.minimum((seen.fast_words - beside) // each, seen.rows), each, beside)


def best_whole_rows(cases: Cases, phase: WholeRows) -> tuple[Ints, Ints, dict[str, Ints]]:
    """The best tiles of rows of which all scores stay: words, words held, and tiles."""
    seen = seen_by(cases, phase)
    room = room_of_whole_rows(seen, phase)
    words, tile = best_row_tiles(RowForms(band=seen.band, live=phase.live, loads=phase.loads, unit=1), room.most)
    least = first_taller(seen.band, phase.per_score, phase.per_row)
    for index in np.flatnonzero((least > 0) & (least <= room.most)).tolist():
        one, problems = take(phase, index), single(seen.band, index, Granularity(rows=1))
        form, band = RowWords(problems, int(one.live), int(one.loads)), problems.counts.only_band
        assert band is not None
        words[index], tile[index] = best_whole_tile(form, one, band, int(room.most[index]))
    return times_of(cases, phase) * words, tile * room.each + room.beside, {phase.tile: tile}
