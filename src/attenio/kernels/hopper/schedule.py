"""Which program computes which row tile, in what order and direction: a list a program, made once for each shape.

Heads come in runs whose keys and values fit in L2 together; within a run the tiles with the most keys come first, and
each goes to the program that would be free first (list scheduling, by the number of key tiles). So every head is read
from memory while others of its run are computed, and programs finish together. Short heads come one by one where
programs finish as near together: the tiles of a head then begin at the same time, and read its keys together. The lists
are data: the kernel reads them, and they can be checked without a GPU.
"""

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.tiles import HopperTiles
from attenio.kernels.replay.standing_in import Awaited

# Numbers of an entry, as in the kernels.
ENTRY = 4
# What a row tile costs besides its key tiles (its queries, its output, an empty pipeline), in key tiles: 1.9 in the
# median of the tiles with masks in ``tile_times.json``.
OVERHEAD = 2.0
# Longer lists are dealt out in turns: with so many tiles a program the order hardly matters any more.
_MOST_SIMULATED = 2**17 - 1
# Cuts into runs that are tried: programs finish the nearer together the better the last run divides.
_MORE_RUNS = 4
# By how much later the last program may finish so that heads come one by one.
_ONE_BY_ONE = 1.05

Integers = NDArray[np.int64]


class Schedule(NamedTuple):
    """Program p computes ``entries[starts[p]:starts[p + 1]]``, rows of four numbers: batch x head, 2 tile + backwards,
    the stretch of key tiles that the entry begins with, and how many programs walk it together."""

    starts: NDArray[np.int32]
    entries: NDArray[np.int32]
    stretches: int = 0

    @property
    def programs(self) -> int:
        """How many programs have something to do."""
        return len(self.starts) - 1


class LaunchPlan(NamedTuple):
    """The lists on a device, and what a launch with them takes besides the tensors."""

    starts: Tensor
    entries: Tensor
    programs: int
    # Key tiles of a stretch and all stretches at which programs wait for each other, 0 where they do not.
    pace: int
    stretches: int
    tiles: HopperTiles
    # Columns of keys and of values that are computed with.
    columns: tuple[int, int]
    band: Band
    # Heads whose keys and values are in L2 together.
    together: int = 1
    # The plan that this one stands in for, and what is compiled for it.
    awaited: Awaited | None = None


def key_tiles(queries: int, keys: int, band: Band, *, row_tile: int, key_tile: int, missing: int = 0) -> Integers:
    """How many key tiles each row tile may see, at least one: it is written even if it sees nothing.

    The first begins with so many ``missing`` rows.
    """
    row = np.arange(-missing, queries, row_tile, dtype=np.int64)
    last = np.minimum(row + row_tile, queries) - 1
    first, stop = np.maximum(row + band.below, 0), np.minimum(last + band.above + 1, keys)
    tiles: Integers = np.maximum(-(-stop // key_tile) - first // key_tile, 1)
    return tiles


def schedule(
    lengths: Integers, batch_heads: int, *, programs: int, heads_at_once: int, one_by_one: bool = False
) -> Schedule:
    """The lists of every program for ``batch_heads`` whose row tiles see ``lengths`` key tiles each.

    With ``one_by_one`` a run is one head, if programs finish about as near together.
    """
    programs = max(1, min(programs, batch_heads * len(lengths)))
    at_once = max(1, min(batch_heads, heads_at_once))
    tile, batch_head, program = _dealt(lengths, batch_heads, programs, at_once, one_by_one=one_by_one)
    by_program = np.argsort(program, kind="stable")
    starts = _starts(program, programs)
    place = np.arange(len(tile)) - np.repeat(starts[:-1], np.diff(starts))  # the index within its program
    entries = np.zeros((len(tile) + 1, ENTRY), dtype=np.int32)  # the kernel reads one entry ahead
    entries[:-1, 0], entries[:-1, 1] = batch_head[by_program], 2 * tile[by_program] + place % 2
    return Schedule(starts.astype(np.int32), entries)


def paced_schedule(tiles: int, length: int, batch_heads: int, *, programs: int, pace: int) -> Schedule:
    """Lists of programs that walk ``length`` key tiles together, for heads too large for L2.

    Row tiles are dealt out in rounds. ``pace`` key tiles are a stretch, and programs count themselves in at each.
    """
    programs, stretches = max(1, min(programs, batch_heads * tiles)), -(-length // pace)
    count = np.arange(batch_heads * tiles)
    turn, program = np.divmod(count, programs)
    others = np.minimum(programs, len(count) - turn * programs)
    order = np.argsort(program, kind="stable")
    entries = np.zeros((len(count) + 1, ENTRY), dtype=np.int32)
    columns = (count // tiles, 2 * (count % tiles) + turn % 2, turn * stretches, others)
    entries[:-1] = np.stack(columns, axis=1)[order]
    return Schedule(_starts(program, programs).astype(np.int32), entries, stretches * (int(turn[-1]) + 1))


def _starts(program: Integers, programs: int) -> Integers:
    return np.concatenate(([0], np.cumsum(np.bincount(program, minlength=programs))))


def _dealt(
    lengths: Integers, batch_heads: int, programs: int, at_once: int, *, one_by_one: bool
) -> tuple[Integers, Integers, Integers]:
    """Row tiles and batch x heads in the order in which they are begun, and the program of each."""
    if len(np.unique(lengths)) == 1:
        tile, batch_head = _order(lengths, batch_heads, batch_heads)
        return tile, batch_head, np.arange(len(tile)) % programs
    runs = -(-batch_heads // at_once)
    if batch_heads * len(lengths) > _MOST_SIMULATED:
        tile, batch_head = _order(lengths, batch_heads, runs)
        return tile, batch_head, _forth_and_back(len(tile), programs)
    tried = []
    counts = {min(batch_heads, runs + more) for more in range(_MORE_RUNS)}
    for count in counts | ({batch_heads} if one_by_one else set()):
        tile, batch_head = _order(lengths, batch_heads, count)
        program = _first_free(lengths[tile] + OVERHEAD, programs)
        last = float(np.bincount(program, weights=lengths[tile] + OVERHEAD).max())
        wins = one_by_one and count == batch_heads
        tried.append((last / _ONE_BY_ONE if wins else last, count, tile, batch_head, program))
    _, _, tile, batch_head, program = min(tried, key=lambda each: each[:2])
    return tile, batch_head, program


def _order(lengths: Integers, batch_heads: int, runs: int) -> tuple[Integers, Integers]:
    """Row tiles and batch x heads, run after run of heads, the longest tiles of a run first."""
    falling = np.argsort(-lengths, kind="stable")
    tiles, heads = [], []
    for run in np.array_split(np.arange(batch_heads), runs):
        tiles.append(np.repeat(falling, len(run)))
        heads.append(np.tile(run, len(falling)))
    return np.concatenate(tiles), np.concatenate(heads)


def _forth_and_back(count: int, programs: int) -> Integers:
    """Programs in turns: who had the longest of one round has the shortest of the next."""
    turn, place = np.divmod(np.arange(count), programs)
    return np.where(turn % 2 == 0, place, programs - 1 - place)


def _first_free(costs: NDArray[Any], programs: int) -> Integers:
    free = [(0.0, program) for program in range(programs)]
    programs_of = np.empty(len(costs), dtype=np.int64)
    for index, cost in enumerate(costs.tolist()):
        time, program = free[0]
        programs_of[index] = program
        heapq.heapreplace(free, (time + cost, program))
    return programs_of
