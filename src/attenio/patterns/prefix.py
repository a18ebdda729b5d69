"""Requests that share a prefix, stacked: their rows follow each other and read the prefix together.

Keys are numbered as they lie in memory when the prefix is kept once: the prefix, then each request's own keys.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.patterns.band import Band
from attenio.patterns.pattern import Counts
from attenio.patterns.sums import ceil_div, smaller, sum_clipped, where

__all__ = ["PrefixedRequests"]


@dataclass(frozen=True, kw_only=True)
class PrefixedRequests:
    """``requests`` equal requests of ``own`` rows and keys each, every row needing the whole prefix."""

    requests: int
    prefix: int
    own: Band

    @property
    def rows(self) -> int:
        """Query rows of all requests together."""
        return self.requests * int(self.own.rows)

    @property
    def keys(self) -> int:
        """Key rows: the prefix once, and each request's own."""
        return self.prefix + self.requests * int(self.own.keys)

    @cached_property
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

    @cached_property
    def key_load_floors(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""
        (constant, area, _), *_ = self.own.key_load_floors
        shared = self.rows * self.prefix
        # Tiles do not start with the request, but the band's first floor holds for samples at any offset.
        spread = (self.requests * int(constant), shared + self.requests * int(area), 0)
        return ((self.requests * int(self.own.touched_keys), shared, 0), spread)

    @property
    def kinks(self) -> tuple[int, ...] | None:
        """As for bands where requests have no inner boundary, or there is one request; else every tile is tried."""
        if self.own.rows == 1:
            return (self.rows - 1,)
        return self.own.kinks if self.requests == 1 else None

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs; tiles may span requests."""
        loads = ceil_div(self.rows, query_tile) * self.prefix + self.requests * self.own.touched_keys
        if self.own.rows == 1:
            return loads
        starts = np.arange(self.requests).astype(self._exact) * self.own.rows
        tile = np.asarray(query_tile)[..., None]
        first, last = starts // tile + 1, ceil_div(starts + self.own.rows, tile) - 1
        ends = sum_clipped(first, last, tile, self.own.shift + self.own.right - starts, self.own.keys)
        begins = sum_clipped(first, last, tile, self.own.shift - self.own.left - starts, self.own.keys)
        total = loads + (ends - begins).sum(axis=-1)
        return int(total) if np.ndim(query_tile) == 0 else total

    def row_visits(self, key_tile: Counts) -> Counts:
        """Not asked of stacked requests: they are only run with queries stationary."""
        raise NotImplementedError("stacked requests are tiled by queries only")

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""
        if np.ndim(query_tile) == 0 and np.ndim(key_tile) == 0:
            return self._tile_rows(int(query_tile), int(key_tile))
        tiles, widths = np.broadcast_arrays(query_tile, key_tile)
        flat = [self._tile_rows(int(t), int(w)) for t, w in zip(tiles.ravel(), widths.ravel(), strict=True)]
        return np.array(flat, dtype=self._exact).reshape(tiles.shape)

    def _tile_rows(self, tile: int, width: int) -> int:
        starts = np.arange(0, self.rows, tile)
        stops = np.minimum(starts + tile, self.rows)
        met = ceil_div(self.widths(starts, stops), width)
        return int(((stops - starts).astype(self._exact) * met).sum())

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
        pieces = [np.arange(self.prefix)]
        for request in range(start // height, (stop - 1) // height + 1):
            top = request * height
            keys = self.own.needed_keys(max(start - top, 0), min(stop - top, height))
            pieces.append(keys + self.prefix + request * width)
        return np.concatenate(pieces).astype(np.intp)

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
        height, width = int(self.own.rows), int(self.own.keys)
        request, row = np.divmod(np.arange(start, stop)[:, None], height)
        own = keys[None, :] - self.prefix - request * width
        inside = (own >= self.own.first_key(row)) & (own < self.own.end_key(row))
        return np.asarray((keys[None, :] < self.prefix) | inside)
