"""Tiles of keys of a dense problem between which rows stay, as gradients of both give way to each other: words, room.

Everything works on integers and on arrays of many cases.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, clip, floor_div, larger, smaller, where
from attenio.planning.words.stacked_rows import ROUNDING
from attenio.planning.words.turn_rooms import FEW, NEVER, TurnRoom, at_turn, best_of_tried, quotient, staying_tried

Ints = NDArray[np.int64]
# With more tiles these turns save next to nothing.
MOST_TILES = 8


class TurningTiles(NamedTuple):
    """P tiles of b of the m keys of a dense problem stay while its n positions pass, of which x stay at every turn.

    These are n/2 at most, others at odd turns than at even ones. Sums of s positions have places of their own. After
    every tile the other n-x come again, ``loads`` words, ``travels`` more for those whose sums have no place; the first
    time that one leaves it stores ``once``, all but x if there are two tiles. Words of positions are of all heads of a
    group.
    """

    tile: str
    sums: str
    exchanged: str
    room: TurnRoom
    loads: Counts
    travels: Counts
    once: Counts


class Sizes(NamedTuple):
    """Keys of a tile, sums that have places, and positions that stay at a turn."""

    tile: Counts
    sums: Counts
    exchanged: Counts


def cut(shape: tuple[Counts, Counts], sizes: Sizes) -> Sizes:
    """No more than there are."""
    rows, keys = shape
    return Sizes(smaller(sizes.tile, keys), smaller(sizes.sums, rows), smaller(sizes.exchanged, rows // 2))


def held_words(phase: TurningTiles, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words held at once."""
    room = phase.room
    (rows, keys), (tile, sums, stay) = shape, cut(shape, sizes)
    turn = where(tile < keys, tile * room.per_input + at_turn(room, tile, stay, rows - sums), 0)
    passing = tile * room.per_key + room.per_row + room.per_sum
    return room.beside + sums * room.per_sum + larger(passing, turn)


def words_of_turns(phase: TurningTiles, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words of all that comes again."""
    tile, sums, stay = cut(shape, sizes)
    return _moved(phase, shape[0], ceil_div(shape[1], tile) - 1, sums, stay)


def _moved(phase: TurningTiles, rows: Counts, turns: Counts, sums: Counts, stay: Counts) -> Counts:
    without = rows - sums  # those that stay at odd turns are the first of them
    odd, even = clip(without, stay), clip(without - stay, stay)
    travels = turns * without - (turns + 1) // 2 * odd - turns // 2 * even
    leave = where(turns > 1, rows, where(turns == 1, rows - stay, 0))
    return phase.loads * turns * (rows - stay) + phase.travels * travels + phase.once * leave


def most_keys(phase: TurningTiles, shape: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """Keys of a tile, at most."""
    room = phase.room
    return smaller((fast_words - room.beside - room.per_row - room.per_sum) // room.per_key, shape[1])


def turns_floor(phase: TurningTiles, shape: tuple[int, int], fast_words: int) -> float:
    """Words that no sizes go below, quickly; infinite if nothing fits in few tiles."""
    return min(_floors(phase, shape, fast_words).values(), default=inf)


def _floors(phase: TurningTiles, shape: tuple[int, int], fast_words: int) -> dict[int, int]:
    """The same for every number of tiles that fits."""
    (rows, keys), most = shape, most_keys(phase, shape, fast_words)
    if rows < 2 or most < 1 or keys > MOST_TILES * most:
        return {}
    fewest = max(-(-keys // most), 2)
    return {tiles: int(floor_of(phase, shape, fast_words, tiles)) for tiles in range(fewest, MOST_TILES + 1)}


def floor_of(phase: TurningTiles, shape: tuple[Counts, Counts], fast_words: Counts, tiles: int) -> Counts:
    """Words that so many tiles, which fit, do not go below: as much stays as may, and as many sums beside nothing."""
    (rows, keys), room = shape, phase.room
    tile = -(-keys // tiles)
    free = fast_words - room.beside - tile * room.per_input
    beside = free - tile * (room.per_key - room.per_input)
    stay = smaller(smaller(rows // 2, free // room.per_row), beside // room.per_query)
    stay = larger(smaller(stay, (free - tile * room.per_partial) // room.per_row), 0)
    without = rows - stay - (beside - room.per_row - room.per_sum) // room.per_sum
    return (tiles - 1) * (phase.loads * (rows - stay) + phase.travels * larger(without, 0))


def _floor_at(phase: TurningTiles, shape: tuple[int, int], fast_words: int, tiles: int) -> float:
    """Words that so many tiles do not go below: convex in what stays, so least at an end or where that bends."""
    (rows, keys), room = shape, phase.room
    tile = ceil_div(keys, tiles)
    free = fast_words - room.beside - tile * room.per_input
    beside = free - tile * (room.per_key - room.per_input)
    most = min(rows // 2, free / room.per_row, beside / room.per_query)
    sums = (beside - room.per_row - room.per_sum) / room.per_sum

    def words(stay: float) -> float:
        stay = max(min(stay, most), 0)
        # with sums in places and those of what stays
        served = min(rows, stay + sums, (free - stay * room.per_row) / room.per_sum)
        return float(phase.loads * (rows - stay) + phase.travels * (rows - served))

    even = (free - sums * room.per_sum) / (room.per_row + room.per_sum)
    bends = (0, most, even, rows - sums, (free - rows * room.per_sum) / room.per_row)
    return (tiles - 1) * min(words(bend) for bend in bends) * ROUNDING


def best_turning_tiles(phase: TurningTiles, shape: tuple[int, int], fast_words: int) -> tuple[int, Sizes]:
    """The fewest words and the sizes that move them; tiles of less than one where nothing fits in few tiles."""
    best, found = NEVER, Sizes(0, 0, 0)
    for floor, tiles in sorted((floor, tiles) for tiles, floor in _floors(phase, shape, fast_words).items()):
        if floor > best:
            break
        if _floor_at(phase, shape, fast_words, tiles) > best:
            continue
        words, sizes = _best_of_tiles(phase, shape, fast_words, tiles)
        if words < best or (words == best and sizes.tile > found.tile):  # in fewer tiles
            best, found = words, sizes
    return best, found


def best_of_few_tiles(phase: TurningTiles, shape: tuple[Ints, Ints], fast_words: Counts) -> tuple[Ints, Sizes]:
    """The same in many cases at once, all of them of few positions or none."""
    best = NEVER + 0 * shape[0]
    found = Sizes(0 * best, 0 * best, 0 * best)
    for tiles in range(2, MOST_TILES + 1):
        words, sizes = _best_of_tiles(phase, shape, fast_words, tiles)
        less = words < best
        best = where(less, words, best)
        found = Sizes(*(where(less, new, old) for new, old in zip(sizes, found, strict=True)))
    return best, found


def _best_of_tiles(
    phase: TurningTiles, shape: tuple[Counts, Counts], fast_words: Counts, tiles: int
) -> tuple[Counts, Sizes]:
    """The best of so many tiles, which have as few keys as they may.

    Words are convex in what stays, but for rounding: positions are tried where two of the rooms of a turn are as large,
    and one more or less of the best of these, all of them where there are few, beside as many sums as fit.
    """
    rows, tile = shape[0], ceil_div(shape[1], tiles)
    turns, beside = ceil_div(shape[1], tile) - 1, _Beside.of(phase, rows, tile, fast_words)

    def words_with(stay: Counts) -> tuple[Counts, Counts, Counts]:
        sums = beside.sums(stay)
        return where((sums >= 0) & (turns > 0), _moved(phase, rows, turns, sums, stay), NEVER), stay, sums

    few = bool(np.all(rows <= FEW))
    tried = [smaller(each + 0 * rows, rows // 2) for each in range(FEW // 2 + 1)] if few else beside.tried(tile)
    _, about, _ = best_of_tried(dict.fromkeys(tried) if type(rows) is int else tried, words_with)
    near = (larger(smaller(about + more, rows // 2), 0) for more in (0, 1, -1))
    best, stays, places = best_of_tried(near, words_with)
    return best, Sizes(where(best < NEVER, tile, 0), places, stays)


class _Beside(NamedTuple):
    """Words that are left at a turn beside keys, beside their gradients too, and beside gradients in part."""

    room: TurnRoom
    rows: Counts
    keys: Counts
    gradients: Counts
    partial: Counts

    @classmethod
    def of(cls, phase: TurningTiles, rows: Counts, tile: Counts, fast_words: Counts) -> "_Beside":
        """Beside a tile of so many keys."""
        room = phase.room
        free = fast_words - room.beside - tile * room.per_input
        return cls(room, rows, free, free - tile * (room.per_key - room.per_input), free - tile * room.per_partial)

    def sums(self, stay: Counts) -> Counts:
        """The most sums that have places, less than none where nothing fits."""
        room, whole = self.room, self.room.per_row + self.room.per_sum
        most = smaller(self.gradients - larger(whole, stay * room.per_query), self.partial - stay * room.per_row)
        # all that stay have no place for their sums, or all positions have one
        every = self.rows * room.per_sum
        some = where(self.keys - stay * room.per_row >= every, every, self.keys - stay * whole)
        return smaller(floor_div(smaller(most, some), room.per_sum), self.rows)

    def tried(self, tile: Counts) -> list[Counts]:
        """Positions that may stay: also so many that all others have places for their sums, at all turns or at some."""
        room, every = self.room, self.rows * self.room.per_sum
        full, *bends = staying_tried(room, tile, self.keys, self.rows // 2)
        whole = room.per_row + room.per_sum
        passing = ceil_div(whole + every - self.gradients, room.per_sum)
        bends += [passing, ceil_div(passing, 2), (self.keys - every) // room.per_row]
        bends += [quotient(self.keys - every, room.per_row - room.per_sum)]
        for left, each in ((self.gradients, room.per_query), (self.partial, room.per_row)):
            bends += [quotient(left - every, each - more * room.per_sum) for more in (1, 2)]
            # a turn takes as much as a position that passes
            bends.append((left - self.gradients + whole) // each)
        bends.append((self.keys - self.gradients + whole) // whole)
        return [full, 0 * full, *(larger(smaller(each, full), 0) for each in bends)]
