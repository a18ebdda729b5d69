"""Values give way to outputs, column by column, where tiles of causal rows meet keys that were kept: words and room.

Everything works on integers and on arrays of many cases.
"""

from collections.abc import Iterator
from typing import NamedTuple

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where

# How many exchanges are tried, and tiles after them at most: with more of these exchanges save next to nothing.
MOST_EXCHANGES, MOST_LAST = 3, 2
# More words than any run moves.
_NOTHING = 2**62


class ExchangedRows(NamedTuple):
    """The n rows of a causal problem in tiles, first f rows, then j tiles of b, then tiles of a.

    The m keys are read once for every tile that needs them, but those kept in s slots for a tile of b rows. Keys of the
    first tile all stay: it holds (f+m-n)*per_slot + per_row. A tile of b rows first meets what was kept: it holds
    s*per_slot + b*per_query, and with the outputs in the place of values s*per_key + b*per_row. Then keys pass: a tile
    of b, or a, holds b*per_row + per_slot. Every one of these, and ``beside``. It moves loads for every key that is
    read, and ``live`` for every row.
    """

    tile: str
    exchanges: str
    last: str
    slots: str
    per_row: Counts
    per_query: Counts
    per_slot: Counts
    per_key: Counts
    beside: Counts
    loads: Counts
    live: Counts


class ExchangeSizes(NamedTuple):
    """Rows of a tile that exchanges, how many do, rows of tiles after them, and slots."""

    tile: Counts
    exchanges: Counts
    last: Counts
    slots: Counts


class _Cut(NamedTuple):
    """Rows of the first tile, exchanges that take place, and tiles after them."""

    first: Counts
    exchanges: Counts
    later: Counts


def _cut(rows: Counts, sizes: ExchangeSizes) -> _Cut:
    exchanges = smaller(sizes.exchanges, floor_div(rows - 1, sizes.tile))
    left = rows - exchanges * sizes.tile
    later = floor_div(left - 1, sizes.last)
    return _Cut(left - later * sizes.last, exchanges, later)


def _kept(shape: tuple[Counts, Counts], first: Counts, sizes: ExchangeSizes) -> tuple[Counts, Counts]:
    """Keys kept for the first exchange, and for every other."""
    rows, keys = shape
    return smaller(sizes.slots, first + keys - rows), smaller(sizes.slots, sizes.tile)


def exchanged_words(phase: ExchangedRows, shape: tuple[Counts, Counts], sizes: ExchangeSizes) -> Counts:
    """Words of the keys, and the queries, of a problem of so many rows and keys."""
    rows, keys = shape
    first, j, p = _cut(rows, sizes)
    seen, a, b = first + keys - rows, sizes.last, sizes.tile
    read = (1 + j + p) * seen + b * (j * (j + 1) // 2 + p * j) + a * (p * (p + 1) // 2)
    once, again = _kept(shape, first, sizes)
    return phase.loads * (read - where(j > 0, once + (j - 1) * again, 0)) + phase.live * rows


def exchanged_held(phase: ExchangedRows, shape: tuple[Counts, Counts], sizes: ExchangeSizes) -> Counts:
    """Words held at once."""
    rows, keys = shape
    first, j, later = _cut(rows, sizes)
    once, again = _kept(shape, first, sizes)
    kept = where(j > 1, larger(once, again), once)
    meeting = larger(
        kept * phase.per_slot + sizes.tile * phase.per_query, kept * phase.per_key + sizes.tile * phase.per_row
    )
    passing = larger(where(j > 0, sizes.tile, 0), where(later > 0, sizes.last, 0)) * phase.per_row + phase.per_slot
    most = (first + keys - rows) * phase.per_slot + phase.per_row
    most = larger(most, where(j + later > 0, passing, 0))
    return phase.beside + larger(most, where(j > 0, meeting, 0))


class _Room(NamedTuple):
    """What fits: rows beside a key that passes, rows of the first tile, and words beside what is always held."""

    most: Counts
    first: Counts
    words: Counts


def _room(phase: ExchangedRows, shape: tuple[Counts, Counts], fast_words: Counts) -> _Room:
    rows, keys = shape
    words = fast_words - phase.beside
    most = smaller(floor_div(words - phase.per_slot, phase.per_row), rows)
    first = floor_div(words - phase.per_row, phase.per_slot) - (keys - rows)
    return _Room(most, smaller(first, rows), words)


def may_exchange(phase: ExchangedRows, shape: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """Whether so few tiles may do that exchanges are tried."""
    most, first, _ = _room(phase, shape, fast_words)
    return (most >= 1) & (first >= 1) & (shape[0] > 1) & (shape[0] <= first + (MOST_EXCHANGES + MOST_LAST) * most)


class Exchanges(NamedTuple):
    """How many tiles exchange and how many come after them, with the rows before those and how many more keys are.

    And what fits: the fewest rows of a tile that exchanges, which leave to the first tile what fits there, and the most
    beside which a key passes, and one row is left.
    """

    phase: ExchangedRows
    rows: Counts
    more: Counts
    room: _Room
    exchanges: int
    later: int
    least: Counts
    most: Counts

    def first(self, tile: Counts) -> Counts:
        """Rows left to the first tile."""
        return self.rows - self.exchanges * tile

    def slots(self, tile: Counts) -> Counts:
        """Slots for keys that fit in a meeting with so many rows."""
        phase, words = self.phase, self.room.words
        begins = floor_div(words - tile * phase.per_query, phase.per_slot)
        return smaller(begins, floor_div(words - tile * phase.per_row, phase.per_key))

    def read(self, tile: Counts, slots: Counts) -> Counts:
        """Keys that are read."""
        j, p, seen = self.exchanges, self.later, self.first(tile) + self.more
        tiles = tile * (j * (j + 1) // 2 + p * j) + self.room.most * (p * (p + 1) // 2)
        return (1 + j + p) * seen + tiles - smaller(slots, seen) - (j - 1) * smaller(slots, tile)

    def may_read_fewer(self, keys: Counts) -> Counts:
        """Whether tiles fit, and may read fewer keys than so many.

        With a slot for every key that may stay, a row more in each of j tiles reads (j-1)(j+2)/2 fewer keys: no tile
        reads fewer than the largest would then.
        """
        return (self.least <= self.most) & (self.read(self.most, _NOTHING) < keys)

    def bends(self) -> Iterator[Counts]:
        """About where words bend as a function of the rows of a tile that exchanges, and the ends."""
        phase, words, j = self.phase, self.room.words, self.exchanges
        rooms = (phase.per_query, phase.per_slot), (phase.per_row, phase.per_key)
        beyond = phase.per_slot * phase.per_row - phase.per_key * phase.per_query
        bends = [_quotient(words * (phase.per_slot - phase.per_key), beyond)]  # both rooms of a meeting are as large
        for row, slot in rooms:  # slots are as many as keys that came before, or as rows of the tile before
            bends.append(_quotient(words - slot * (self.rows + self.more), row - j * slot))
            if j > 1:
                bends.append(_quotient(words, row + slot))
        for bend in bends:
            yield bend
            yield bend + 1
        yield self.least
        yield self.most

    def best(self, below: Counts) -> tuple[Counts, ExchangeSizes]:
        """The fewest keys that tiles read, fewer than ``below``, and their sizes; as many, and any, where none do.

        Keys read are convex in the rows of a tile, but for rounding: they are fewest at an end or where they bend, or
        miss that by a few.
        """
        best, chosen = below, 0 * below
        bends = (larger(smaller(bend, self.most), self.least) for bend in self.bends())
        for tile in dict.fromkeys(bends) if type(below) is int else bends:
            slots = self.slots(tile)
            read = where(slots >= 1, self.read(tile, slots), _NOTHING)
            less = read < best
            best, chosen = where(less, read, best), where(less, tile, chosen)
        return best, self._sizes(chosen, self.slots(chosen))

    def _sizes(self, tile: Counts, slots: Counts) -> ExchangeSizes:
        """As a plan has them: no more slots than are used."""
        first = self.first(tile)
        used = first + self.more if self.exchanges == 1 else larger(first + self.more, tile)
        last = self.room.most if self.later else first
        return ExchangeSizes(tile, self.exchanges + 0 * tile, last, smaller(slots, used))


def _quotient(numerator: Counts, denominator: Counts) -> Counts:
    """Rounded down; something where nothing is to be divided by."""
    return floor_div(numerator, where(denominator == 0, 1, denominator))


def ways_to_exchange(phase: ExchangedRows, shape: tuple[Counts, Counts], fast_words: Counts) -> Iterator[Exchanges]:
    """Every number of tiles that exchange, with every number of those after them."""
    (rows, keys), room = shape, _room(phase, shape, fast_words)
    for exchanges in range(1, MOST_EXCHANGES + 1):
        for later in range(MOST_LAST + 1):
            before = rows - later * room.most
            fits = smaller(room.first, room.most) if later else room.first
            least = larger(ceil_div(before - fits, exchanges), 1)
            most = smaller(room.most, floor_div(before - 1, exchanges))
            yield Exchanges(phase, before, keys - rows, room, exchanges, later, least, most)


def best_exchanged_rows(
    phase: ExchangedRows, shape: tuple[int, int], fast_words: int, limit: int | None = None
) -> tuple[int, ExchangeSizes]:
    """The fewest words and the sizes that move them, where exchanges may be tried; 2^62 if none is within the limit."""
    begin = _NOTHING if limit is None else (limit - phase.live * shape[0]) // phase.loads + 1
    best, found = begin, ExchangeSizes(0, 0, 0, 0)
    for exchanges in ways_to_exchange(phase, shape, fast_words):
        if exchanges.may_read_fewer(best):
            read, sizes = exchanges.best(best)
            if read < best:
                best, found = read, sizes
    return (phase.loads * best + phase.live * shape[0] if best < begin else _NOTHING), found
