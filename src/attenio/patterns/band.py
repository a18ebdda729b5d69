"""A band of required scores: row p needs the keys from p + shift - left to p + shift + right, as far as there are any.

Dense, causal and window masks are bands, a document is one, and so is any rectangle cut out of one. Neighbouring rows
share all but the ends of their intervals, so reading keys tile by tile costs the keys touched at all, once, plus the
keys alive across every boundary between two tiles:

    key_loads(a) = touched + sum over boundaries s = a, 2a, ... of |keys(s-1) and keys(s)|.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attenio.patterns.pattern import Counts
from attenio.patterns.sums import ceil_div, floor_sum, sum_clipped, sum_linear

__all__ = ["Band"]


def _clip(value: Counts, limit: Counts) -> Counts:
    return np.minimum(np.maximum(value, 0), limit)


@dataclass(frozen=True, kw_only=True)
class Band:
    """Rows, keys, and how far left and right of its diagonal position each row sees.

    The fields may be arrays of equal shape, in which case every count is taken for all of them at once.
    """

    rows: Counts
    keys: Counts
    left: Counts
    right: Counts
    shift: Counts

    @classmethod
    def dense(cls, rows: Counts, keys: Counts) -> "Band":
        """Every row needs every key."""
        return cls(rows=rows, keys=keys, left=rows + keys, right=rows + keys, shift=keys - rows)

    @classmethod
    def causal(cls, rows: Counts, keys: Counts) -> "Band":
        """Row p needs the keys up to p + keys - rows."""
        return cls(rows=rows, keys=keys, left=rows + keys, right=0 * rows, shift=keys - rows)

    @property
    def transposed(self) -> "Band":
        """The same scores with rows and keys exchanged."""
        return Band(rows=self.keys, keys=self.rows, left=self.right, right=self.left, shift=-self.shift)

    def part(self, row_start: Counts, row_stop: Counts, key_start: Counts, key_stop: Counts) -> "Band":
        """The band inside a rectangle, counted from the rectangle's corner."""
        return Band(
            rows=row_stop - row_start,
            keys=key_stop - key_start,
            left=self.left,
            right=self.right,
            shift=self.shift + row_start - key_start,
        )

    def first_key(self, row: Counts) -> Counts:
        """First key that ``row`` needs."""
        return _clip(row + self.shift - self.left, self.keys)

    def end_key(self, row: Counts) -> Counts:
        """One past the last key that ``row`` needs."""
        return _clip(row + self.shift + self.right + 1, self.keys)

    @cached_property
    def scores(self) -> Counts:
        """Required scores (Z)."""
        ends = sum_clipped(0, self.rows - 1, 1, self.shift + self.right + 1, self.keys)
        starts = sum_clipped(0, self.rows - 1, 1, self.shift - self.left, self.keys)
        return self._plain(ends - starts)

    @cached_property
    def touched_rows(self) -> Counts:
        """Rows that need at least one key."""
        first, end = self._live_range()
        return self._plain(np.maximum(end - first, 0))

    @cached_property
    def touched_keys(self) -> Counts:
        """Keys that at least one row needs."""
        return self._plain(self.end_key(self.rows - 1) - self.first_key(0 * self.rows))

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs."""
        boundaries = ceil_div(self.rows, query_tile) - 1
        ends = sum_clipped(1, boundaries, query_tile, self.shift + self.right, self.keys)
        starts = sum_clipped(1, boundaries, query_tile, self.shift - self.left, self.keys)
        return self.touched_keys + ends - starts

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them."""
        return self.transposed.key_loads(key_tile)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""
        whole_tiles = ceil_div(self.rows, query_tile) - 1
        met = 0 * whole_tiles
        for first, end, slope, offset in self._width_pieces(query_tile, whole_tiles):
            start = offset + slope * first
            falls = slope < 0
            low = np.where(falls, start + slope * (end - first - 1), start)
            met = met + floor_sum(np.maximum(end - first, 0), key_tile, abs(slope), low + key_tile - 1)
        begin = whole_tiles * query_tile
        last = self.end_key(self.rows - 1) - self.first_key(begin)
        return query_tile * met + (self.rows - begin) * ceil_div(last, key_tile)

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key."""
        first, end = self._live_range()
        covered = np.minimum(ceil_div(end, query_tile) * query_tile, self.rows) - first // query_tile * query_tile
        return np.where(end > first, covered, 0)

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row."""
        total = 0 * self.rows
        for first, end, slope, offset in self._width_pieces(1, self.rows):
            excess = offset - resident
            # the row widths are linear here: sum only where slope*i + excess is positive
            rising = np.maximum(first, -excess + 1)
            falling = np.minimum(end - 1, excess - 1)
            level = np.where(excess > 0, excess, 0) * np.maximum(end - first, 0)
            up = sum_linear(rising, end - 1, 1, excess)
            down = sum_linear(first, falling, -1, excess)
            total = total + np.where(slope > 0, up, np.where(slope < 0, down, level))
        return total

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""
        return np.arange(self.first_key(start), self.end_key(stop - 1), dtype=np.intp)

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
        rows = np.arange(start, stop)[:, None]
        return np.asarray((keys >= self.first_key(rows)) & (keys < self.end_key(rows)))

    def _plain(self, count: Counts) -> Counts:
        return int(count) if np.ndim(count) == 0 else count

    def _live_range(self) -> tuple[Counts, Counts]:
        first = np.maximum(0, -self.shift - self.right)
        return first, np.minimum(self.rows, self.keys - self.shift + self.left)

    def _width_pieces(self, tile: Counts, count: Counts) -> Iterator[tuple[Counts, Counts, Counts, Counts]]:
        """Pieces (first, end, slope, offset): a tile i in [first, end) of ``tile`` rows needs slope*i + offset keys."""
        upper = tile + self.shift + self.right  # end of tile i before clipping: tile*i + upper
        lower = self.shift - self.left  # its start: tile*i + lower
        cuts = [
            _clip(ceil_div(-upper, tile), count),
            _clip(ceil_div(self.keys - upper, tile), count),
            _clip(ceil_div(-lower, tile), count),
            _clip(ceil_div(self.keys - lower, tile), count),
        ]
        edges = [0 * count, *np.sort(np.stack(np.broadcast_arrays(*cuts)), axis=0), count]
        for first, end in pairwise(edges):
            end_slope, end_offset = _linear_part(first, tile, upper, self.keys)
            start_slope, start_offset = _linear_part(first, tile, lower, self.keys)
            yield first, end, end_slope - start_slope, end_offset - start_offset


def _linear_part(index: Counts, step: Counts, offset: Counts, limit: Counts) -> tuple[Counts, Counts]:
    """Slope and offset of ``clip(step*i + offset, 0, limit)`` on the piece that begins at ``index``."""
    value = step * index + offset
    below, above = value < 0, value >= limit
    slope = np.where(below | above, 0, step)
    return slope, np.where(below, 0, np.where(above, limit, offset))
