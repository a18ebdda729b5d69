"""Two passes, and what a last, small tile of either would hold is left to the other: words, room, and the best.

Everything works on integers and on arrays of many cases.
"""

from math import inf
from typing import NamedTuple

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where
from attenio.planning.words.stacked_rows import ROUNDING


class LeftOver(NamedTuple):
    """Rows of a dense group stay while its m keys pass, then keys stay while all N rows pass; some are late.

    N-f rows stay in t tiles of a at most, past all keys, and f late rows in tiles of a past the late keys alone; m-h
    keys stay in u tiles of b at most, and h late keys never. A key that passes loads ``reads`` words, and a late one
    ``key_travels`` for its partial sums, but for the first time; a row that passes loads ``visits``, and a late one
    ``row_travels`` for its sums: t*m*reads + h*(s*reads + (t+s-1)*key_travels - reads) + u*(N*visits + f*row_travels),
    with s tiles of late rows. ``reads`` are taken off since late keys are not read to stay.

    It holds a*per_row + ``beside_rows`` words, and b*per_key + ``beside_keys``.
    """

    rows: str
    late_rows: str
    keys: str
    late_keys: str
    per_row: Counts
    per_key: Counts
    beside_rows: Counts
    beside_keys: Counts
    reads: Counts
    visits: Counts
    row_travels: Counts
    key_travels: Counts


class Sizes(NamedTuple):
    """Rows of a tile, rows that are late, keys of a tile, and keys that are late."""

    rows: Counts
    late_rows: Counts
    keys: Counts
    late_keys: Counts


def left_over_words(phase: LeftOver, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words of both passes beyond what every run moves, for a group of so many rows and keys."""
    rows, keys = shape
    late_rows, late_keys = smaller(sizes.late_rows, rows), smaller(sizes.late_keys, keys)
    tiles, late_tiles = ceil_div(rows - late_rows, sizes.rows), ceil_div(late_rows, sizes.rows)
    key_tiles = ceil_div(keys - late_keys, sizes.keys)
    late = late_tiles * phase.reads + (tiles + late_tiles - 1) * phase.key_travels - phase.reads
    again = rows * phase.visits + late_rows * phase.row_travels
    return tiles * keys * phase.reads + late_keys * late + key_tiles * again


def held_words(phase: LeftOver, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words held at once."""
    first = smaller(sizes.rows, shape[0]) * phase.per_row + phase.beside_rows
    return larger(first, smaller(sizes.keys, shape[1]) * phase.per_key + phase.beside_keys)


def best_left_over(phase: LeftOver, shape: tuple[Counts, Counts], fast_words: Counts) -> tuple[Counts, Sizes]:
    """The fewest words and the sizes that move them; tiles of less than one where nothing fits.

    Tiles are as large as they can be. For so many tiles of rows, and of keys, as few as possible are late, and words
    are linear in either number up to the last whole tile: it is no tile, every whole one, or one more and none late.
    """
    rows, keys = shape
    tile = smaller(floor_div(fast_words - phase.beside_rows, phase.per_row), rows)
    of_keys = smaller(floor_div(fast_words - phase.beside_keys, phase.per_key), keys)
    at, by = larger(tile, 1), larger(of_keys, 1)
    fewest, late_rows, late_keys = left_over_words(phase, shape, Sizes(at, 0 * rows, by, 0 * keys)), 0 * rows, 0 * keys
    for some_rows in (0 * rows, rows - rows // at * at, rows):
        for some_keys in (0 * keys, keys - keys // by * by, keys):
            words = left_over_words(phase, shape, Sizes(at, some_rows, by, some_keys))
            less = words < fewest
            fewest = where(less, words, fewest)
            late_rows, late_keys = where(less, some_rows, late_rows), where(less, some_keys, late_keys)
    return fewest, Sizes(tile, late_rows, of_keys, late_keys)


def left_over_floor(phase: LeftOver, shape: tuple[int, int], fast_words: int) -> float:
    """Words that no sizes go below, quickly; infinite if nothing fits.

    Where tiles need not be whole, words are linear in the late rows, and in the late keys: least with none or all.
    """
    rows, keys = shape
    tile = min((fast_words - phase.beside_rows) // phase.per_row, rows)
    of_keys = min((fast_words - phase.beside_keys) // phase.per_key, keys)
    if tile < 1 or of_keys < 1:
        return inf
    tiles, visited = rows / tile, rows * (keys / of_keys)
    none_late = tiles * keys * phase.reads + visited * phase.visits
    keys_late = (tiles - 1) * keys * (phase.reads + phase.key_travels)
    rows_late = visited * (phase.visits + phase.row_travels)
    least: float = min(none_late, keys_late, rows_late)
    return least * ROUNDING
