"""What a causal forward pass has at its end and the backward pass begins with, where not all keys fit: room, and best.

Forward rows exchange once (``exchanged_rows``), so that every key is read once; at the end entries of the first keys,
and of values of some of them, have stayed, and queries and outputs of the last rows. Backward (``causal_sums``) those
are keys of its first tile, and rows that pass last. Gradients of keys begin when the first row comes that needs them,
and sums of rows that have places with their row. All rows need the keys up to their own.

Everything works on integers and on arrays of many cases.
"""

from typing import NamedTuple

import numpy as np

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where
from attenio.planning.words.causal_sums import (
    MOST_TILES,
    CausalSums,
    RoomOfTiles,
    Sizes,
    tiles_tried,
    words_of_turns,
)
from attenio.planning.words.exchanged_rows import ExchangedRows
from attenio.planning.words.turn_rooms import NEVER, Ints

# Up to so many keys every size is tried; of more so many sizes of tiles, and of positions that stay at turns, beside
# those at which words bend.
FEW = 32
_TILES_TRIED, _EXCHANGES_TRIED = 48, 12


class Staying(NamedTuple):
    """So many of the first keys stay, values of so many of them, and so many of the last rows."""

    keys: Counts
    values: Counts
    rows: Counts

    def words(self, d: Counts, value_dim: Counts) -> Counts:
        """Words that are not loaded again."""
        return self.keys * d + self.values * value_dim + self.rows * (d + value_dim)


class Passes(NamedTuple):
    """Both passes of n rows that need as many keys, the widths of keys and values, and the fast memory."""

    forward: ExchangedRows
    backward: CausalSums
    d: Counts
    value_dim: Counts
    rows: Counts
    fast_words: Counts

    @property
    def exchanged(self) -> Counts:
        """Rows of the forward tile that exchanges: as much room for its outputs as for the values that give way."""
        way, n = self.forward, self.rows
        values, outputs = way.per_slot - way.per_key, way.per_row - way.per_query
        return larger(smaller(ceil_div(n * values, larger(values + outputs, 1)), n - 1), 1)

    def held_forward(self, staying: Staying) -> Counts:
        """Words that the forward pass holds at once, with what stays."""
        way, later = self.forward, self.exchanged
        first = self.rows - later
        begins = first * way.per_slot + larger(way.per_row, later * way.per_query)
        ends = first * way.per_key + staying.values * (self.value_dim - 1)
        passing = staying.keys * self.d + staying.values * self.value_dim + way.per_slot
        return way.beside + larger(begins, later * way.per_row + larger(ends, passing))

    @property
    def forward_fits(self) -> Counts:
        """Whether the forward pass does, with nothing that stays."""
        return self.held_forward(Staying(0, 0, 0)) <= self.fast_words

    def held_backward(self, sizes: Sizes, staying: Staying) -> Counts:
        """Words that the backward pass holds when the first of the rows comes that stayed."""
        room = self.backward.room
        sums = larger(sizes.sums - staying.rows, 0) * room.per_sum
        rows = staying.rows * (self.d + self.value_dim)
        return room.beside + _first(self.rows, sizes) * room.per_key + room.per_row + room.per_sum + sums + rows

    def staying(self, sizes: Sizes) -> Staying:
        """As much as may stay with these sizes, of which there is a tile; none where the forward pass does not fit."""
        way, tile = self.forward, _first(self.rows, sizes)
        keys = smaller(tile, self.rows - self.exchanged)
        free = self.fast_words - self.held_forward(Staying(keys, 0, 0))
        fits = free >= 0
        rest = self.fast_words - way.beside - self.exchanged * way.per_row
        ends = floor_div(rest - (self.rows - self.exchanged) * way.per_key, larger(self.value_dim - 1, 1))
        ends = where(self.value_dim > 1, ends, keys)
        passing = floor_div(rest - keys * self.d - way.per_slot, self.value_dim)
        values = larger(smaller(smaller(ends, passing), keys), 0)
        rows = smaller(self._rows_that_stay(sizes), smaller(self.exchanged, self.rows - tile - sizes.exchanged))
        return Staying(*(where(fits, each, 0) for each in (keys, values, larger(rows, 0))))

    def _rows_that_stay(self, sizes: Sizes) -> Counts:
        """Rows for which the backward pass has room beside its first tile; sums of the last ones take their places."""
        per_sum, row = self.backward.room.per_sum, self.d + self.value_dim
        free = self.fast_words - self.held_backward(sizes._replace(sums=0 * sizes.sums), Staying(0, 0, 0))
        alone = floor_div(free, row)
        beside = floor_div(free - sizes.sums * per_sum, larger(row - per_sum, 1))
        return where(alone >= sizes.sums, alone, beside)

    def best(self) -> tuple[Ints, Sizes]:
        """Words of the backward pass that come again less those that stay, and its sizes; 2^60 where nothing fits.

        All cases are of few keys or none is. Of sums with places there are as many as fit, or no more than rows stay.
        """
        keys = np.asarray(self.rows)
        of_one = np.ones(np.broadcast_shapes(keys.shape, np.shape(self.fast_words)), dtype=np.int64)
        tiles = np.multiply.outer(np.arange(1, MOST_TILES + 1, dtype=np.int64), of_one)
        tile = np.maximum(np.minimum(self._tiles_tried(tiles), ceil_div(keys, tiles)), 1)
        room = RoomOfTiles(self.backward, (keys, keys), self.fast_words, tile, np.maximum(keys - tiles * tile, 0))
        words, stay, sums = room.words(self._exchanges_tried(room))
        fits = (words < NEVER) & self.forward_fits
        none = Sizes(tile + 0 * stay, room.last + 0 * stay, 0 * stay, stay)
        some = np.minimum(np.maximum(sums, 0), np.maximum(self._rows_that_stay(none), 0))
        sizes = Sizes(*(np.stack((each, each)) for each in none))._replace(sums=np.stack((np.maximum(sums, 0), some)))
        again = words_of_turns(self.backward, (keys, keys), sizes)
        less = self.staying(sizes).words(self.d, self.value_dim)
        flat = np.where(fits, again - less, NEVER).reshape(-1, *of_one.shape)
        place = np.argmin(flat, axis=0), *np.indices(of_one.shape)
        return flat[place], Sizes(*(each.reshape(flat.shape)[place] for each in sizes))

    def _tiles_tried(self, tiles: Ints) -> Ints:
        """Keys of so many tiles: all of few, of many where words bend, and some between."""
        keys = np.asarray(self.rows)
        if np.all(keys <= FEW):
            return np.multiply.outer(np.arange(1, FEW + 1, dtype=np.int64), 0 * tiles + 1)
        shares = np.arange(_TILES_TRIED + 1, dtype=np.int64).reshape(-1, *(1 for _ in tiles.shape))
        between = 1 + (ceil_div(keys, tiles) - 1) * shares // _TILES_TRIED
        return np.concatenate([tiles_tried(self.backward, (keys, keys), self.fast_words, tiles), between])

    def _exchanges_tried(self, room: RoomOfTiles) -> Ints:
        """Positions that may stay at a turn: all of few; also as many as leave rows that stay now, and a few less."""
        if np.all(np.asarray(self.rows) <= FEW):
            return np.multiply.outer(np.arange(FEW + 1, dtype=np.int64), 0 * room.tile + 1)
        tried = room.exchanges_tried()
        none = Sizes(room.tile, room.last, 0 * room.tile, 0 * room.tile)
        free = self.rows - _first(self.rows, none) - np.maximum(self._rows_that_stay(none), 0)
        tried = np.concatenate([tried, np.minimum(tried, free)])
        shares = np.arange(_EXCHANGES_TRIED, dtype=np.int64).reshape(-1, *(1 for _ in room.tile.shape))
        every = np.concatenate([tried, tried - 1, room.tile * shares // _EXCHANGES_TRIED])
        return np.asarray(np.maximum(every, 0))


def _first(keys: Counts, sizes: Sizes) -> Counts:
    """Keys of the first tile, which may be smaller than the others."""
    rest = keys - sizes.last
    return rest - (ceil_div(rest, sizes.tile) - 1) * sizes.tile
