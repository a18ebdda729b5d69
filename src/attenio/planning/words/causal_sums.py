"""Under a causal mask tiles of keys stay until all rows that are left fit: words, room, and the best.

Everything works on integers and on arrays of many cases.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, sum_clipped, where

Ints = NDArray[np.int64]
# In more tiles there is next to nothing to save.
MOST_TILES = 4
# Up to so many keys in a tile every tile is tried; of larger ones those between which words are linear.
_FEW = 16
# More than any memory has.
NEVER = 2**60


class CausalSums(NamedTuple):
    """Tiles of b of the m keys of a causal problem stay while its n positions pass, and the last q keys pass positions.

    Before the last keys, t of the last positions stay all the time, and sums of s of the last have places of their own.
    After every tile the r positions that are left come again, ``loads`` words but for those that stay, ``travels`` more
    for those whose sums have no place; the first time that one leaves it stores ``once``. It holds b*per_key +
    (t+1)*per_row + (s+1)*per_sum + ``beside`` words, then for the last keys per_key + r*(per_row + per_sum) +
    ``beside``. Words of positions are of all heads of a group. Positions stay only where all that are left after the
    first tile have places for their sums.
    """

    tile: str
    last: str
    sums: str
    rows: str
    per_key: Counts
    per_row: Counts
    per_sum: Counts
    beside: Counts
    loads: Counts
    travels: Counts
    once: Counts


class Sizes(NamedTuple):
    """Keys of a tile, the last keys, sums that have places, and positions that stay."""

    tile: Counts
    last: Counts
    sums: Counts
    rows: Counts


def cut(shape: tuple[Counts, Counts], sizes: Sizes) -> Sizes:
    """No more than there are."""
    rows, keys = shape
    tile, last = smaller(sizes.tile, keys), smaller(sizes.last, keys)
    return Sizes(tile, last, smaller(sizes.sums, rows), smaller(sizes.rows, smaller(rows, last)))


def held_words(phase: CausalSums, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words held at once."""
    (rows, keys), sizes = shape, cut(shape, sizes)
    tiles = sizes.tile * phase.per_key + (sizes.rows + 1) * phase.per_row + (sizes.sums + 1) * phase.per_sum
    last = phase.per_key + smaller(rows, sizes.last) * (phase.per_row + phase.per_sum)
    either = larger(where(sizes.last < keys, tiles, 0), where(sizes.last > 0, last, 0))
    return either + phase.beside


def words_of_turns(phase: CausalSums, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words of all that comes again."""
    (rows, keys), (tile, last, sums, stay) = shape, cut(shape, sizes)
    tiles = ceil_div(keys - last, tile)
    left, first = smaller(rows, last), smaller(rows, larger(keys - tile, last))
    begin = keys - tiles * tile  # after a turn j tiles before the last keys, j*tile more than that are left

    def after(kept: Counts) -> Counts:
        """How many come again of all but so many, at all turns."""
        inner = sum_clipped(1, larger(tiles - 1, 0), tile, begin - kept, larger(rows - kept, 0))
        return where(tiles > 0, inner + larger(left - kept, 0), 0)

    words = phase.loads * after(stay) + phase.travels * after(sums)
    return words + where(tiles > 0, phase.once * larger(first - stay, 0), 0)


def best_causal_sums(phase: CausalSums, shape: tuple[int, int], fast_words: int) -> tuple[int, Sizes]:
    """The fewest words and the sizes that move them; tiles of less than one where nothing fits in few tiles.

    The last keys begin where what is left fits, after as few tiles as possible. With so many tiles the least and the
    largest tile are tried, and those from which on all sums have places, or all that are left for the last keys.
    """
    (rows, keys), (most, longest) = shape, _most(phase, shape, fast_words)
    best, found, loads, travels = NEVER, Sizes(0, 0, 0, 0), phase.loads, phase.travels
    if most < 1 or -(-(keys - longest) // most) > MOST_TILES:
        return best, found
    free = fast_words - phase.beside - phase.per_row - phase.per_sum
    for size in dict.fromkeys(max(min(tile, most), 1) for tile in _tried(phase, keys, free, (most, longest))):
        tiles = -(-(keys - longest) // size)
        if tiles > MOST_TILES:
            continue
        last, room = max(keys - tiles * size, 0), free - size * phase.per_key
        first = min(rows, max(keys - size, last))
        sums, stay = max(min(room // phase.per_sum, first), 0), 0
        if sums >= first:
            stay = max(min((room - sums * phase.per_sum) // phase.per_row, rows, last), 0)
        words = phase.once * (first - stay) if tiles else 0
        for turn in range(1, tiles + 1):
            left = min(rows, max(keys - turn * size, last))
            words += loads * (left - stay) + travels * max(0, left - sums)
        if words < best:
            best, found = words, Sizes(size, last, sums, stay)
    return best, found


def best_of_many(phase: CausalSums, shape: tuple[Ints, Ints], fast_words: Counts) -> tuple[Ints, Sizes]:
    """The same for many cases."""
    rows, keys = shape
    most, longest = (np.asarray(each) for each in _most(phase, shape, fast_words))
    free = fast_words - phase.beside - phase.per_row - phase.per_sum
    best, found = NEVER + 0 * rows, Sizes(0 * rows, 0 * rows, 0 * rows, 0 * rows)
    for tile in _tried(phase, keys, free, (most, longest)):
        size = np.maximum(np.minimum(tile, most), 1)
        tiles = ceil_div(keys - longest, size)
        fits = (most >= 1) & (tiles <= MOST_TILES)
        if not fits.any():
            continue
        last, room = np.maximum(keys - tiles * size, 0), free - size * phase.per_key
        first = np.minimum(rows, np.maximum(keys - size, last))
        sums = np.maximum(np.minimum(room // phase.per_sum, first), 0)
        stay = np.minimum((room - sums * phase.per_sum) // phase.per_row, np.minimum(rows, last))
        sizes = Sizes(size, last, sums, np.where(sums >= first, np.maximum(stay, 0), 0))
        words = np.where(fits, words_of_turns(phase, shape, sizes), NEVER)
        less = words < best
        best = np.where(less, words, best)
        found = Sizes(*(np.where(less, new, old) for new, old in zip(sizes, found, strict=True)))
    return best, found


def _tried(phase: CausalSums, keys: Counts, free: Counts, longest: tuple[Counts, Counts]) -> list[Counts]:
    """Tiles that may be the best: ``longest`` are a tile and the last keys at most."""
    at, rest = larger(longest[0], 1), larger(keys - longest[1], 1)
    tried: list[Counts] = list(range(1, _FEW + 1))
    for more in range(3):
        tiles = ceil_div(rest, at) + more
        tried += [ceil_div(rest, tiles), at]
        for step in (1, tiles):  # sums of all that are left after the first tile, or after the last
            even = floor_div(free - phase.per_sum * keys, larger(phase.per_key - step * phase.per_sum, 1))
            tried += [even - 1, even, even + 1]
    return tried


def sums_floor(phase: CausalSums, shape: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """Words that no sizes go below, quickly; infinite where nothing fits in few tiles."""
    (rows, keys), (most, longest) = shape, _most(phase, shape, fast_words)
    some = larger(most, 1)
    tiles = ceil_div(keys - longest, some)
    fits = (most >= 1) & (tiles <= MOST_TILES)
    if fits is False:
        return inf
    # tiles end no later than the largest ones, and positions stay beside the sums of all that are left after the first
    room = fast_words - phase.beside - phase.per_row - phase.per_sum
    stay = larger(room - phase.per_sum * smaller(rows, keys - some), 0) // phase.per_row
    again = 0 * rows
    for turn in range(1, MOST_TILES + 1):
        again = again + where(turn <= tiles, larger(smaller(rows, keys - turn * some) - stay, 0), 0)
    return phase.loads * again * 1.0 if fits is True else np.where(fits, phase.loads * again, inf)


def _most(phase: CausalSums, shape: tuple[Counts, Counts], fast_words: Counts) -> tuple[Counts, Counts]:
    """Keys of a tile at most, and last keys."""
    (rows, keys), free = shape, fast_words - phase.beside
    most = smaller(floor_div(free - phase.per_row - phase.per_sum, phase.per_key), keys)
    fits = floor_div(free - phase.per_key, phase.per_row + phase.per_sum)
    return most, where(fits >= rows, keys, smaller(larger(fits, 0), keys))
