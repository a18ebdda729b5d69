"""Under a causal mask tiles of keys stay until all rows that are left fit: words, room, and the best.

Everything works on integers and on arrays of many cases.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, sum_clipped, where
from attenio.planning.words.turn_rooms import FEW, NEVER, TurnRoom, at_turn, quotient, staying_tried

Ints = NDArray[np.int64]
# In more tiles there is next to nothing to save.
MOST_TILES = 4


class CausalSums(NamedTuple):
    """Tiles of b of the m keys of a causal problem stay while its n positions pass, and the last q keys pass positions.

    Sums of s of the last positions have places of their own. Of the r positions that are left after a tile, the first x
    stay for the next one, or for the last keys, b at most and none where keys are more than positions: at this turn
    gradients of keys and of positions give way to each other. The others come again, ``loads`` words, ``travels`` more
    for those whose sums have no place; the first time that one leaves it stores ``once``. Words of positions are of all
    heads of a group.

    Positions that are left after the first tile read ``reads`` words to know their statistics; the others make these
    of its keys, and so do all if the last keys are all keys and s is 0.

    Tiles take the room of turns, and sums of s positions beside. For the last keys all r positions that are left are
    there, sums of min(r, s + x) of them, and keys stay; or all of these have sums, whichever is less, unless all
    positions make their statistics.
    """

    tile: str
    last: str
    sums: str
    exchanged: str
    room: TurnRoom
    loads: Counts
    travels: Counts
    once: Counts
    reads: Counts


class Sizes(NamedTuple):
    """Keys of a tile, the last keys, sums that have places, and positions that stay at a turn."""

    tile: Counts
    last: Counts
    sums: Counts
    exchanged: Counts


def cut(shape: tuple[Counts, Counts], sizes: Sizes) -> Sizes:
    """No more than there are."""
    rows, keys = shape
    last = smaller(sizes.last, keys)
    tile = larger(smaller(sizes.tile, keys - last), 1)
    exchanged = where((keys <= rows) & (last < keys), smaller(sizes.exchanged, tile), 0)
    return Sizes(tile, last, smaller(sizes.sums, rows), exchanged)


def held_words(phase: CausalSums, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words held at once."""
    room = phase.room
    (rows, keys), (tile, last, sums, exchanged) = shape, cut(shape, sizes)
    left = smaller(rows, last + (ceil_div(keys - last, tile) - 1) * tile)
    tiles = sums * room.per_sum + larger(
        tile * room.per_key + room.per_row + room.per_sum,
        tile * room.per_input + at_turn(room, tile, smaller(exchanged, left), left - sums),
    )
    either = larger(where(last < keys, tiles, 0), where(last > 0, _for_last(phase, shape, sizes), 0))
    return either + room.beside


def _for_last(phase: CausalSums, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words for the last keys."""
    room = phase.room
    (rows, keys), (_, last, sums, exchanged) = shape, cut(shape, sizes)
    left = smaller(rows, last)
    gradients, stay = room.per_key - room.per_input, smaller(exchanged, left)
    # dQ in hand takes the room of dK and dV, but where the first positions have places for theirs
    in_hand = larger(gradients, where(stay > 0, 0, room.per_sum))
    some = (last - left) * room.per_input + smaller(left, sums + stay) * room.per_sum + in_hand
    every = where((last < keys) | (sums > 0), left * room.per_sum + gradients, some)
    return left * room.per_row + room.per_input + smaller(some, every)


def words_of_turns(phase: CausalSums, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words of all that comes again."""
    (rows, keys), (tile, last, sums, stay) = shape, cut(shape, sizes)
    tiles = ceil_div(keys - last, tile)
    first = smaller(rows, last + (tiles - 1) * tile)

    def after(kept: Counts) -> Counts:
        """How many come again of all but so many, at all turns: j tiles before the last keys j*tile more are left."""
        return sum_clipped(0 * tiles, tiles - 1, tile, last - kept, larger(rows - kept, 0))

    words = phase.loads * after(stay) + phase.travels * after(sums + stay) + phase.once * larger(first - stay, 0)
    return where(tiles > 0, words + phase.reads * first, phase.reads * where(sums > 0, smaller(rows, keys), 0))


def all_last(phase: CausalSums, shape: tuple[Counts, Counts], fast_words: Counts) -> Sizes:
    """All keys as the last ones, where they fit: no place for sums, or else one for all."""
    rows, keys = shape
    without = Sizes(0 * keys + 1, keys, 0 * keys, 0 * keys)
    return without._replace(sums=where(held_words(phase, shape, without) <= fast_words, 0, rows))


def best_causal_sums(phase: CausalSums, shape: tuple[int, int], fast_words: int) -> tuple[int, Sizes]:
    """The fewest words and the sizes that move them; tiles of less than one where nothing fits in few tiles."""
    keys, (longest, most) = shape[1], most_that_fit(phase, shape, fast_words)
    if longest >= keys:
        sizes = all_last(phase, shape, fast_words)
        return int(words_of_turns(phase, shape, sizes)), sizes
    if most < 1 or (fewest := ceil_div(keys - longest, most)) > MOST_TILES:
        return NEVER, Sizes(0, 0, 0, 0)
    words, sizes = best_of_few_tiles(phase, (np.asarray(shape[0]), np.asarray(keys)), fast_words, fewest)
    return int(words), Sizes(*(int(size) for size in sizes))


def best_of_few_tiles(
    phase: CausalSums, shape: tuple[Ints, Ints], fast_words: Counts, fewest: int = 1
) -> tuple[Ints, Sizes]:
    """The same in many cases at once, all of them of few keys or none, in ``fewest`` tiles or more.

    2^60 words where nothing fits in few tiles. For so many tiles words are convex in all sizes, but for rounding: sizes
    are tried where several rooms are full, or where more of one of them is no use.
    """
    keys, few = shape[1], bool(np.all(shape[1] <= FEW))
    of_one = np.ones(np.broadcast_shapes(np.shape(keys), np.shape(fast_words)), dtype=np.int64)
    tiles = np.multiply.outer(np.arange(fewest, MOST_TILES + 1, dtype=np.int64), of_one)
    every = np.arange(FEW + 1, dtype=np.int64)
    tried = np.multiply.outer(every[1:], 0 * tiles + 1) if few else tiles_tried(phase, shape, fast_words, tiles)
    tile = np.maximum(np.minimum(tried, ceil_div(keys, tiles)), 1)
    room = RoomOfTiles(phase, shape, fast_words, tile, np.maximum(keys - tiles * tile, 0))
    words, stay, sums = room.words(np.multiply.outer(every, 0 * tile + 1) if few else room.exchanges_tried())
    flat = words.reshape(-1, *of_one.shape)
    place = np.argmin(flat, axis=0), *np.indices(of_one.shape)
    of_tile = place[0] % (tile.size // of_one.size), *place[1:]
    tile, last = (each.reshape(-1, *of_one.shape)[of_tile] for each in (tile, room.last))
    sums, stay = (each.reshape(flat.shape)[place] for each in (sums, stay))
    return flat[place], Sizes(tile, last, sums, stay)


class RoomOfTiles(NamedTuple):
    """Tiles with what is left for the last keys, and the room beside them."""

    phase: CausalSums
    shape: tuple[Ints, Ints]
    fast_words: Counts
    tile: Ints
    last: Ints

    @property
    def at_turn(self) -> Ints:
        """Words beside keys at a turn."""
        return np.asarray(self.fast_words - self.phase.room.beside - self.tile * self.phase.room.per_input)

    def exchanges_tried(self) -> Ints:
        """Positions that may stay at a turn."""
        return np.stack(staying_tried(self.phase.room, self.tile, self.at_turn, self.sums_for_last[0]))

    @property
    def sums_for_last(self) -> tuple[Ints, Ints]:
        """Places for sums beside the last keys if no positions stay, and if some do, theirs among them."""
        room, (rows, _) = self.phase.room, self.shape
        left, gradients = np.minimum(rows, self.last), room.per_key - room.per_input
        free = self.fast_words - room.beside - left * room.per_row - room.per_input
        every = (free >= left * room.per_sum + gradients) | (self.last == 0)
        beside = free - (self.last - left) * room.per_input - gradients
        none, some = ((beside - hand) // room.per_sum for hand in (larger(room.per_sum - gradients, 0), 0))
        # in the end as many as positions are enough
        none, some = (np.where(every | (places >= left), 2 * rows, places) for places in (none, some))
        return none, some

    def words(self, exchanged: Ints) -> tuple[Ints, Ints, Ints]:
        """Words of all that comes again, 2^60 where nothing fits, positions that stay, and the sums that are of use."""
        phase, room, (rows, keys), tile = self.phase, self.phase.room, self.shape, self.tile
        stay = np.minimum(exchanged, np.where((keys <= rows) & (self.last < keys), tile, 0))
        turns = np.arange(MOST_TILES, dtype=np.int64).reshape(-1, *(1 for _ in tile.shape))
        there = turns < ceil_div(keys - self.last, tile)
        left = np.where(there, np.minimum(rows, self.last + turns * tile), 0)
        first = left.max(axis=0)
        passing = self.fast_words - room.beside - tile * room.per_key - room.per_row - room.per_sum
        sums = np.minimum(passing, self.at_turn - at_turn(room, tile, stay, stay)) // room.per_sum
        none, some = self.sums_for_last
        sums = np.minimum(sums, np.where(stay > 0, some - np.minimum(stay, self.last), none))
        sums = np.minimum(sums, np.maximum(first - stay, 0))
        again, travel = (np.maximum(left[:, None] - kept, 0).sum(axis=0) for kept in (stay, sums + stay))
        words = phase.loads * again + phase.travels * travel + phase.once * np.maximum(first - stay, 0)
        words = words + phase.reads * first
        return np.where(sums >= 0, words, NEVER), stay, sums


def tiles_tried(phase: CausalSums, shape: tuple[Ints, Ints], fast_words: Counts, tiles: Ints) -> Ints:
    """About where words bend as a function of the keys of so many tiles."""
    room = phase.room
    (_, keys), free = shape, fast_words - room.beside
    longest, most = most_that_fit(phase, shape, fast_words)
    whole, one = room.per_row + room.per_sum, room.per_key + room.per_query
    last, for_last = tiles * room.per_row - room.per_sum, keys * room.per_row + room.per_key
    bends = (
        most,
        ceil_div(keys - longest, tiles),
        keys // (tiles + 1),  # as many positions are left in the end
        # as many positions stay as a tile has keys, and one of the rooms is full
        free // one,
        free // (room.per_input + whole),
        free // (room.per_input + room.per_partial + room.per_row),
        quotient(for_last - free, last),
        for_last // (last + one),  # two of them, and there are other sums
    )
    about = np.stack([bend + 0 * tiles for bend in bends])
    return np.concatenate([about, about + 1])


def sums_floor(phase: CausalSums, shape: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """Words that no sizes go below, quickly; infinite where nothing fits in few tiles."""
    (rows, keys), (longest, most) = shape, most_that_fit(phase, shape, fast_words)
    some = larger(most, 1)
    tiles = ceil_div(keys - longest, some)
    fits = (longest >= keys) | ((most >= 1) & (tiles <= MOST_TILES))
    if fits is False:
        return inf
    # tiles end no later than the largest ones, and no more positions stay than a tile has keys
    turns = smaller(tiles, MOST_TILES)
    again = sum_clipped(0, turns - 1, some, keys - (turns + 1) * some, larger(rows - some, 0))
    left = where(longest >= keys, 0, larger(smaller(rows, keys - some), 0))  # after the first tile
    words = phase.loads * again + phase.reads * left
    return words * 1.0 if fits is True else np.where(fits, words, inf)


def most_that_fit(phase: CausalSums, shape: tuple[Counts, Counts], fast_words: Counts) -> tuple[Counts, Counts]:
    """Last keys and keys of a tile, at most."""
    room = phase.room
    (rows, keys), free = shape, fast_words - room.beside
    beside = free - room.per_input - larger(room.per_key - room.per_input, room.per_sum)
    positions = floor_div(beside, room.per_row)
    more = floor_div(beside - rows * room.per_row, room.per_input)
    longest = where(positions >= rows, rows + larger(more, 0), larger(positions, 0))
    every = rows * (room.per_row + room.per_sum) + room.per_key <= free
    longest = where(every, keys, smaller(longest, keys))
    return longest, smaller(floor_div(free - room.per_row - room.per_sum, room.per_key), keys)
