"""Words over every boundary of a nested run, without running it.

Key loads at a level do not depend on how the levels above cut their keys into runs, because the runs of a row tile
share out exactly the keys it needs. So only row tiles are enumerated, and never those of the innermost level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.patterns import Band, Pattern
from attenio.planning.nested_plan import LevelTiles
from attenio.workload import Workload

__all__ = ["nested_moved_words", "nested_peak_words"]

Numbers = NDArray[np.int64]


@dataclass
class _Tally:
    """Rows and keys that cross one boundary for one query head: what a run adds up, level by level."""

    queries: int = 0
    states: int = 0
    outputs: int = 0
    keys: int = 0

    def visit(self, rows: int, first: int, last: int) -> None:
        """``rows`` rows come and go; for ``first`` of them there is no state to load, and ``last`` leave finished."""
        self.queries += rows
        self.states += 2 * rows - first - last
        self.outputs += last


def nested_moved_words(workload: Workload, head_tile: int, tiles: Sequence[LevelTiles]) -> tuple[int, ...]:
    """Words over each boundary, innermost first, for the whole workload."""
    group, d, value_dim = workload.group, workload.d, workload.value_dim
    state = (value_dim + 2) * workload.accumulator_words
    totals = [0] * len(tiles)
    for pattern, count in workload.stacked_patterns:
        tallies = [_Tally() for _ in tiles]
        clipped = _clipped(pattern, tiles)
        if isinstance(pattern, Band):
            _walk_band(pattern, clipped, tallies)
        else:
            everything = np.arange(pattern.keys, dtype=np.intp)
            _walk(pattern, clipped, tallies, (0, pattern.rows, everything, True, True))
        for level, tally in enumerate(tallies):
            rows = tally.queries * d + tally.states * state + tally.outputs * value_dim
            keys = -(-group // head_tile) * tally.keys * (d + value_dim)
            totals[level] += count * workload.kv_heads * (group * rows + keys)
    return tuple(totals)


def nested_peak_words(workload: Workload, head_tile: int, tiles: Sequence[LevelTiles]) -> tuple[int, ...]:
    """Words held at each level, innermost first: the most over all problems."""
    words, heads = workload.accumulator_words, min(head_tile, workload.group)
    row_words = workload.d + (workload.value_dim + 3) * words
    peaks = [0] * len(tiles)
    for pattern, _ in workload.stacked_patterns:
        for level, tile in enumerate(_clipped(pattern, tiles)):
            rows, keys = heads * tile.query_tile, tile.key_tile
            scores = rows * keys * words if level == 0 else 0
            peaks[level] = max(peaks[level], rows * row_words + keys * (workload.d + workload.value_dim) + scores)
    return tuple(peaks)


def _clipped(pattern: Pattern, tiles: Sequence[LevelTiles]) -> list[LevelTiles]:
    """The tiles as a problem uses them: never larger than the problem, nor than the tile of the level above."""
    rows, keys, clipped = pattern.rows, pattern.keys, []
    for tile in reversed(tiles):
        rows, keys = min(rows, tile.query_tile), min(keys, tile.key_tile)
        clipped.append(LevelTiles(query_tile=rows, key_tile=keys))
    return clipped[::-1]


@dataclass(frozen=True, kw_only=True)
class _RowTiles:
    """Row tiles of one level: rows from ``top`` to ``bottom`` needing the keys from ``start`` to ``end``."""

    top: Numbers
    bottom: Numbers
    start: Numbers
    end: Numbers
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]

    def only(self, chosen: NDArray[np.bool_]) -> "_RowTiles":
        """Some of the tiles."""
        names = ("top", "bottom", "start", "end", "first", "last")
        return _RowTiles(**{name: getattr(self, name)[chosen] for name in names})

    def runs(self, key_tile: int) -> Numbers:
        """Runs of keys that each tile works through: at least one, if only to finish its rows."""
        return np.asarray(np.maximum(-(-(self.end - self.start) // key_tile), 1))


def _walk_band(band: Band, tiles: Sequence[LevelTiles], tallies: list[_Tally]) -> None:
    zero, yes = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
    whole = _RowTiles(top=zero, bottom=zero + band.rows, start=zero, end=zero + band.keys, first=yes, last=yes)
    level = len(tiles) - 1
    current = _cut_rows(band, whole, tiles[level].query_tile)
    heights = current.bottom - current.top
    live = current.end > current.start
    for tally in tallies:
        tally.outputs += int(heights[~live].sum())
    current, heights = current.only(live), heights[live]
    tallies[level].visit(*[int(heights.sum())] * 3)
    tallies[level].keys += int((current.end - current.start).sum())
    while level > 0:
        runs, heights = current.runs(tiles[level].key_tile), current.bottom - current.top
        level -= 1
        visits = int((heights * runs).sum())
        tallies[level].visit(visits, int(heights[current.first].sum()), int(heights[current.last].sum()))
        if level == 0:
            parts = band.part(current.top, current.bottom, current.start, current.end)
            tallies[0].keys += int(np.sum(parts.key_loads(tiles[0].query_tile)))
            return
        rectangles = _cut_keys(current, runs, tiles[level + 1].key_tile)
        current = _cut_rows(band, rectangles, tiles[level].query_tile)
        tallies[level].keys += int((current.end - current.start).sum())


def _cut_keys(rows: _RowTiles, runs: Numbers, key_tile: int) -> _RowTiles:
    """One entry per row tile and run of its keys."""
    owner = np.repeat(np.arange(len(runs)), runs)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(runs) - runs, runs)
    start = rows.start[owner] + number * key_tile
    return _RowTiles(
        top=rows.top[owner],
        bottom=rows.bottom[owner],
        start=start,
        end=np.minimum(start + key_tile, rows.end[owner]),
        first=rows.first[owner] & (number == 0),
        last=rows.last[owner] & (number == runs[owner] - 1),
    )


def _cut_rows(band: Band, rectangles: _RowTiles, query_tile: int) -> _RowTiles:
    """The row tiles of rectangles, each with the keys of its rectangle that it needs."""
    counts = -(-(rectangles.bottom - rectangles.top) // query_tile)
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    top = rectangles.top[owner] + number * query_tile
    bottom = np.minimum(top + query_tile, rectangles.bottom[owner])
    start = np.maximum(band.first_key(top), rectangles.start[owner])
    end = np.minimum(band.end_key(bottom - 1), rectangles.end[owner])
    return _RowTiles(
        top=top,
        bottom=bottom,
        start=start,
        end=np.maximum(end, start),
        first=rectangles.first[owner],
        last=rectangles.last[owner],
    )


Rectangle = tuple[int, int, NDArray[np.intp], bool, bool]


def _walk(pattern: Pattern, tiles: Sequence[LevelTiles], tallies: list[_Tally], area: Rectangle) -> None:
    """The same for any pattern, tile by tile."""
    top, bottom, keys, first, last = area
    *inner, tile = tiles
    for start in range(top, bottom, tile.query_tile):
        stop = min(start + tile.query_tile, bottom)
        needed = np.intersect1d(pattern.needed_keys(start, stop), keys, assume_unique=True)
        rows = stop - start
        if len(tiles) == len(tallies) and len(needed) == 0:
            for tally in tallies:
                tally.outputs += rows
            continue
        tallies[len(inner)].visit(rows, rows * first, rows * last)
        tallies[len(inner)].keys += len(needed)
        if inner:
            cuts = range(0, max(len(needed), 1), tile.key_tile)
            for cut in cuts:
                run = needed[cut : cut + tile.key_tile]
                _walk(pattern, inner, tallies, (start, stop, run, first and cut == 0, last and cut == cuts[-1]))
