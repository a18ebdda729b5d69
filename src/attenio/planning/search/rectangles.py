"""The best tile of a rows by b keys when words depend on both, and room shrinks one as the other grows.

For given a more keys never cost more words, so b is the largest that fits and only a is searched, over the ranges that
``floors`` leave. In those, keys read and scores covered are exact and cheap and rule out most; the rest is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.granularity import largest_size
from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.planning.problems import Problems
from attenio.planning.search.floors import RectangleWords, range_worth_trying, ranges_worth_trying
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile, even_tile, piece_ends

# Up to this many tiles, one by one in Python integers is faster than in arrays.
_FEW = 6
# Up to this many query tiles in all, looking at each is faster than sums in closed form.
_WALK = 6144
# Where more tiles than these may do, those of the least floors are counted first.
_AT_FIRST = 32
# Floating point holds integers up to this size exactly, and is faster.
_LARGEST_FLOAT = 2**52
# A limit that is this near to the floor leaves a short range; others are worth a good guess first.
_NEAR = 1.05
# Floors in floating point are off by less than this factor.
_ROUNDING = 1 - 1e-12


class Rectangle(NamedTuple):
    """A tile and its words; fewest words first, then fewest rows."""

    words: int
    rows: int
    keys: int


def best_rectangle(form: RectangleWords, rooms: tuple[Room, ...], limit: int | None = None) -> Rectangle | None:
    """Fewest words over all tiles that fit every room, the fewest rows among equals, then the most keys.

    None if not even one row and one key fit, or every tile needs more words than ``limit``.
    """
    problems = form.problems
    most = min(row_room(problems, room) for room in rooms)
    if most < 1:
        return None
    floor = form.floor(rooms)
    if limit is not None and limit < floor * _ROUNDING:
        return None
    single = largest_size(
        min(_single_run_rows(problems, rooms), most), problems.counts.most_rows, problems.granularity.rows
    )
    incumbent = _Incumbent(limit)
    if single < most and (limit is None or limit > _NEAR * floor):
        _guess(form, rooms, (single + 1, most), incumbent)
    if single >= 1:
        # Where all keys that a tile needs fit at once, every live row meets one key tile, and rows alone matter.
        rows_only = RowWords(problems=problems, live=form.visits - form.saved, loads=form.loads)
        if incumbent.allows(rows_only.floor(single)):
            words, rows = best_row_tile(rows_only, single)
            incumbent.take(Rectangle(words, rows, int(key_room(problems, rooms, rows))))
    if single < most:
        _search(form, rooms, (single + 1, most), incumbent)
    return incumbent.best


@dataclass
class _Incumbent:
    """The best tile so far, and the words that another one may have at most."""

    ceiling: int | None
    best: Rectangle | None = None

    def allows(self, words: Counts) -> Counts:
        """Whether a tile of so many words may be as good as the best."""
        return True if self.ceiling is None else words <= self.ceiling

    def take(self, tile: Rectangle) -> None:
        """Keep the tile if it is the best so far."""
        if self.allows(tile.words) and (self.best is None or tile < self.best):
            self.best, self.ceiling = tile, tile.words


def _search(form: RectangleWords, rooms: tuple[Room, ...], limits: tuple[int, int], incumbent: _Incumbent) -> None:
    """All rows from the first limit to the second that floors do not rule out."""
    assert incumbent.ceiling is not None
    least, most = range_worth_trying(form, rooms, incumbent.ceiling, limits)
    for first, last in ranges_worth_trying(form, rooms, incumbent.ceiling, (least, most)):
        for tiles in _candidates(form.problems, first, last):
            _take_best_of(form, rooms, tiles, incumbent)


def _guess(form: RectangleWords, rooms: tuple[Room, ...], limits: tuple[int, int], incumbent: _Incumbent) -> None:
    """Try the fewest rows that make as few tiles as those at which the convex floor is least."""
    (least, most), unit = limits, form.problems.granularity.rows
    guess = min(most, max(least, round(min(form.balanced_rows(room) for room in rooms))))
    even = even_tile(form.problems.counts.most_rows, guess)
    incumbent.take(_try(form, rooms, min(most, -(-max(least, even) // unit) * unit)))


def _single_run_rows(problems: Problems, rooms: tuple[Room, ...]) -> int:
    """The most rows beside which all keys that they need fit, in every problem; zero if none."""
    most = problems.counts.most_rows
    # so that a multiple of the unit holds them too
    more_keys = problems.floors.level[1] + problems.granularity.keys - 1
    for room in rooms:
        for height, keys in problems.counts.shapes:
            fits = (room.words - keys * room.per_key) // (room.per_row + keys * room.per_score)
            if more_keys < keys:
                # a rows of a band need at most a + more_keys keys: the largest a with room for both
                linear = more_keys * room.per_score + room.per_row + room.per_key
                spare = room.words - more_keys * room.per_key
                root = isqrt(max(linear * linear + 4 * room.per_score * spare, 0))
                fits = max(fits, (root - linear) // (2 * room.per_score))
            most = most if fits >= height else min(most, fits)
    return max(most, 0)


def _try(form: RectangleWords, rooms: tuple[Room, ...], rows: int) -> Rectangle:
    keys = int(key_room(form.problems, rooms, rows))
    return Rectangle(form.words(rows, keys), rows, keys)


def _candidates(problems: Problems, least: int, most: int) -> Iterator[NDArray[np.int64]]:
    if least > most:
        return
    unit, whole = problems.granularity.rows, problems.counts.most_rows
    if problems.counts.is_dense and problems.floors.kinks:
        # Only how many query tiles there are matters, and fewer rows leave more room for keys.
        ends = piece_ends(problems.floors.kinks, least, most)
        if ends is not None:
            rows = np.unique(-(-np.asarray(ends, dtype=np.int64) // unit) * unit)
            yield rows[rows <= most] if most < whole else np.minimum(rows, whole)
            return
    step = unit * problems.floors.arrays_at_once
    for start in range(-(-least // unit) * unit, most + 1, step):
        yield np.arange(start, min(start + step, most + 1), unit, dtype=np.int64)
    if most == whole and whole % unit:
        yield np.array([whole], dtype=np.int64)


def _take_best_of(
    form: RectangleWords, rooms: tuple[Room, ...], tiles: NDArray[np.int64], incumbent: _Incumbent
) -> None:
    """Take the best of the given row tiles."""
    few = _FEW if form.problems.counts.only_blocks is None else 1  # blocks are counted in arrays anyway
    if len(tiles) <= few:
        for rows in tiles.tolist():
            incumbent.take(_try(form, rooms, rows))
        return
    keys = key_room(form.problems, rooms, tiles)
    band = form.problems.counts.only_band
    if band is not None and len(tiles) * -(-band.rows // int(tiles[0])) <= _WALK and form.most_words < _LARGEST_FLOAT:
        words = _walked(form, band, tiles, keys)
        first = int(np.argmin(words))
        incumbent.take(Rectangle(int(words[first]), int(tiles[first]), int(keys[first])))
        return
    loads, visits = form.problems.floors.loads_and_floor(tiles, keys)
    rest = loads.astype(form.exact) * form.loads
    if form.saved:
        rest = rest - form.problems.counts.live_rows(tiles).astype(form.exact) * form.saved
    floors = rest + visits.astype(form.exact) * form.visits
    promising = int(np.argmin(floors))
    if incumbent.allows(floors[promising]):
        # The most promising one first: often it rules out nearly all others.
        incumbent.take(_try(form, rooms, int(tiles[promising])))
    good = np.flatnonzero(incumbent.allows(floors))
    if len(good) > _AT_FIRST:
        some = np.sort(good[np.argsort(floors[good], kind="stable")[:_AT_FIRST]])
        _take_counted(form, (tiles[some], keys[some]), rest[some], incumbent)
        good = np.flatnonzero(incumbent.allows(floors))
    if len(good) > few:
        _take_counted(form, (tiles[good], keys[good]), rest[good], incumbent)
        return
    for rows in tiles[good].tolist():
        incumbent.take(_try(form, rooms, rows))


def _take_counted(
    form: RectangleWords, sizes: tuple[NDArray[np.int64], NDArray[np.int64]], rest: Counts, incumbent: _Incumbent
) -> None:
    """Take the best of these tiles, in ascending order, given their words without visits."""
    tiles, keys = sizes
    words = rest + form.problems.counts.tile_rows(tiles, keys).astype(form.exact) * form.visits
    first = int(np.argmin(words))
    incumbent.take(Rectangle(int(words[first]), int(tiles[first]), int(keys[first])))


def _walked(form: RectangleWords, band: Band, tiles: NDArray[np.int64], keys: NDArray[np.int64]) -> Counts:
    """The words of pairs of tiles, looking at every query tile."""
    heights, widths = band.walk(tiles)
    words = np.ceil(widths / keys)
    words *= form.visits
    if form.saved:
        words -= (widths > 0) * float(form.saved)
    words *= heights
    words += widths * float(form.loads)
    return words.sum(axis=0)
