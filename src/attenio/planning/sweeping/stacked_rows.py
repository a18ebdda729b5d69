"""The search of ``words.stacked_rows`` for many cases at once, by the same floors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.sweeping.cases import Cases, Ints, take
from attenio.planning.words import turning_tiles as turning
from attenio.planning.words.exchanged_keys import ExchangedKeys, best_exchanged_keys, held_at_turns, may_turn
from attenio.planning.words.last_columns import LastColumns, best_last_columns, held_by_last
from attenio.planning.words.left_over import LeftOver, best_left_over, held_words
from attenio.planning.words.stacked_rows import StackedRows, TilesAndSlots
from attenio.planning.words.staying_sums import StayingSums, tiles_and_slots
from attenio.planning.words.taking_turns import NEVER, TakingTurns, best_of_many, shape_of
from attenio.planning.words.taking_turns import held_words as held_by_turns
from attenio.planning.words.turn_rooms import FEW
from attenio.planning.words.turning_tiles import TurningTiles

Floats = NDArray[np.float64]


def stacked_of(cases: Cases, phase: StackedRows | StayingSums) -> TilesAndSlots[Any]:
    """Phases, rows of all heads and keys of the cases, each with as many numbers as there are cases."""
    sizes = {name: size for name, size in phase._asdict().items() if not isinstance(size, str | bool)}
    every = phase._replace(**{name: size + 0 * cases.rows for name, size in sizes.items()})
    return tiles_and_slots(every, (cases.group, cases.rows, cases.keys), cases.fast_words)


def stacked_floors(
    cases: Cases, phase: StackedRows | LastColumns | StayingSums | TakingTurns | LeftOver | ExchangedKeys | TurningTiles
) -> Floats:
    """Words that no tiles go below, of dense cases; infinite where none fit."""
    match phase:
        case LeftOver():
            words, _, tiles = best_of_left_over(cases, phase)
            return np.where((tiles[phase.rows] >= 1) & (tiles[phase.keys] >= 1), words, np.inf)
        case LastColumns():
            words, _, tiles = best_of_last_columns(cases, phase)
            return np.where(tiles[phase.slots] >= 1, words, np.inf)
        case ExchangedKeys():
            return _floor_at_turns(cases, phase)
        case TurningTiles():
            return _turning_floors(cases, phase)
        case TakingTurns():
            words, _, _ = best_of_turns(cases, phase)
            return np.where(words < NEVER, words, np.inf)
        case _:
            stacked = stacked_of(cases, phase)
            return np.where(stacked.most >= 1, stacked.floor(), np.inf)


def _floor_at_turns(cases: Cases, phase: ExchangedKeys) -> Floats:
    floors = np.full(len(cases), np.inf)
    index = np.flatnonzero(may_turn(phase, (cases.group * cases.rows, cases.keys), cases.fast_words))
    if index.size:
        words, _, tiles = best_of_exchanged(take(cases, index), take(phase, index))
        floors[index] = np.where((tiles[phase.tile] >= 1) & (tiles[phase.slots] >= 1), words, np.inf)
    return floors


def best_of_stacked(cases: Cases, phase: StackedRows | StayingSums, limit: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Fewest words, those held, and tiles, in cases in which some fit; beyond ``limit``, any."""
    words, tile, slots = best_tiles_of_stacked(stacked_of(cases, phase), limit)
    held = tile * phase.per_row + slots * phase.per_slot + phase.beside
    return words, held, {phase.tile: tile, phase.slots: slots}


def best_of_left_over(cases: Cases, phase: LeftOver) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Fewest words, those held, and tiles, in cases in which some fit."""
    shape = np.asarray(cases.group * cases.rows), np.asarray(cases.keys)
    words, sizes = best_left_over(phase, shape, cases.fast_words)
    tiles = dict(zip(phase[:4], (np.asarray(each) for each in sizes), strict=True))
    return np.asarray(words), np.asarray(held_words(phase, shape, sizes)), tiles


def best_of_last_columns(cases: Cases, phase: LastColumns) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Fewest words, those held, and tiles; no slots where none fit."""
    shape = np.asarray(cases.group * cases.rows), np.asarray(cases.keys)
    words, tile, slots = (np.asarray(each) for each in best_last_columns(phase, shape, cases.fast_words))
    return words, np.asarray(held_by_last(phase, shape, tile, slots)), {phase.tile: tile, phase.slots: slots}


def best_of_exchanged(cases: Cases, phase: ExchangedKeys) -> tuple[Ints, Ints, dict[str, Ints]]:
    """The same of keys whose values give way to outputs."""
    shape = np.asarray(cases.group * cases.rows), np.asarray(cases.keys)
    moved, tile, slots = (np.asarray(each) for each in best_exchanged_keys(phase, shape, cases.fast_words))
    held = np.asarray(held_at_turns(phase, shape, np.maximum(tile, 1), slots))
    return moved, held, {phase.tile: tile, phase.slots: slots}


def best_of_turns(cases: Cases, phase: TakingTurns) -> tuple[Ints, Ints, dict[str, Ints]]:
    """The same of sums that take turns."""
    shape = shape_of(phase, cases.group, np.asarray(cases.rows), np.asarray(cases.keys))
    words, sizes = best_of_many(phase, shape, cases.fast_words)
    tiles = dict(zip(phase[:3], (np.asarray(each) for each in sizes), strict=True))
    return np.asarray(words), np.asarray(held_by_turns(phase, shape, sizes)), tiles


def best_of_turning(cases: Cases, phase: TurningTiles) -> tuple[Ints, Ints, dict[str, Ints]]:
    """The same of positions that stay at turns."""
    shape = np.asarray(cases.rows), np.asarray(cases.keys)
    words, sizes = best_of_many_turning(phase, shape, cases.fast_words)
    tiles = dict(zip(phase[:3], (np.asarray(each) for each in sizes), strict=True))
    held = np.asarray(turning.held_words(phase, shape, sizes._replace(tile=np.maximum(sizes.tile, 1))))
    return words, held, tiles


def _turning_floors(cases: Cases, phase: TurningTiles) -> Floats:
    """Words that no tiles go below: of as few as fit, or of more."""
    shape = np.asarray(cases.rows), np.asarray(cases.keys)
    most, several = np.asarray(turning.most_keys(phase, shape, cases.fast_words)), np.minimum(*shape) >= 2
    floors = np.full(len(cases), np.inf)
    for tiles in range(2, turning.MOST_TILES + 1):
        fits = several & (ceil_div(shape[1], tiles) <= most)
        found = turning.floor_of(phase, shape, cases.fast_words, tiles)
        floors = np.where(fits, np.minimum(floors, found), floors)
    return floors


def best_of_many_turning(
    phase: TurningTiles, shape: tuple[Ints, Ints], fast_words: Counts
) -> tuple[Ints, turning.Sizes]:
    """As ``best_turning_tiles`` for every case: those of few positions and those of many by themselves."""
    (rows, keys), most = shape, np.asarray(turning.most_keys(phase, shape, fast_words))
    words = NEVER + 0 * rows
    sizes = turning.Sizes(0 * words, 0 * words, 0 * words)
    may = (rows >= 2) & (most >= 1) & (keys <= turning.MOST_TILES * most)
    for few in (True, False):
        index = np.flatnonzero(may & ((rows <= FEW) == few))
        if index.size:
            least, best = turning.best_of_few_tiles(*take((phase, shape, fast_words), index))
            for every, some in zip((words, *sizes), (least, *best), strict=True):
                every[index] = some
    return words, sizes


def best_tiles_of_stacked(words: TilesAndSlots[Any], limit: Ints) -> tuple[Ints, Ints, Ints]:
    """Fewest words, the tile that has them, and slots, in cases in which some fit; beyond ``limit``, any."""
    low, high = np.asarray(words.fewest), np.asarray(words.end)
    best, counts = np.asarray(words.words(low)), low.copy()
    _take_better(words, np.flatnonzero(high > low), np.minimum(high, words.rows), best, counts)
    high = np.minimum(high, words.rows + 1) - 1
    left = np.flatnonzero(low < high)
    while left.size:
        low[left] += 1
        some = take(words, left)
        left = left[some.least(low[left]) <= np.minimum(best, limit)[left]]
        _take_better(words, left, low, best, counts)
        left = left[low[left] < high[left]]
    left = np.flatnonzero(low < high)
    while left.size:
        some = take(words, left)
        left = left[some.least(high[left]) <= np.minimum(best, limit)[left]]
        _take_better(words, left, high, best, counts)
        high[left] -= 1
        left = left[low[left] < high[left]]
    return best, np.asarray(ceil_div(words.rows, counts)), np.asarray(words.slots(counts))


def _take_better(words: TilesAndSlots[Any], index: Ints, tried: Ints, best: Ints, counts: Ints) -> None:
    """Replace words and numbers of tiles of some cases where others move less, or as few in fewer tiles."""
    if not index.size:
        return
    moved, many = np.asarray(take(words, index).words(tried[index])), tried[index]
    better = (moved < best[index]) | ((moved == best[index]) & (many < counts[index]))
    chosen = index[better]
    best[chosen], counts[chosen] = moved[better], many[better]
