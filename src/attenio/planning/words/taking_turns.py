"""Tiles stay while others pass, and sums of some that pass take turns with those of the tile: words, room, the best.

Everything works on integers and on arrays of many cases.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where

Ints = NDArray[np.int64]
# Searched where no more than so many stay, or pass: what is saved is a few rows or keys.
MOST = 16
# More than any memory has.
NEVER = 2**60


class TakingTurns(NamedTuple):
    """P tiles of at most b of the rows of a dense group stay while N keys pass, of which t are there over every turn.

    Sums of s keys have places of their own. Those of the others, two groups of at most h, are there at turns alone,
    when the sums of the last tile have left and those of the next have not begun: the first group at odd turns, the
    other at even ones, the first of which is before all tiles and the last after them. At each a group meets the tiles
    on both sides; it travels from turn to turn, ``per_sum`` words out and as many in, or other tiles come again for it,
    ``again`` words a row. For each tile after the first N-t keys come again, ``loads`` words, and the first time that
    one leaves it stores ``once``. It holds b*per_row + t*per_slot + s*per_sum + ``beside`` words, and the larger of
    b*own_sum and per_sum: in that room h sums are in hand. ``across``, keys stay and the rows of all heads pass.
    """

    tile: str
    slots: str
    sums: str
    per_row: Counts
    own_sum: Counts
    per_slot: Counts
    per_sum: Counts
    beside: Counts
    loads: Counts
    again: Counts
    once: Counts = 0
    across: bool = False


class Sizes(NamedTuple):
    """Rows of a tile, keys that are there over a turn, and sums with places of their own."""

    tile: Counts
    slots: Counts
    sums: Counts


def shape_of(phase: TakingTurns, group: Counts, rows: Counts, keys: Counts) -> tuple[Counts, Counts]:
    """How many stay, and how many pass."""
    return (keys, group * rows) if phase.across else (group * rows, keys)


def cut(shape: tuple[Counts, Counts], sizes: Sizes) -> Sizes:
    """No more than there are."""
    (stay, come), (tile, slots, sums) = shape, sizes
    return Sizes(smaller(tile, stay), smaller(slots, come), smaller(sums, come))


def in_hand(phase: TakingTurns, sizes: Sizes) -> Counts:
    """Sums that fit in the place of those of a tile, for keys that are there."""
    return larger(smaller(floor_div(sizes.tile * phase.own_sum, phase.per_sum), sizes.slots), 1)


def held_words(phase: TakingTurns, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words held at once."""
    tile, slots, sums = cut(shape, sizes)
    turn = larger(tile * phase.own_sum, phase.per_sum)
    return tile * phase.per_row + slots * phase.per_slot + sums * phase.per_sum + turn + phase.beside


def words_of_turns(phase: TakingTurns, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words of all that comes again, and of sums that travel; never if more sums take turns than there is room for."""
    (stay, come), sizes = shape, cut(shape, sizes)
    tiles, hand = ceil_div(stay, sizes.tile), in_hand(phase, sizes)
    waiting, away = come - sizes.sums, come - sizes.slots
    leave = where(tiles > 2, smaller(come, 2 * away), where(tiles > 1, away, 0))
    passing = (tiles - 1) * phase.loads * away + phase.once * leave
    first, second = smaller(waiting, hand), larger(waiting - hand, 0)
    turns = _odd(phase, stay, sizes.tile, first) + _even(phase, stay, sizes.tile, second)
    return where(waiting <= 2 * hand, passing + turns, NEVER)


def _odd(phase: TakingTurns, stay: Counts, tile: Counts, sums: Counts) -> Counts:
    """Words of sums that are in hand at the turns after the first, the third tile and so on."""
    tiles = ceil_div(stay, tile)
    last, travel = stay - (tiles - 1) * tile, 2 * phase.per_sum * sums
    single = where(tiles % 2 == 1, smaller(travel, phase.again * last), 0)
    travelling = (tiles // 2 - 1) * travel + single
    return where((tiles > 2) & (sums > 0), smaller(travelling, phase.again * (stay - 2 * tile)), 0)


def _even(phase: TakingTurns, stay: Counts, tile: Counts, sums: Counts) -> Counts:
    """Words of sums that are in hand before the first tile, after the second and so on."""
    tiles = ceil_div(stay, tile)
    last, travel = stay - (tiles - 1) * tile, 2 * phase.per_sum * sums
    ends = smaller(travel, phase.again * tile) + where(tiles % 2 == 0, smaller(travel, phase.again * last), 0)
    travelling = ((tiles - 1) // 2 - 1) * travel + ends
    others = stay - tile - where(tiles > 3, tile, last)
    many = smaller(travelling, phase.again * others)
    return where((tiles > 1) & (sums > 0), where(tiles > 2, many, smaller(travel, phase.again * last)), 0)


def best_taking_turns(phase: TakingTurns, shape: tuple[int, int], fast_words: int, limit: float) -> tuple[int, Sizes]:
    """The fewest words and the sizes that move them; tiles of less than one where nothing is within the limit.

    Every tile and every number of slots is tried, with as many sums of their own as there is room for. Of equals the
    smallest tile is the best, then the fewest slots.
    """
    stay, come = shape
    found, nothing = (limit, Sizes(NEVER, 0, 0)), Sizes(0, 0, 0)  # what moves as much as the limit is within it
    if max(shape) > MOST:
        return NEVER, nothing
    for tile in range(1, stay + 1):
        room = fast_words - phase.beside - tile * phase.per_row - max(tile * phase.own_sum, phase.per_sum)
        again, hand = (ceil_div(stay, tile) - 1) * phase.loads, tile * phase.own_sum // phase.per_sum
        for slots in range(min(room // phase.per_slot, come), 0, -1):
            if again * (come - slots) > found[0]:
                break
            sums = min((room - slots * phase.per_slot) // phase.per_sum, come)
            if come - sums <= 2 * max(1, min(hand, slots)):
                sizes = Sizes(tile, slots, sums)
                found = min(found, (words_of_turns(phase, shape, sizes), sizes))
    return (int(found[0]), found[1]) if found[1].tile < NEVER else (NEVER, nothing)


def best_of_many(phase: TakingTurns, shape: tuple[Ints, Ints], fast_words: Counts) -> tuple[Ints, Sizes]:
    """The same for many cases, without a limit."""
    stay, come = shape
    few = (stay <= MOST) & (come <= MOST)
    best, found = NEVER + 0 * stay, Sizes(0 * stay, 0 * stay, 0 * stay)
    if not few.any():
        return best, found
    for tile in range(1, min(MOST, int(stay.max())) + 1):
        for slots in range(1, min(MOST, int(come.max())) + 1):
            least = Sizes(smaller(tile, stay), smaller(slots, come), 0 * stay)
            sums = smaller(floor_div(fast_words - held_words(phase, shape, least), phase.per_sum), come)
            sizes = least._replace(sums=larger(sums, 0))
            words = np.where(few & (sums >= 0), words_of_turns(phase, shape, sizes), NEVER)
            less = words < best
            best = np.where(less, words, best)
            found = Sizes(*(where(less, new, old) for new, old in zip(sizes, found, strict=True)))
    return best, found


def smallest_sizes(phase: TakingTurns, shape: tuple[int, int]) -> Sizes:
    """Those that hold the fewest words; with a place for every sum where none are searched."""
    stay, come = shape
    if max(stay, come) > MOST:
        return Sizes(1, 1, come)
    every = (Sizes(tile, slots, 0) for tile in range(1, stay + 1) for slots in range(1, come + 1))
    turning = (sizes._replace(sums=max(0, come - 2 * int(in_hand(phase, sizes)))) for sizes in every)
    return min(turning, key=lambda sizes: int(held_words(phase, shape, sizes)))


def turns_floor(phase: TakingTurns, shape: tuple[int, int], fast_words: int) -> float:
    """Words that no sizes go below, quickly; infinite if nothing fits, or too many stay or pass."""
    stay, come = shape
    room = fast_words - phase.beside - phase.per_row - max(phase.own_sum, phase.per_sum)
    if max(stay, come) > MOST or room < phase.per_slot:
        return inf
    tile = min(1 + (room - phase.per_slot) // (phase.per_row + phase.own_sum), stay)
    if phase.own_sum < phase.per_sum:
        tile = stay
    away = max(0, come - room // phase.per_slot)
    return float((ceil_div(stay, tile) - 1) * phase.loads * away)
