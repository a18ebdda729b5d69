"""A band of required scores: row p needs the keys from p + shift - left to p + shift + right, as far as there are any.

Dense, causal and window masks are bands, a document is one, and so is any rectangle cut out of one. Neighbouring rows
share all but the ends of their intervals, so reading keys tile by tile costs the keys touched at all, once, plus the
keys alive across every boundary between two tiles:

    key_loads(a) = touched + sum over boundaries s = a, 2a, ... of alive(s),   alive(s) = |keys(s-1) and keys(s)|.

As a function of a real s, alive rises from zero with slope 1, stays, and falls to zero with slope -1. Three things
follow that the planner's search rests on. Sampling such a function at distance a misses at most its peak, so

    key_loads(a) >= touched - peak + (integral of alive)/a.

The trapezoid rule misses at most a/8 at each of its two upper corners and (last sample)/2 + a/2 behind the last sample:

    key_loads(a) >= touched - (peak + alive(0))/2 + (integral of alive)/a - a.

And between two kinks (tile sizes at which a boundary enters or leaves the rows, or the part where alive is positive)
every alive(i*a) is concave in a, hence so is key_loads, whose least value lies at an end of the piece.

A tile of a rows needs more keys than any of them where the ends of their intervals move: each row misses as many as
there are rows of the tile after it, or before it. Tiles that lie wholly in such a stretch of l rows are l/a - 2 or more:

    covered_scores(a) >= scores + (a-1)/2 * (l - 2a)      summed over both ends.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attenio.patterns.pattern import Counts
from attenio.patterns.sums import ceil_div, clip, floor_sum, larger, smaller, sum_clipped, sum_linear, where

__all__ = ["Band"]

Piece = tuple[Counts, Counts, Counts, Counts]


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

    @cached_property
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
        return clip(row + self.shift - self.left, self.keys)

    def end_key(self, row: Counts) -> Counts:
        """One past the last key that ``row`` needs."""
        return clip(row + self.shift + self.right + 1, self.keys)

    @cached_property
    def scores(self) -> Counts:
        """Required scores (Z)."""
        ends = sum_clipped(0, self.rows - 1, 1, self.shift + self.right + 1, self.keys)
        return ends - sum_clipped(0, self.rows - 1, 1, self.shift - self.left, self.keys)

    @cached_property
    def touched_rows(self) -> Counts:
        """Rows that need at least one key."""
        first, end = self.live_range
        return larger(end - first, 0)

    @cached_property
    def touched_keys(self) -> Counts:
        """Keys that at least one row needs."""
        return self.end_key(self.rows - 1) - self.first_key(0 * self.rows)

    @property
    def is_dense(self) -> Counts:
        """Whether every row needs every key."""
        return (self.first_key(self.rows - 1) == 0) & (self.end_key(0 * self.rows) == self.keys)

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs."""
        boundaries = ceil_div(self.rows, query_tile) - 1
        ends = sum_clipped(1, boundaries, query_tile, self.shift + self.right, self.keys)
        return self.touched_keys + ends - sum_clipped(1, boundaries, query_tile, self.shift - self.left, self.keys)

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them."""
        return self.transposed.key_loads(key_tile)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""
        whole_tiles = ceil_div(self.rows, query_tile) - 1
        begin = whole_tiles * query_tile
        last = self.end_key(self.rows - 1) - self.first_key(begin)
        ragged = (self.rows - begin) * ceil_div(last, key_tile)
        pieces = self._width_pieces(query_tile, whole_tiles)
        return ragged + query_tile * _total(_key_tiles_met(piece, key_tile) for piece in pieces)

    def covered_scores(self, query_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (keys it needs): tile_rows with one key a tile."""
        begin = (ceil_div(self.rows, query_tile) - 1) * query_tile
        missing = query_tile - (self.rows - begin)
        return query_tile * self.key_loads(query_tile) - missing * self.widths(begin, self.rows)

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key."""
        first, end = self.live_range
        covered = smaller(ceil_div(end, query_tile) * query_tile, self.rows) - first // query_tile * query_tile
        return where(end > first, covered, 0)

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row."""
        return _total(_sum_beyond(piece, resident) for piece in self._width_pieces(1, self.rows))

    def widths(self, starts: Counts, stops: Counts) -> Counts:
        """How many keys the rows from each start to its stop need."""
        return self.end_key(stops - 1) - self.first_key(starts)

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""
        return np.arange(self.first_key(start), self.end_key(stop - 1), dtype=np.intp)

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
        rows = np.arange(start, stop)[:, None]
        return np.asarray((keys >= self.first_key(rows)) & (keys < self.end_key(rows)))

    @cached_property
    def live_range(self) -> tuple[Counts, Counts]:
        """First row that needs a key, and one past the last; empty where they cross."""
        first = larger(0, -self.shift - self.right)
        return first, smaller(self.rows, self.keys - self.shift + self.left)

    @cached_property
    def key_load_floors(self) -> tuple[tuple[Counts, Counts, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""
        corners = (self.left - self.shift, self.keys - self.shift - self.right)
        at_ends = self._alive(0 * self.rows), self._alive(self.rows)
        peak = larger(*at_ends)
        for corner in corners:
            peak = larger(peak, self._alive(clip(corner, self.rows)))
        # At distance one the trapezoid rule is exact, as the corners are integers; inside, alive sums to Z - touched.
        area = self.scores - self.touched_keys + (at_ends[0] + at_ends[1]) // 2
        middle = ceil_div(peak + at_ends[0], 2)
        return ((self.touched_keys - peak, area, 0), (self.touched_keys - middle, area, 1))

    @property
    def moving_ends(self) -> tuple[Counts, Counts]:
        """Rows over which the last needed key moves, and the first."""
        last = self.rows - 1
        return self.end_key(last) - self.end_key(0 * last), self.first_key(last) - self.first_key(0 * last)

    @cached_property
    def kinks(self) -> tuple[Counts, ...]:
        """Numbers x such that between neighbouring tile sizes x//i + 1 and x//(i-1) every count is concave.

        Counts here are key_loads and live_rows. The boundaries leave the rows at (rows-1)/i; they cross the first and
        the last row that needs a key at first/i and (end-1)/i.
        """
        first, end = self.live_range
        return (self.rows - 1, clip(first, self.rows - 1), clip(end - 1, self.rows - 1))

    def run_kinks(self, width: Counts) -> tuple[Counts, ...]:
        """Further kinks of tile_rows(a, width), where the needed keys of a tile begin or cease to exceed one run.

        ``width`` is at least half of the keys, so that a tile meets at most two runs.
        """
        upper, lower = self.shift + self.right, self.shift - self.left
        last_end = self.end_key(self.rows - 1)
        ends = (width - upper, width - upper + lower, self.keys - lower - width - 1, last_end - lower - width - 1)
        return tuple(larger(end, 0) for end in ends)

    def _alive(self, row: Counts) -> Counts:
        """Keys that the rows on both sides of the boundary before ``row`` need."""
        return clip(row + self.shift + self.right, self.keys) - clip(row + self.shift - self.left, self.keys)

    def _width_pieces(self, tile: Counts, count: Counts) -> list[Piece]:
        """Pieces (first, end, slope, offset): a tile i in [first, end) of ``tile`` rows needs slope*i + offset keys.

        Arrays give one piece whose parts have an axis in front, along which the pieces lie.
        """
        upper = tile + self.shift + self.right  # end of tile i before clipping: tile*i + upper
        lower = self.shift - self.left  # its start: tile*i + lower
        cuts = [
            clip(ceil_div(-upper, tile), count),
            clip(ceil_div(self.keys - upper, tile), count),
            clip(ceil_div(-lower, tile), count),
            clip(ceil_div(self.keys - lower, tile), count),
        ]
        ranges: Iterable[tuple[Counts, Counts]]
        if type(sum(cuts)) is int:
            ranges = ((first, end) for first, end in pairwise([0, *sorted(cuts), count]) if first < end)
        else:
            edges = _sorted_edges(cuts, count)
            ranges = ((edges[:-1], edges[1:]),)
        pieces = []
        for first, end in ranges:
            end_slope, end_offset = _linear_part(first, tile, upper, self.keys)
            start_slope, start_offset = _linear_part(first, tile, lower, self.keys)
            pieces.append((first, end, end_slope - start_slope, end_offset - start_offset))
        return pieces


def _sorted_edges(cuts: list[Counts], count: Counts) -> NDArray[np.int64]:
    """The ends of the pieces, in order along the first axis."""
    shape = np.broadcast(*cuts, count).shape
    edges = np.zeros((len(cuts) + 2, *shape), dtype=np.int64)
    for row, cut in zip(edges[1:], (*cuts, count), strict=True):
        row[...] = cut
    edges[1:-1].sort(axis=0)
    return edges


def _total(parts: Iterable[Counts]) -> Counts:
    """The sum over pieces: of the integers, or along the first axis of the one array."""
    values = list(parts)
    return sum(values) if not values or type(values[0]) is int else values[0].sum(axis=0)


def _linear_part(index: Counts, step: Counts, offset: Counts, limit: Counts) -> tuple[Counts, Counts]:
    """Slope and offset of ``clip(step*i + offset, 0, limit)`` on the piece that begins at ``index``."""
    value = step * index + offset
    below, above = value < 0, value >= limit
    slope = where(below | above, 0, step)
    return slope, where(below, 0, where(above, limit, offset))


def _key_tiles_met(piece: Piece, key_tile: Counts) -> Counts:
    """Sum over the tiles of a piece of the key tiles each meets: widths divided by ``key_tile`` and rounded up."""
    first, end, slope, offset = piece
    start = offset + slope * first
    # A falling piece is summed from its far end, so that the slope is never negative.
    low = where(slope < 0, start + slope * (end - first - 1), start)
    return floor_sum(larger(end - first, 0), key_tile, abs(slope), low + key_tile - 1)


def _sum_beyond(piece: Piece, resident: Counts) -> Counts:
    """Sum over the rows of a piece of the scores past the first ``resident``; its slope is -1, 0 or 1."""
    first, end, slope, offset = piece
    excess = offset - resident
    rising = larger(first, -excess + 1)
    falling = smaller(end - 1, excess - 1)
    level = larger(excess, 0) * larger(end - first, 0)
    up = sum_linear(rising, end - 1, 1, excess)
    down = sum_linear(first, falling, -1, excess)
    return where(slope > 0, up, where(slope < 0, down, level))
