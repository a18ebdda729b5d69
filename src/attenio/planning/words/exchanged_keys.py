"""Outputs give way to values, and values to outputs, at the turn from one tile of rows to the next: words and room.

Everything works on integers and on arrays of many cases.
"""

from typing import NamedTuple

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where

# Tiles of rows that are tried at most: with more of these exchanges save next to nothing.
MOST_TILES = 8
# More words than any run moves.
_NOTHING = 2**62


class ExchangedKeys(NamedTuple):
    """P tiles of the N rows of a dense problem stay while its m keys pass, but those s that are kept at every turn.

    It moves loads*(P*m - (P-1)*s), with s up to half of the keys. It holds a*per_row + per_slot, at a turn
    s*per_key + a*per_row + ``turning`` and s*per_slot + a*per_query + ``turning``, and ``beside``.
    """

    tile: str
    slots: str
    per_row: Counts
    per_query: Counts
    per_slot: Counts
    per_key: Counts
    beside: Counts
    turning: Counts
    loads: Counts


def exchanged_key_words(phase: ExchangedKeys, shape: tuple[Counts, Counts], tile: Counts, slots: Counts) -> Counts:
    """Words of the keys, for so many rows and keys."""
    rows, keys = shape
    tiles = ceil_div(rows, tile)
    return phase.loads * (tiles * keys - (tiles - 1) * smaller(slots, keys // 2))


def held_at_turns(phase: ExchangedKeys, shape: tuple[Counts, Counts], tile: Counts, slots: Counts) -> Counts:
    """Words held at once."""
    rows, keys = shape
    a, s = smaller(tile, rows), smaller(slots, keys // 2)
    turn = phase.turning + larger(s * phase.per_key + a * phase.per_row, s * phase.per_slot + a * phase.per_query)
    passing = a * phase.per_row + phase.per_slot
    return phase.beside + larger(passing, where((a < rows) & (s > 0), turn, 0))


class _Room(NamedTuple):
    """Words for rows and keys at a turn, the most rows of a tile, and so the fewest tiles, two at least."""

    words: Counts
    most: Counts
    fewest: Counts


def _room(phase: ExchangedKeys, shape: tuple[Counts, Counts], fast_words: Counts) -> _Room:
    words = fast_words - phase.beside - phase.turning
    passing, staying = words + phase.turning - phase.per_slot, words - phase.per_key
    most = floor_div(smaller(passing, staying), phase.per_row)
    return _Room(words, most, larger(ceil_div(shape[0], larger(most, 1)), 2))


def may_turn(phase: ExchangedKeys, shape: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """Whether several tiles fit, and so few as are tried, and a key may stay."""
    room, (rows, keys) = _room(phase, shape, fast_words), shape
    return (room.most >= 1) & (room.fewest <= smaller(rows, MOST_TILES)) & (keys >= 2)


def best_exchanged_keys(
    phase: ExchangedKeys, shape: tuple[Counts, Counts], fast_words: Counts
) -> tuple[Counts, Counts, Counts]:
    """The fewest words, the rows of a tile that has them, and slots, where several tiles fit and are tried.

    As a function of the number of tiles words are concave on either side of where both rooms of a turn are as large,
    and from where half of the keys are kept: they are least at an end of such a part.
    """
    (rows, keys), (words, _, fewest) = shape, _room(phase, shape, fast_words)
    beyond = phase.per_slot * phase.per_row - phase.per_key * phase.per_query
    even = floor_div(words * (phase.per_slot - phase.per_key), larger(beyond, 1))
    half = floor_div(words - keys // 2 * phase.per_key, phase.per_row)
    ends = [ceil_div(rows, larger(bend, 1)) for bend in (even, half)]
    tried = (fewest, fewest + 1, *(end + step for end in ends for step in (0, -1, 1)))
    last = larger(smaller(rows, MOST_TILES), fewest)
    inside = [larger(smaller(tiles, last), fewest) for tiles in tried]
    best, tile, kept = 0 * rows + _NOTHING, 0 * rows, 0 * rows
    for tiles in dict.fromkeys(inside) if type(rows) is int else inside:
        a = ceil_div(rows, tiles)
        begins = floor_div(words - a * phase.per_query, phase.per_slot)
        slots = smaller(smaller(begins, floor_div(words - a * phase.per_row, phase.per_key)), keys // 2)
        moved = where(slots >= 1, exchanged_key_words(phase, shape, a, slots), _NOTHING)
        less = (moved < best) | ((moved == best) & (a < tile))
        best, tile, kept = where(less, moved, best), where(less, a, tile), where(less, slots, kept)
    return best, tile, kept
