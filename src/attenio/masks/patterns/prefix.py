"""Requests that share a prefix, stacked: their rows follow each other and read the prefix together.

Keys are numbered as they lie in memory when the prefix is kept once: the prefix, then each request's own keys.

A boundary between two tiles that falls on row r > 0 of a request finds alive(r) own keys in use on both sides: all k of
them where every row needs them all, r + k - h for causal requests of h rows. With the boundaries at multiples of a,

    key_loads(a) = prefix * tiles + requests * k + sum over i of alive(i*a mod h),

where boundaries on a request's first row count nothing: a sum of residues, which takes logarithmic time whatever the
number of requests. Wherever tiles begin, a request's own boundaries cost (h/a - 1) * mean or more, with mean = k for
dense requests and k - h/2 for causal ones, and there are rows/a tiles or more:

    key_loads(a) >= requests * (k - mean) + rows * (prefix + mean) / a.
"""

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.band import Band
from attenio.masks.patterns.lazy import lazy
from attenio.masks.patterns.pattern import Counts, kept_by_fewer_slots
from attenio.masks.patterns.sums import ceil_div, floor_sum, smaller, sum_of_residues, where


@dataclass(frozen=True, kw_only=True)
class PrefixedRequests:
    """``requests`` equal requests of ``own`` rows and keys each, every row needing the whole prefix.

    ``own`` is dense, or causal with no more rows than keys.
    """

    requests: int
    prefix: int
    own: Band

    def __post_init__(self) -> None:
        causal = self.own == Band.causal(self.own.rows, self.own.keys) and self.own.rows <= self.own.keys
        if not (causal or self.own.is_dense):
            raise ValueError("stacked requests are dense, or causal with no more rows than keys")

    @lazy
    def slope(self) -> int:
        """By how much the own keys alive at a boundary grow with its row: 1 for causal requests, 0 for dense ones."""
        return 0 if self.own.is_dense else 1

    @lazy
    def fewest_alive(self) -> int:
        """Own keys alive at a boundary, less ``slope`` times its row."""
        return int(self.own.keys - self.slope * self.own.rows)

    @property
    def rows(self) -> int:
        """Query rows of all requests together."""
        return self.requests * int(self.own.rows)

    @property
    def keys(self) -> int:
        """Key rows: the prefix once, and each request's own."""
        return self.prefix + self.requests * int(self.own.keys)

    @lazy
    def scores(self) -> int:
        """Required scores (Z)."""
        return int(self.rows * self.prefix + self.requests * self.own.scores)

    @property
    def touched_rows(self) -> int:
        """Rows that need at least one key: all, since all need the prefix."""
        return self.rows

    @property
    def touched_keys(self) -> int:
        """Keys that at least one row needs."""
        return int(self.prefix + self.requests * self.own.touched_keys)

    @property
    def is_dense(self) -> bool:
        """Whether every row needs every key."""
        return self.requests == 1 and bool(self.own.is_dense)

    @property
    def transposed(self) -> "PrefixedRequests":
        """Not asked of stacked requests: they are only run with queries stationary."""
        raise NotImplementedError("stacked requests are tiled by queries only")

    @lazy
    def key_load_floors(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""
        own = self.requests * int(self.own.touched_keys)
        twice_mean = self.requests * (self.slope * int(self.own.rows) + 2 * self.fewest_alive)
        shared = self.rows * self.prefix
        inside = shared + int(self.own.rows) * twice_mean // 2
        return ((own, shared, 0), (own - ceil_div(twice_mean, 2), inside, 0))

    @property
    def kinks(self) -> tuple[int, ...] | None:
        """As for bands where requests have no inner boundary, or there is one request; else unknown."""
        if self.own.rows == 1:
            return (self.rows - 1,)
        return self.own.kinks if self.requests == 1 else None

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs; tiles may span requests."""
        if type(query_tile) is not int:
            if not np.ndim(query_tile):
                return self.key_loads(int(query_tile))
            if not self._fits_int64(int(np.min(query_tile))):
                return np.array([self.key_loads(tile) for tile in query_tile.tolist()], dtype=object)
        height = int(self.own.rows)
        boundaries = ceil_div(self.rows, query_tile) - 1
        step = query_tile % height
        inner = boundaries - boundaries * _gcd(step, height) // height if self.fewest_alive else 0
        loads = self.prefix * (boundaries + 1) + self.requests * int(self.own.keys) + self.fewest_alive * inner
        return loads + sum_of_residues(boundaries, step, height) if self.slope else loads

    def _fits_int64(self, tile: int) -> bool:
        """Whether key_loads is exact in 64 bits, for tiles from this size on."""
        tiles = self.rows // tile + 2
        each = self.prefix + int(self.own.keys + self.own.rows)
        return self.own.rows < 2**31 and each * (self.requests + tiles) < 2**62

    def row_visits(self, key_tile: Counts) -> Counts:
        """Not asked of stacked requests: they are only run with queries stationary."""
        raise NotImplementedError("stacked requests are tiled by queries only")

    def kept_loads(self, query_tile: Counts, slots: Counts) -> Counts:
        """Keys that tiles of queries need not read because ``slots`` keep them from the tile before."""
        return kept_by_fewer_slots(self, query_tile, slots)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""
        if np.ndim(query_tile) == 0 and np.ndim(key_tile) == 0:
            return self._tile_rows(int(query_tile), int(key_tile))
        tiles, widths = np.broadcast_arrays(query_tile, key_tile)
        flat = [self._tile_rows(int(t), int(w)) for t, w in zip(tiles.ravel(), widths.ravel(), strict=True)]
        return np.array(flat, dtype=self._exact).reshape(tiles.shape)

    def _tile_rows(self, tile: int, width: int) -> int:
        """Rows of whole tiles by the row u of a request that they end with, and the ragged tile by itself.

        The keys that a tile needs jump where it begins to span one request more, and otherwise rise with u, for causal
        requests: the rows u at which another key tile is met are few, and floor sums count the tiles beyond each.
        """
        height, whole = int(self.own.rows), ceil_div(self.rows, tile) - 1
        if height // width > whole:  # more key tiles in a request than query tiles in all: look at these
            starts = np.arange(0, self.rows, tile, dtype=np.int64)
            stops = np.minimum(starts + tile, self.rows)
            met = ceil_div(self.widths(starts, stops), width)
            return int(((stops - starts).astype(self._exact) * met).sum())
        begin = whole * tile
        total = (self.rows - begin) * ceil_div(self.widths(begin, self.rows), width)
        jump = (tile - 1) % height

        def ends_from(row: int) -> int:
            """Whole tiles that end with this row of a request or a later one."""
            last = tile - 1
            beyond = floor_sum(whole, height, tile, last + height - row)
            return int(beyond - floor_sum(whole, height, tile, last))

        for first, end in ((0, jump), (jump, height)):
            if first == end:
                continue
            # What a tile that ends with the row ``first`` would need, whether there is such a tile or not.
            spanned = (tile - 1) // height + (first < jump)
            least = self.prefix + spanned * int(self.own.keys) + self._needed_to(first)
            met = ceil_div(least, width)
            total += tile * met * (ends_from(first) - ends_from(end))
            most = least + self.slope * (end - 1 - first)
            for further in range(met, ceil_div(most, width)):
                total += tile * (ends_from(first + further * width - least + 1) - ends_from(end))
        return int(total)

    def _needed_to(self, row: int) -> int:
        """Own keys that a request's rows up to this one need."""
        return self.fewest_alive + self.slope * (row + 1)

    @property
    def _exact(self) -> type:
        """Integers that hold every count: machine words where they surely do, Python's own otherwise."""
        return np.int64 if self.rows * self.keys < 2**62 else object

    def widths(self, starts: Counts, stops: Counts) -> Counts:
        """How many keys the rows from each start to its stop need."""
        height = int(self.own.rows)
        first, last = starts // height, (stops - 1) // height
        head = self.own.widths(starts - first * height, smaller(stops - first * height, height))
        tail = self.own.widths(0, stops - last * height)
        spans = last - first
        return self.prefix + head + where(spans > 0, tail + (spans - 1) * self.own.touched_keys, 0)

    def tile_rows_floor(self, query_tile: Counts, key_tile: Counts, key_loads: Counts) -> Counts:
        """A number that tile_rows does not go below: tile_rows itself."""
        return self.tile_rows(query_tile, key_tile)

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key: all."""
        return self.rows + 0 * query_tile

    def scores_beyond(self, resident: Counts) -> Counts:
        """Not asked of stacked requests: they never spill rows of scores."""
        raise NotImplementedError("stacked requests do not spill scores")

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""
        height, width = int(self.own.rows), int(self.own.keys)
        pieces = [np.arange(self.prefix, dtype=np.int64)]
        for request in range(start // height, (stop - 1) // height + 1):
            top = request * height
            keys = self.own.needed_keys(max(start - top, 0), min(stop - top, height))
            pieces.append(keys + self.prefix + request * width)
        return np.concatenate(pieces).astype(np.intp)

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
        height, width = int(self.own.rows), int(self.own.keys)
        request, row = np.divmod(np.arange(start, stop, dtype=np.int64)[:, None], height)
        own = keys[None, :] - self.prefix - request * width
        inside = (own >= self.own.first_key(row)) & (own < self.own.end_key(row))
        return np.asarray((keys[None, :] < self.prefix) | inside)


def _gcd(left: Counts, right: int) -> Counts:
    return gcd(left, right) if type(left) is int else np.gcd(left, right)
