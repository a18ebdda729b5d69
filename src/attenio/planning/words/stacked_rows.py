"""Rows of all heads that share keys stay, tile after tile, while every key passes: words, room, and the best.

Everything works on integers and on arrays of many cases.
"""

from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where

# Floors are in floating point, off by less than this factor.
ROUNDING = 1 - 1e-12


class _Room(Protocol):
    """What a row of a tile holds, and a slot."""

    @property
    def per_row(self) -> Counts: ...

    @property
    def per_slot(self) -> Counts: ...


_Phase = TypeVar("_Phase", bound=_Room)


class TilesAndSlots(NamedTuple, Generic[_Phase]):
    """Words as a function of the number of tiles; slots, for up to all keys, take the rest of ``room``.

    With fewer slots than keys they are no less than a function that is concave, ``least``: up to any number of tiles it
    is least at one of the ends. Once there is a slot for every key, more tiles read more.
    """

    phase: _Phase
    rows: Counts
    keys: Counts
    room: Counts

    @property
    def most(self) -> Counts:
        """Rows that fit beside one slot; less than one if none do."""
        return smaller(floor_div(self.room - self.phase.per_slot, self.phase.per_row), self.rows)

    @property
    def fewest(self) -> Counts:
        """The fewest tiles, where any fits."""
        return ceil_div(self.rows, larger(self.most, 1))

    @property
    def end(self) -> Counts:
        """The fewest tiles beside a slot for every key; more than there are rows if there is no room for these."""
        beside = smaller(floor_div(self.room - self.keys * self.phase.per_slot, self.phase.per_row), self.rows)
        return where(beside >= 1, ceil_div(self.rows, larger(beside, 1)), self.rows + 1)

    def slots(self, tiles: Counts) -> Counts:
        """Slots beside one of so many tiles."""
        room = self.room - ceil_div(self.rows, tiles) * self.phase.per_row
        return smaller(floor_div(room, self.phase.per_slot), self.keys)

    def words(self, tiles: Counts) -> Counts:
        """What so many tiles move."""
        raise NotImplementedError

    def least(self, tiles: Counts) -> Counts:
        """What so many tiles, or any number that has as many rows in each, move at least with fewer slots than keys."""
        raise NotImplementedError

    def all_stay(self, tiles: Counts) -> Counts:
        """What so many tiles move beside a slot for every key."""
        raise NotImplementedError

    def floor(self) -> Counts:
        """Words that no tiles go below, where any fits."""
        first, end = self.fewest, self.end
        last = larger(smaller(end, self.rows + 1) - 1, first)
        ends, all_stay = smaller(self.least(first), self.least(last)), self.all_stay(end)
        return where(end <= first, all_stay, where(end <= self.rows, smaller(ends, all_stay), ends))


class StackedRows(NamedTuple):
    """P tiles of the N rows of a dense problem stay while keys pass, once for each of G groups of value columns.

    Slots keep s of the m keys from one tile to the next, and from one group to the next all but the one that gives way
    to those that pass: it moves key*(P*G*m - (P-1)*s - P*(G-1)*(s-1)) + value*P*m words, and each key once if there is
    a slot for all of them. It holds a*per_row + s*per_slot + ``beside`` words.
    """

    tile: str
    slots: str
    per_row: Counts
    per_slot: Counts
    beside: Counts
    key: Counts
    value: Counts
    groups: Counts


def passing_words(phase: StackedRows, rows: Counts, keys: Counts, tile: Counts, slots: Counts) -> Counts:
    """Words of keys and values that tiles of so many rows read beside so many slots."""
    tiles, slots = ceil_div(rows, tile), smaller(slots, keys)
    again = tiles * (phase.groups - 1)
    read = tiles * phase.groups * keys - (tiles - 1) * slots - again * where(slots < keys, slots - 1, keys)
    return phase.key * read + phase.value * tiles * keys


class StackedWords(TilesAndSlots[StackedRows]):
    """Of stacked rows."""

    __slots__ = ()

    def words(self, tiles: Counts) -> Counts:
        """What so many tiles move."""
        return passing_words(self.phase, self.rows, self.keys, ceil_div(self.rows, tiles), self.slots(tiles))

    def least(self, tiles: Counts) -> Counts:
        """What so many tiles move at least, if there are more keys than slots."""
        phase = self.phase
        slots = (self.room - self.rows * phase.per_row / tiles) / phase.per_slot
        read = tiles * phase.groups * (self.keys - slots) + slots + tiles * (phase.groups - 1)
        return (phase.key * read + phase.value * tiles * self.keys) * ROUNDING

    def all_stay(self, tiles: Counts) -> Counts:
        """Every key once, and its value for every tile."""
        return self.phase.key * self.keys + self.phase.value * tiles * self.keys


def stacked_floor(phase: StackedRows, rows: int, keys: int, fast_words: int) -> float:
    """The same for one case, quickly; infinite if no tile fits."""
    _, _, per_row, per_slot, beside, key, value, groups = phase
    room = fast_words - beside
    most = (room - per_slot) // per_row
    if most < 1:
        return inf
    first, end = -(-rows // most) if most < rows else 1, rows + 1
    beyond = room - keys * per_slot
    if beyond >= per_row:
        end = -(-rows // (beyond // per_row))
        all_stay: float = (key + value * end) * keys
        if end <= first:
            return all_stay
    else:
        all_stay = inf
    # as ``least`` at both ends
    fewest = inf
    for tiles in (first, end - 1):
        slots = (room - rows * per_row / tiles) / per_slot
        read = tiles * groups * (keys - slots) + slots + tiles * (groups - 1)
        fewest = min(fewest, key * read + value * tiles * keys)
    return min(fewest * ROUNDING, all_stay)


def best_stacked_rows(words: TilesAndSlots[Any], limit: float) -> tuple[int, int, int]:
    """The fewest words, the rows of a tile that has them, the fewest of these, and slots; beyond ``limit``, any.

    Numbers of tiles are tried from both ends, as long as their floors are below the best.
    """
    low, high = words.fewest, words.end
    best = min((words.words(count), count) for count in (low, min(low if high <= low else high, words.rows)))
    high = min(high, words.rows + 1) - 1
    while low < high:
        low += 1
        if words.least(low) > min(best[0], limit):
            break
        best = min(best, (words.words(low), low))
    while low < high:
        if words.least(high) > min(best[0], limit):
            break
        best = min(best, (words.words(high), high))
        high -= 1
    moved, count = best
    return moved, -(-words.rows // count), words.slots(count)
