"""Tiles of stacked rows, the last with more rows than others, whose outputs it holds in more groups of columns.

Where rows do not come in whole tiles, that is less than a tile more: keys pass once more for a group, without values.
Or it has fewer groups than others, which keep all keys while values pass: it has room for more rows without them.
Everything works on integers and on arrays of many cases.
"""

from typing import NamedTuple

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where
from attenio.planning.words.stacked_rows import StackedRows, passing_words

# More words than any run moves.
_NOTHING = 2**62


class LastColumns(NamedTuple):
    """The N rows of a dense problem in tiles of a, the last of which has the rows of two, whole or not.

    The others are as ``first`` says, beside one slot, or beside one for every key if they have more groups than the
    last; the last is as ``last`` says, with slots for keys.
    """

    tile: str
    slots: str
    first: StackedRows
    last: StackedRows


def first_rows(rows: Counts, tile: Counts) -> Counts:
    """Rows of all tiles but the last.

    >>> [first_rows(rows, 10) for rows in (5, 20, 21, 30, 31)]
    [0, 0, 10, 10, 20]
    """
    return larger(ceil_div(rows, tile) - 2, 0) * tile


def slots_before(phase: LastColumns, keys: Counts) -> Counts:
    """Slots beside a tile before the last."""
    return where(phase.first.groups > phase.last.groups, keys, 1)


def last_column_words(phase: LastColumns, shape: tuple[Counts, Counts], tile: Counts, slots: Counts) -> Counts:
    """Words of keys and values, for so many rows and keys."""
    rows, keys = shape
    before = first_rows(rows, tile)
    first = where(before > 0, passing_words(phase.first, larger(before, 1), keys, tile, slots_before(phase, keys)), 0)
    return first + passing_words(phase.last, rows - before, keys, rows - before, slots)


def held_by_last(phase: LastColumns, shape: tuple[Counts, Counts], tile: Counts, slots: Counts) -> Counts:
    """Words held at once."""
    (rows, keys), (first, last) = shape, phase[2:]
    before = first_rows(rows, tile)
    at_last = (rows - before) * last.per_row + smaller(slots, keys) * last.per_slot + last.beside
    at_first = tile * first.per_row + slots_before(phase, keys) * first.per_slot + first.beside
    return larger(where(before > 0, at_first, 0), at_last)


def most_slots(phase: LastColumns, keys: Counts) -> Counts:
    """Slots that are tried: with more, where most keys have room, tiles of fewer rows might be better.

    Beside tiles with a slot for every key all are: where there is a tile more, all tiles may have such slots.
    """
    more = phase.last.groups - phase.first.groups
    few = smaller(keys - 1, 1 + floor_div(keys * more, larger(phase.last.groups - 1, 1)))
    return where(more < 0, keys, few)


def best_last_columns(
    phase: LastColumns, shape: tuple[Counts, Counts], fast_words: Counts
) -> tuple[Counts, Counts, Counts]:
    """The fewest words, the rows of a tile that has them, and slots; no slots where no last tile fits after another.

    Tiles are as large as they can be: that is as few rows in the last as there can be beside so few tiles, and so most
    slots. One tile more is as many as stacked rows need that are all as the first, and so many slots make the last no
    better than one of those. Where the others have a slot for every key, one tile more is as many as if all have.
    """
    (rows, keys), (first, last) = shape, phase[2:]
    beside = first.beside + slots_before(phase, keys) * first.per_slot
    tile = smaller(floor_div(fast_words - beside, first.per_row), rows)
    tile = larger(tile, 1)
    before = first_rows(rows, tile)
    room = fast_words - last.beside - (rows - before) * last.per_row
    slots = smaller(floor_div(room, last.per_slot), most_slots(phase, keys))
    fits = (tile * first.per_row + beside <= fast_words) & (before > 0) & (slots >= 1)
    slots = where(fits, slots, 0)
    words = last_column_words(phase, shape, tile, larger(slots, 1))
    return where(fits, words, _NOTHING), tile, slots
