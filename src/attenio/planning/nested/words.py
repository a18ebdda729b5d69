"""Words over every boundary of a nested run, without running it.

Key loads at a level do not depend on how the levels above cut their keys into runs, because the runs of a row tile
share out exactly the keys it needs. So the innermost level is never enumerated, and further out rectangles that
differ only in where they lie are counted together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band, Pattern
from attenio.planning.nested.plan import LevelTiles
from attenio.workload import Workload

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
    totals = [workload.kv_heads * workload.held_words] * len(tiles)
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
            keys = -(-group // head_tile) * tally.keys * workload.key_words
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
            peaks[level] = max(peaks[level], rows * row_words + keys * workload.key_words + scores)
    return tuple(peak + workload.held_words for peak in peaks)


def _clipped(pattern: Pattern, tiles: Sequence[LevelTiles]) -> list[LevelTiles]:
    """The tiles as a problem uses them: never larger than the problem, nor than the tile of the level above."""
    rows, keys, clipped = pattern.rows, pattern.keys, []
    for tile in reversed(tiles):
        rows, keys = min(rows, tile.query_tile), min(keys, tile.key_tile)
        clipped.append(LevelTiles(query_tile=rows, key_tile=keys))
    return clipped[::-1]


@dataclass(frozen=True, kw_only=True)
class _Rectangles:
    """Rectangles of a band, alike ones together: row 0 stands ``shift`` keys past key 0, and ``times`` counts them."""

    band: Band
    rows: Numbers
    keys: Numbers
    shift: Numbers
    first: Numbers
    last: Numbers
    times: Numbers

    @classmethod
    def whole(cls, band: Band) -> "_Rectangles":
        """The band itself, once, visited for the first and the last time."""
        names = {"rows": band.rows, "keys": band.keys, "shift": band.shift, "first": 1, "last": 1, "times": 1}
        return cls(band=band, **{name: np.array([value], dtype=np.int64) for name, value in names.items()})

    def total(self, counts: Numbers) -> int:
        """The sum of counts over all rectangles, each as often as it occurs."""
        return int((self.times * counts).sum())

    def runs(self, key_tile: int) -> Numbers:
        """Runs of keys that each part works through: at least one, if only to finish its rows."""
        return np.asarray(np.maximum(-(-self.keys // key_tile), 1))

    def key_loads(self, query_tile: int) -> int:
        """Keys that tiles of rows of all rectangles need."""
        left, right = self.band.left, self.band.right
        bands = Band(rows=self.rows, keys=self.keys, left=left, right=right, shift=self.shift)
        return self.total(bands.key_loads(query_tile))

    def _merged(self) -> "_Rectangles":
        """Alike rectangles together; where every score is required the shift makes no difference."""
        free = self.band.left - self.rows + 1
        full = (self.shift <= free) & (self.shift + self.band.right + 1 >= self.keys)
        shift = np.where(full, free, self.shift)
        columns = np.stack([self.rows, self.keys, shift, self.first, self.last], axis=1)
        kinds, kind = np.unique(columns, axis=0, return_inverse=True)
        times = np.zeros(len(kinds), dtype=np.int64)
        np.add.at(times, kind.reshape(-1), self.times)
        rows, keys, shift, first, last = kinds.T
        return _Rectangles(band=self.band, rows=rows, keys=keys, shift=shift, first=first, last=last, times=times)

    def cut_rows(self, query_tile: int) -> "_Rectangles":
        """The row tiles of all rectangles, each with just the keys of its rectangle that it needs."""
        owner, number = _numbered(-(-self.rows // query_tile))
        top = number * query_tile
        bottom = np.minimum(top + query_tile, self.rows[owner])
        limit, shift = self.keys[owner], self.shift[owner]
        start = np.clip(top + shift - self.band.left, 0, limit)
        end = np.clip(bottom + shift + self.band.right, start, limit)
        return _Rectangles(
            band=self.band,
            rows=bottom - top,
            keys=end - start,
            shift=shift + top - start,
            first=self.first[owner],
            last=self.last[owner],
            times=self.times[owner],
        )._merged()

    def cut_keys(self, key_tile: int) -> "_Rectangles":
        """The runs of keys of all rectangles; those in the middle that require every score are listed together."""
        runs = self.runs(key_tile)
        least = np.maximum(-(-(self.rows - 1 + self.shift - self.band.left) // key_tile), 1)
        most = np.minimum((self.shift + self.band.right + 1 - key_tile) // key_tile, runs - 2)
        alike = np.maximum(most - least + 1, 0)
        owner, number = _numbered(runs - alike)
        number = np.where(number < least[owner], number, number + alike[owner])
        listed = {
            "rows": self.rows[owner],
            "keys": np.minimum(key_tile, self.keys[owner] - number * key_tile),
            "shift": self.shift[owner] - number * key_tile,
            "first": self.first[owner] * (number == 0),
            "last": self.last[owner] * (number == runs[owner] - 1),
            "times": self.times[owner],
        }
        some = np.flatnonzero(alike)
        none = np.zeros(len(some), dtype=np.int64)
        middle = {
            "rows": self.rows[some],
            "keys": none + key_tile,
            "shift": self.shift[some] - least[some] * key_tile,
            "first": none,
            "last": none,
            "times": self.times[some] * alike[some],
        }
        both = {name: np.concatenate([listed[name], middle[name]]) for name in listed}
        return _Rectangles(band=self.band, **both)._merged()


def _numbered(counts: Numbers) -> tuple[Numbers, Numbers]:
    """For ``counts[k]`` pieces of every k: the k of each piece, and its number among those of k."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return owner, np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)


def _walk_band(band: Band, tiles: Sequence[LevelTiles], tallies: list[_Tally]) -> None:
    level = len(tiles) - 1
    areas = _Rectangles.whole(band).cut_rows(tiles[level].query_tile)
    live = areas.keys > 0
    for tally in tallies:
        tally.outputs += areas.total(areas.rows * ~live)
    tallies[level].visit(*[areas.total(areas.rows * live)] * 3)
    tallies[level].keys += areas.total(areas.keys)
    areas = replace(areas, times=areas.times * live)
    while level > 0:
        level -= 1
        visits = areas.total(areas.rows * areas.runs(tiles[level + 1].key_tile))
        tallies[level].visit(
            visits,
            areas.total(areas.rows * areas.first),
            areas.total(areas.rows * areas.last),
        )
        if level == 0:
            tallies[0].keys += areas.key_loads(tiles[0].query_tile)
            return
        areas = areas.cut_keys(tiles[level + 1].key_tile).cut_rows(tiles[level].query_tile)
        tallies[level].keys += areas.total(areas.keys)


_Area = tuple[int, int, NDArray[np.intp], bool, bool]


def _walk(pattern: Pattern, tiles: Sequence[LevelTiles], tallies: list[_Tally], area: _Area) -> None:
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
