"""Tiles of queries and the keys that each needs: runs of equal tiles, or of tiles that need more and more."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attenio.accelerator.program import GrowingStep, Node, Ramp, Repeat, Step, repeat
from attenio.errors import InvalidInput
from attenio.patterns import Band, Pattern
from attenio.planning.problems import Problems

__all__ = ["TileRun", "every_head", "query_tiles", "tiles_of_run"]

# Tiles that a program may list one by one; past it a mask needs tiles that grow evenly.
_MOST_DIFFERENT = 2**14
# Rounds of a ramp below which its tiles are listed, and rounds at its end that may be shaped otherwise.
_FEW_ROUNDS = 4


@dataclass(frozen=True, kw_only=True)
class TileRun:
    """Tiles of equally many rows, the first of which needs ``keys``, and each other one ``growth`` more."""

    count: int
    rows: int
    keys: int
    growth: int = 0

    def keys_at(self, number: int) -> int:
        """The keys that a tile of the run needs."""
        return self.keys + number * self.growth

    def part(self, start: int, stop: int) -> "TileRun":
        """The run from one of its tiles to another."""
        return TileRun(count=stop - start, rows=self.rows, keys=self.keys_at(start), growth=self.growth)

    def split_at_keys(self, keys: int) -> "tuple[TileRun, ...]":
        """The tiles that need at most so many keys and those that need more, in their order."""
        if self.growth == 0:
            return (self,)
        distance = keys - self.keys
        # the first tile on the other side of the bound
        first = distance // self.growth + 1 if self.growth > 0 else -(distance // -self.growth)
        first = min(max(first, 0), self.count)
        return tuple(part for part in (self.part(0, first), self.part(first, self.count)) if part.count)


def query_tiles(pattern: Pattern, query_tile: int) -> Iterator[TileRun]:
    """The tiles of a pattern, run by run; a run needs keys in all of its tiles or in none."""
    whole, rest = divmod(pattern.rows, query_tile)
    runs = _band_runs(pattern, query_tile, whole) if isinstance(pattern, Band) else _runs(pattern, query_tile, whole)
    for run in runs:
        yield from run.split_at_keys(0)
    if rest:
        start = pattern.rows - rest
        yield TileRun(count=1, rows=rest, keys=int(pattern.widths(start, pattern.rows)))


def _band_runs(band: Band, query_tile: int, whole: int) -> Iterator[TileRun]:
    """The ends of a tile's keys move with it, except where they are cut off at the first or the last key."""
    ends = (band.shift - band.left, band.shift + band.right + query_tile)
    turns = {(cut - end) // query_tile + more for end in ends for cut in (0, band.keys) for more in (0, 1)}
    edges = [0, *sorted(turn for turn in turns if 0 < turn < whole), whole]
    for start, stop in pairwise(edges):
        if stop > start:
            keys, after = (int(band.widths(tile * query_tile, (tile + 1) * query_tile)) for tile in (start, start + 1))
            growth = after - keys if stop > start + 1 else 0
            yield TileRun(count=stop - start, rows=query_tile, keys=keys, growth=growth)


def _runs(pattern: Pattern, query_tile: int, whole: int) -> Iterator[TileRun]:
    """Tiles whose keys are known only one by one."""
    if whole > _MOST_DIFFERENT:
        raise _too_many(whole)
    starts = np.arange(0, whole * query_tile, query_tile, dtype=np.int64)
    keys = np.asarray(pattern.widths(starts, starts + query_tile), dtype=np.int64).reshape(-1)
    edges = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), whole]
    for start, stop in pairwise(edges):
        if stop > start:
            yield TileRun(count=stop - start, rows=query_tile, keys=int(keys[start]))


def tiles_of_run(run: TileRun, period: int, tile: Callable[[int], tuple[Node, ...]]) -> tuple[Node, ...]:
    """The nodes of all tiles of a run, given those of a tile by its keys.

    The nodes of tiles ``period`` apart must differ by how often loops run and how many elements steps take, in equal
    amounts from tile to tile. The first few, and the last of a run that shrinks, may have loops too short to be loops.
    """
    if run.growth == 0:
        return repeat(run.count, *tile(run.keys))

    def tiles(start: int, stop: int) -> list[Node]:
        return [node for number in range(start, stop) for node in tile(run.keys_at(number))]

    found: list[Node] = []
    at = 0
    while run.count - at >= _FEW_ROUNDS * period:
        bodies = (tuple(tiles(start, start + period)) for start in range(at, run.count - period + 1, period))
        first, second = next(bodies), next(bodies)
        grown = _between(first, second)
        for times in range((run.count - at) // period, _FEW_ROUNDS - 1, -1)[:_FEW_ROUNDS]:
            last = at + (times - 1) * period
            ramp = None if grown is None else _ramp(times, grown, tuple(tiles(last, last + period)))
            if ramp is not None:
                stop = at + times * period
                return (*found, ramp, *tiles(stop, run.count))
        found += first
        at += period
        if at > _MOST_DIFFERENT:
            raise _too_many(run.count)
    if run.count - at > _MOST_DIFFERENT:
        raise _too_many(run.count)
    return (*found, *tiles(at, run.count))


def _ramp(times: int, body: tuple[Node, ...], last: tuple[Node, ...]) -> Ramp | None:
    """The ramp, if its last round is what it should be."""
    try:
        ramp = Ramp(times=times, body=body)
    except InvalidInput:  # a loop of it would shrink below zero
        return None
    return ramp if ramp.at(times - 1) == last else None


def _between(first: tuple[Node, ...], second: tuple[Node, ...]) -> tuple[Node, ...] | None:
    """The body of a ramp whose first two rounds are these, if there is one."""
    if len(first) != len(second):
        return None
    found: list[Node] = []
    for one, other in zip(first, second, strict=True):
        node: Node | None = None
        if one is other or one == other:
            node = one
        elif isinstance(one, Step) and isinstance(other, Step):
            node = GrowingStep.between(one, other)
        elif isinstance(one, Repeat) and isinstance(other, Repeat):
            body = _between(one.body, other.body)
            node = None if body is None else Repeat(count=one.count, growth=other.count - one.count, body=body)
        if node is None:
            return None
        found.append(node)
    return tuple(found)


def _too_many(tiles: int) -> InvalidInput:
    return InvalidInput(
        f"{tiles:,} tiles of queries under this mask are more than the {_MOST_DIFFERENT:,} that a program may list;"
        " use a smaller n, a larger cache or a dense mask"
    )


def every_head(problems: Problems, head: Callable[[Pattern], tuple[Node, ...]], *, heads: int) -> tuple[Node, ...]:
    """The program of one head on one pattern, for every pattern, ``heads`` times a run."""
    body = tuple(node for pattern, times in problems.patterns for node in repeat(times, *head(pattern)))
    return repeat(heads * problems.runs, *body)
