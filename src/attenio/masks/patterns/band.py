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
there are rows of the tile after it, or before it. In such a stretch of l rows lie l/a - 2 whole tiles or more:

    scores covered by tiles >= scores + (a-1)/2 * (l - 2a)      summed over both ends.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.lazy import lazy
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, clip, floor_sum, larger, smaller, sum_clipped, sum_linear, where


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

    @lazy
    def transposed(self) -> "Band":
        """The same scores with rows and keys exchanged."""
        turned = Band(rows=self.keys, keys=self.rows, left=self.right, right=self.left, shift=-self.shift)
        turned.__dict__["scores"] = self.scores  # not counted twice
        return turned

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

    @lazy
    def scores(self) -> Counts:
        """Required scores (Z)."""
        ends = sum_clipped(0, self.rows - 1, 1, self.shift + self.right + 1, self.keys)
        return ends - sum_clipped(0, self.rows - 1, 1, self.shift - self.left, self.keys)

    @lazy
    def touched_rows(self) -> Counts:
        """Rows that need at least one key."""
        first, end = self.live_range
        return larger(end - first, 0)

    @lazy
    def touched_keys(self) -> Counts:
        """Keys that at least one row needs."""
        return self.end_key(self.rows - 1) - self.first_key(0 * self.rows)

    @lazy
    def is_dense(self) -> Counts:
        """Whether every row needs every key."""
        return (self.first_key(self.rows - 1) == 0) & (self.end_key(0 * self.rows) == self.keys)

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs."""
        boundaries = ceil_div(self.rows, query_tile) - 1
        ends = self._sum_at_boundaries(boundaries, query_tile, self.shift + self.right)
        return self.touched_keys + ends - self._sum_at_boundaries(boundaries, query_tile, self.shift - self.left)

    def kept_loads(self, query_tile: Counts, slots: Counts) -> Counts:
        """Keys that tiles of queries need not read because ``slots`` keep them from the tile before.

        All slots do: the key that passed last may stay. A single one does so in a dense band only: elsewhere the next
        tile may not need the last key to pass.
        """
        boundaries = ceil_div(self.rows, query_tile) - 1
        most = smaller(smaller(where(self.is_dense | (slots > 1), slots, 0), self.keys), self.left + self.right)
        few = self._is_few_beside(boundaries)
        if few and np.all(self.shift + self.right >= self.keys):  # every row ends with the last key
            rising = boundaries * most
        else:
            rising = sum_clipped(1, boundaries, query_tile, self.shift + self.right, most)
        if few and np.all(self.shift - self.left + self.rows <= 1):  # every row begins with the first key
            return rising
        return rising - sum_clipped(1, boundaries, query_tile, self.shift - self.left - self.keys + most, most)

    @lazy
    def is_window(self) -> Counts:
        """Whether both ends move: the last row does not need the first key, nor the first row the last one."""
        return (self.first_key(self.rows - 1) > 0) & (self.end_key(0 * self.rows) < self.keys)

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them."""
        return self.transposed.key_loads(key_tile)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""
        whole_tiles = ceil_div(self.rows, query_tile) - 1
        begin = whole_tiles * query_tile
        last = self.end_key(self.rows - 1) - self.first_key(begin)
        ragged = (self.rows - begin) * ceil_div(last, key_tile)
        live, level, falls, dead = self._stretches(query_tile, whole_tiles)
        first = query_tile * (live + 1) + self.shift + self.right
        met = floor_sum(level - live, key_tile, query_tile, larger(first, 0) + key_tile - 1)
        met = met + (falls - level) * ceil_div(self._level_width(query_tile), key_tile)
        if self._ends_reach_the_last_key:
            final = self.keys - query_tile * (dead - 1) - self.shift + self.left
            met = met + floor_sum(dead - falls, key_tile, query_tile, larger(final, 0) + key_tile - 1)
        return ragged + query_tile * met

    def tile_rows_floor(self, query_tile: Counts, key_tile: Counts, key_loads: Counts) -> Counts:
        """A number that tile_rows does not go below, given the key_loads of the tile; quicker than tile_rows.

        Key tiles are not rounded up, except for the whole tiles whose first and last needed keys both move with them:
        these need equally many keys, and with a narrow window they are nearly all.
        """
        begin = (ceil_div(self.rows, query_tile) - 1) * query_tile
        missing = query_tile - (self.rows - begin)
        covered = query_tile * key_loads - missing * self.widths(begin, self.rows)
        if not (self.level_rows if type(self.level_rows) is int else np.any(self.level_rows)):
            return ceil_div(covered, key_tile)
        last = smaller(begin, self.keys - self.shift - self.right)
        alike = larger(last // query_tile - ceil_div(larger(self.left - self.shift, 0), query_tile), 0)
        width = query_tile + self.left + self.right
        inside = query_tile * alike
        return inside * ceil_div(width, key_tile) + ceil_div(covered - inside * width, key_tile)

    def walk(self, query_tiles: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rows and needed keys of every query tile, for each tile size; zeros behind the last. Integers as floats."""
        count = -(-self.rows // int(query_tiles.min()))
        edges = np.minimum(np.arange(count + 1.0, dtype=np.int64)[:, None] * query_tiles, self.rows)
        heights = edges[1:] - edges[:-1]
        widths = clip(edges[1:] + (self.shift + self.right), self.keys)
        if self.rows + self.shift - self.left > 0:  # otherwise every row begins with the first key
            widths -= clip(edges[:-1] + (self.shift - self.left), self.keys)
        return heights, widths * (heights > 0)

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key."""
        first, end = self.live_range
        covered = smaller(ceil_div(end, query_tile) * query_tile, self.rows) - first // query_tile * query_tile
        return where(end > first, covered, 0)

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row."""
        live, level, falls, dead = self._stretches(1, self.rows)
        rising = self.shift + self.right + 1 - resident
        falling = self.keys - self.shift + self.left - resident
        up = sum_linear(larger(live, -rising), level - 1, 1, rising)
        down = sum_linear(falls, smaller(dead, falling) - 1, -1, falling)
        return up + (falls - level) * larger(self._level_width(1) - resident, 0) + down

    @lazy
    def longest_row(self) -> Counts:
        """The most keys that a row needs."""
        most: Counts = 0 * self.rows
        for row in (0 * self.rows, self.rows - 1, self.left - self.shift, self.keys - self.shift - self.right - 1):
            place = clip(row, self.rows - 1)
            most = larger(most, self.end_key(place) - self.first_key(place))
        return most

    def widths(self, starts: Counts, stops: Counts) -> Counts:
        """How many keys the rows from each start to its stop need."""
        return self.end_key(stops - 1) - self.first_key(starts)

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""
        return np.arange(self.first_key(start), self.end_key(stop - 1), dtype=np.intp)

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
        rows = np.arange(start, stop, dtype=np.int64)[:, None]
        return np.asarray((keys >= self.first_key(rows)) & (keys < self.end_key(rows)))

    @lazy
    def live_range(self) -> tuple[Counts, Counts]:
        """First row that needs a key, and one past the last; empty where they cross."""
        first = larger(0, -self.shift - self.right)
        return first, smaller(self.rows, self.keys - self.shift + self.left)

    @lazy
    def key_load_floors(self) -> tuple[tuple[Counts, Counts, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""
        peak, end = self.most_alive
        at_ends = self.alive_first, end
        # At distance one the trapezoid rule is exact, as the corners are integers; inside, alive sums to Z - touched.
        area = self.scores - self.touched_keys + (at_ends[0] + at_ends[1]) // 2
        middle = ceil_div(peak + at_ends[0], 2)
        return ((self.touched_keys - peak, area, 0), (self.touched_keys - middle, area, 1))

    @lazy
    def most_alive(self) -> tuple[Counts, Counts]:
        """The most keys alive at any boundary, and those alive behind the last row."""
        end = self._alive(self.rows)
        peak = larger(self.alive_first, end)
        for corner in (self.left - self.shift, self.keys - self.shift - self.right):
            peak = larger(peak, self._alive(clip(corner, self.rows)))
        return peak, end

    @lazy
    def most_alive_inside(self) -> Counts:
        """The most keys alive at a boundary between two rows; none if there is one row."""
        peak = larger(self._alive(smaller(1, self.rows)), self._alive(self.rows - 1))
        for corner in (self.left - self.shift, self.keys - self.shift - self.right):
            peak = larger(peak, self._alive(larger(smaller(corner, self.rows - 1), 1)))
        return where(self.rows > 1, peak, 0)

    @lazy
    def alive_first(self) -> Counts:
        """Keys alive before the first row."""
        return self._alive(0 * self.rows)

    @property
    def moving_ends(self) -> tuple[Counts, Counts]:
        """Rows over which the last needed key moves, and the first."""
        last = self.rows - 1
        return self.end_key(last) - self.end_key(0 * last), self.first_key(last) - self.first_key(0 * last)

    @property
    def level_rows(self) -> Counts:
        """Rows in the middle, of which tiles of equal height need equally many keys, height + left + right."""
        middle = smaller(self.rows, self.keys - self.shift - self.right) - larger(0, self.left - self.shift)
        return larger(middle, 0)

    @lazy
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

    @lazy
    def _ends_reach_the_last_key(self) -> bool:
        """Whether the last needed key stops moving before the last row, in some band."""
        reach = self.shift + self.right + self.rows > self.keys
        return reach if type(reach) is bool else bool(np.any(reach))

    def _stretches(self, tile: Counts, count: Counts) -> tuple[Counts, Counts, Counts, Counts]:
        """Where among ``count`` tiles needed keys begin, cease to grow by a tile, begin to shrink, and end.

        A tile i before the second bound needs tile*(i+1) + shift + right keys, before the third ``_level_width``, and
        before the last keys - tile*i - shift + left.
        """
        upper, lower = self.shift + self.right, self.shift - self.left
        live = clip(-upper // tile, count)
        starts_move = clip(ceil_div(-lower, tile), count)
        ends_stop = clip(ceil_div(self.keys - upper, tile) - 1, count)
        dead = clip(ceil_div(self.keys - lower, tile), count)
        return live, smaller(starts_move, ends_stop), larger(starts_move, ends_stop), dead

    def _level_width(self, tile: Counts) -> Counts:
        """Keys that a tile needs while both ends of its interval move, or neither does."""
        return smaller(tile + self.left + self.right, self.keys)

    def _sum_at_boundaries(self, count: Counts, tile: Counts, offset: Counts) -> Counts:
        """Sum of ``clip(s + offset, keys)`` over the boundaries s = tile, 2*tile, ..., all below the rows."""
        if type(offset) is int and type(self.rows) is int and type(self.keys) is int:
            if offset >= self.keys:
                return self.keys * count
            if offset + self.rows <= 1:
                return 0 * count
            if 0 <= offset <= self.keys - self.rows + 1:
                return tile * (count * (count + 1) // 2) + offset * count
            if offset < 0 and offset + self.rows <= self.keys + 1:
                return sum_linear(-offset // tile + 1, count, tile, offset)
        elif self._is_few_beside(count):
            if np.all(offset >= self.keys):
                return self.keys * count
            if np.all(offset + self.rows <= 1):
                return 0 * count
            if np.all((offset >= 0) & (offset <= self.keys - self.rows + 1)):
                return tile * (count * (count + 1) // 2) + offset * count
        return sum_clipped(1, count, tile, offset, self.keys)

    def _is_few_beside(self, counts: Counts) -> bool:
        """Whether these are several bands, few beside what is counted of each: a look at all of them is cheap."""
        return type(self.rows) is np.ndarray and 4 * self.rows.size <= np.size(counts)

    def _alive(self, row: Counts) -> Counts:
        """Keys that the rows on both sides of the boundary before ``row`` need."""
        return clip(row + self.shift + self.right, self.keys) - clip(row + self.shift - self.left, self.keys)
