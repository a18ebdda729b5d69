"""Under causal masks and windows sums of what passes take turns with those of a tile: words, room, and the best.

Everything works on integers and on arrays of many cases.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.band import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, sum_clipped, where
from attenio.planning.words.turn_rooms import NEVER

Ints = NDArray[np.int64]
# Searched where no more than so many stay, or pass: beyond that other forms move less.
MOST = 16
# Tiles of so many or less have many turns, and are walked through by themselves.
_MANY_TURNS = 2
# Cases whose sizes are tried in one go, so that arrays stay in cache.
_AT_ONCE = 128


class BandTurns(NamedTuple):
    """Tiles of b of one side stay while those of the other pass, of which t are there over every turn between tiles.

    Positions that pass are numbered so that what they meet moves on. Sums of the last s have places of their own. Those
    of the others are there at one turn alone, while the sums of no tile are: a group of at most h, at the turn before
    the last tile that its first one meets. With it are all for which that is the last, and as many more as leave no
    more groups than need be. Before the first tile there are only those for which that is the last, any number of
    groups one after the other; all but t of these come again. A group meets the tiles on both sides of the turn, and
    all others that it needs come again, ``again`` words each of those that stay. Where all begin with the first that
    stays, the first group, and one at the next turn, may travel instead: it has been in hand at every second turn
    before, ``per_sum`` words out and as many in each time; also before the first tile, if that is less. For each tile
    after the first what passes comes again, ``loads`` words, but for t; the first time that one leaves it stores
    ``once``. It holds b*per_row + t*per_slot + s*per_sum + ``beside`` words, and the larger of b*own_sum and per_sum:
    in that room h sums are in hand.
    ``across``, keys stay and rows pass; otherwise both are numbered from the last one on.
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


class Steps(NamedTuple):
    """Number c of those that pass meets p - left to p + right of those that stay, as far as there are any; p is c/each.

    Under a causal mask all begin with the first that stays: left is then as many as there are.
    """

    come: Counts
    stay: Counts
    left: Counts
    right: Counts
    each: Counts = 1


class Sizes(NamedTuple):
    """How many stay at a time, how many are there over a turn, and sums with places of their own."""

    tile: Counts
    slots: Counts
    sums: Counts


def seen(band: Band, group: Counts, *, across: bool) -> Steps:
    """A band as rows of all heads see it that pass keys, ``across``, or as keys do that pass positions."""
    if across:
        return Steps(group * band.rows, band.keys, band.left - band.shift, band.right + band.shift, group)
    moved = band.rows - band.keys + band.shift
    return Steps(band.keys, band.rows, band.left - moved, band.right + moved, 0 * group + 1)


def take_turns(band: Band) -> Counts:
    """Whether both sides begin and end together, and none that passes meets all that stay before others come."""
    turns: Counts = True
    for across in (True, False):
        (come, stay, left, right, _) = seen(band, 1, across=across)
        turns = (
            turns & (left >= 0) & (right >= 0) & (come + right >= stay) & (come - 1 - left < stay) & (right + 1 < stay)
        )
    return turns


def begins_late(steps: Steps) -> Counts:
    """Whether some that pass do not begin with the first that stays, as under a window."""
    return steps.left * steps.each < steps.come


def cut(steps: Steps, sizes: Sizes) -> Sizes:
    """No more than there are."""
    return Sizes(smaller(sizes.tile, steps.stay), smaller(sizes.slots, steps.come), smaller(sizes.sums, steps.come))


def held_words(phase: BandTurns, steps: Steps, sizes: Sizes) -> Counts:
    """Words held at once."""
    tile, slots, sums = cut(steps, sizes)
    turn = larger(tile * phase.own_sum, phase.per_sum)
    return tile * phase.per_row + slots * phase.per_slot + sums * phase.per_sum + turn + phase.beside


def words_of_turns(phase: BandTurns, steps: Steps, sizes: Sizes) -> Counts:
    """Words of all that comes again; never if two groups have the same turn, or one is not there over its turn."""
    (come, stay, left, right, each), (tile, slots, sums) = steps, cut(steps, sizes)
    tiles, first = ceil_div(stay, tile), floor_div(right, tile)
    hand = larger(smaller(floor_div(tile * phase.own_sum, phase.per_sum), slots), 1)
    waiting = come - sums
    # before the first group's turn no row of a window ends, so that none would make room
    never, c = (first > 0) & begins_late(steps), 0 * come
    again, spared, loads, gone, met, odd = c, c, c, c, c, c
    for turn in range(int(np.max(tiles))):
        ends = floor_div(smaller(stay, floor_div(c, each) + right + 1) - 1, tile)
        alive, begun = _alive(steps, turn * tile, come), smaller((turn * tile + left) * each, come) if turn else c * 0
        now = (turn < tiles) & (c < waiting) & (ends == turn)
        end = where(turn + 1 < tiles, _alive(steps, (turn + 1) * tile, waiting), waiting)
        rest = waiting - c
        fewest = larger(end - c, rest - hand * (ceil_div(rest, hand) - 1)) if turn else end - c
        most = smaller(hand, fewest) if turn else fewest
        after = c + where(now, smaller(most, larger(((turn + 1) * tile + left) * each - c, 0)), 0)
        never = never | ((c < waiting) & (ends < turn))
        if turn:
            never = never | (now & (after > alive + slots))
        else:
            loads = gone = larger(after - slots, 0)
        again = again + where(now, _others(steps, tile, turn, (c, after)), 0)
        if turn > 1:
            spared = spared + where(now, _spared(phase, steps, (tile, slots), turn, (c, after)), 0)
        if turn:
            kept = smaller(begun - alive, slots - larger(where(now, after - begun, 0), 0))
            away = where(turn < tiles, begun - alive - kept, 0)
            loads = loads + away
            gone = gone + where(turn < tiles, larger(begun - larger(alive + kept, met), 0), 0)
            met = begun
            odd = larger(odd, where((turn < first) & ((first - turn) % 2 == 1) & (away > 0), 1, 0))
        c = after
    words = phase.again * again - spared + phase.loads * loads + phase.once * (gone + odd)
    return where(never | (c < waiting), NEVER, words)


def _alive(steps: Steps, stays: Counts, most: Counts) -> Counts:
    """The first of those that pass, of not more than so many, that needs more than so many of those that stay."""
    return larger(smaller((stays - steps.right) * steps.each, most), 0)


def _others(steps: Steps, tile: Counts, turn: int, group: tuple[Counts, Counts]) -> Counts:
    """How many come again for a group: those of all tiles that it meets but for two, one if it meets none before."""
    (_, stay, left, right, each), (first, end) = steps, group
    begin = floor_div(larger(floor_div(first, each) - left, 0), tile)
    last = floor_div(smaller(stay, floor_div(end - 1, each) + right + 1) - 1, tile)
    there = smaller(stay, (turn + 1) * tile) - turn * tile + where(begin < turn, tile, 0)
    return smaller(stay, (last + 1) * tile) - begin * tile - there


def _spared(
    phase: BandTurns, steps: Steps, sizes: tuple[Counts, Counts], turn: int, group: tuple[Counts, Counts]
) -> Counts:
    """Words that a group spares if it travels from every second turn before to this one: none if it may not."""
    (come, _, left, right, each), (tile, slots), (first, end) = steps, sizes, group
    late = turn - floor_div(right, tile)
    # it is there over the turns before, at which those that are there differ by one
    there = (late <= 1) & ((end <= slots + late) | (slots >= come)) & ((left + 1) * each >= come)
    again, travel = tile * phase.again, 2 * phase.per_sum * (end - first)
    pairs, alone = larger(2 * again - travel, 0), larger(again - travel, 0)
    return where(there, ((turn - 1) // 2) * pairs + (alone if turn % 2 == 0 else 0), 0)


def best_band_turns(phase: BandTurns, steps: Steps, fast_words: int, limit: float) -> tuple[int, Sizes]:
    """The fewest words and the sizes that move them; beyond the limit any, or tiles of none."""
    one = Steps(*(np.array([each]) for each in steps)), np.array([fast_words]), np.array([limit])
    words, sizes = best_of_many(phase, *one)
    return int(words[0]), Sizes(*(int(each[0]) for each in sizes))


def best_of_many(
    phase: BandTurns, steps: Steps, fast_words: Ints, limit: NDArray[np.float64] | Ints
) -> tuple[Ints, Sizes]:
    """The same for many cases, of few that stay and pass; 2^60 words where nothing fits; beyond the limit, any.

    Every tile and every number of slots is tried, with as many sums of their own as there is room for.
    """
    steps = Steps(*np.broadcast_arrays(*steps))
    words, *sizes = np.zeros((4, len(fast_words)), dtype=np.int64)
    for begin in range(0, len(fast_words), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        words[some], best = _best_of_some(*_of_some((phase, steps), some), fast_words[some], limit[some])
        for size, each in zip(sizes, best, strict=True):
            size[some] = each
    return words, Sizes(*sizes)


def _best_of_some(
    phase: BandTurns, steps: Steps, fast_words: Ints, limit: NDArray[np.float64] | Ints
) -> tuple[Ints, Sizes]:
    """Large tiles first, which often leave no more than they move to small ones."""
    case = np.arange(len(fast_words), dtype=np.int64)
    best, found = np.full(len(case), NEVER, dtype=np.int64), np.zeros((3, len(case)), dtype=np.int64)
    for tiles in (range(_MANY_TURNS + 1, MOST + 1), range(1, _MANY_TURNS + 1)):
        tile, slots = (each.reshape(-1, 1) for each in np.meshgrid(tiles, range(1, MOST + 1), indexing="ij"))
        sizes = Sizes(tile, slots, 0)
        sums = smaller(floor_div(fast_words - held_words(phase, steps, sizes), phase.per_sum), steps.come)
        fits = (tile <= steps.stay) & (slots <= steps.come) & (sums >= 0)
        index = np.nonzero(fits & (_fewest_words(phase, steps, sizes) <= np.minimum(best, limit)))
        if not index[0].size:
            continue
        words = np.full(sums.shape, NEVER, dtype=np.int64)
        tried = Sizes(tile[index[0], 0], slots[index[0], 0], sums[index])
        words[index] = words_of_turns(*_of_some((phase, steps), index[1]), tried)
        which = np.argmin(words, axis=0)
        less = words[which, case] < best
        best = np.where(less, words[which, case], best)
        found = np.where(less, np.stack([tile[which, 0], slots[which, 0], sums[which, case]]), found)
    return best, Sizes(*found)


def are_few(steps: Steps) -> Counts:
    """Whether so few stay and pass that all sizes are searched."""
    return (steps.come <= MOST) & (steps.stay <= MOST)


def _of_some(values: tuple[BandTurns, Steps], index: NDArray[np.intp] | slice) -> tuple[BandTurns, Steps]:
    """The same for some of the cases."""
    phase, steps = (
        [each[index] if isinstance(each, np.ndarray) and each.ndim else each for each in value] for value in values
    )
    return BandTurns._make(phase), Steps._make(steps)


def smallest_sizes(phase: BandTurns, steps: Steps) -> Sizes:
    """Those that hold the fewest words; with a place for every sum where not all sizes are searched."""
    come, stay, right = int(steps.come), int(steps.stay), int(steps.right)
    if max(come, stay) > MOST:
        return Sizes(right + 1, 1, come)
    shapes = ((tile, slots) for tile in range(1, stay + 1) for slots in range(1, come + 1))
    turning = (_fewest_sums(phase, steps, Sizes(*shape, 0)) for shape in shapes)
    return min((sizes for sizes in turning if sizes), key=lambda sizes: int(held_words(phase, steps, sizes)))


def _fewest_sums(phase: BandTurns, steps: Steps, sizes: Sizes) -> Sizes | None:
    every = (sizes._replace(sums=sums) for sums in range(int(steps.come) + 1))
    return next((some for some in every if words_of_turns(phase, steps, some) < NEVER), None)


def _fewest_words(phase: BandTurns, steps: Steps, sizes: Sizes) -> Counts:
    """Words that these tiles and slots do not go below, with places for all sums."""
    (come, stay, _, right, each), tile, slots = steps, sizes.tile, sizes.slots
    tiles = ceil_div(stay, tile)
    # j tiles before the end all but those pass that end before them
    more = come - slots + (right - tiles * tile) * each
    again = sum_clipped(1, tiles - 1, tile * each, more, larger(come - slots, 0))
    # under a window neighbours may find all that they need
    return where(begins_late(steps), 0, phase.loads * again)


def turns_floor(phase: BandTurns, steps: Steps, fast_words: Counts) -> Counts:
    """Words that no sizes go below, quickly; infinite if nothing fits, or too many stay or pass."""
    room = fast_words - phase.beside - phase.per_row - larger(phase.own_sum, phase.per_sum)
    slots = floor_div(room, phase.per_slot)
    more = phase.per_row + where(phase.own_sum < phase.per_sum, 0, phase.own_sum)
    tile = smaller(1 + floor_div(larger(room - phase.per_slot, 0), more), steps.stay)
    words = _fewest_words(phase, steps, Sizes(tile, slots, 0))
    return np.where((slots >= 1) & are_few(steps), words, inf)
