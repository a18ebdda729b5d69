"""Required scores given block by block."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.masks import BlockSparse
from attenio.patterns.pattern import Counts

__all__ = ["BlockPattern"]


@dataclass(frozen=True, kw_only=True)
class BlockPattern:
    """A block-sparse layout over ``rows`` x ``keys`` scores; the last blocks may be ragged."""

    rows: int
    keys: int
    layout: BlockSparse

    @cached_property
    def _blocks(self) -> NDArray[np.bool_]:
        return self.layout.array

    @cached_property
    def _key_widths(self) -> NDArray[np.int64]:
        edges = np.minimum(np.arange(self._blocks.shape[1] + 1) * self.layout.key_block, self.keys)
        return np.asarray(np.diff(edges))

    @cached_property
    def _row_widths(self) -> NDArray[np.int64]:
        edges = np.minimum(np.arange(self._blocks.shape[0] + 1) * self.layout.query_block, self.rows)
        return np.asarray(np.diff(edges))

    @cached_property
    def transposed(self) -> "BlockPattern":
        """The same scores with rows and keys exchanged."""
        flipped = BlockSparse(
            layout=tuple(zip(*self.layout.layout, strict=True)),
            query_block=self.layout.key_block,
            key_block=self.layout.query_block,
        )
        return BlockPattern(rows=self.keys, keys=self.rows, layout=flipped)

    @cached_property
    def scores(self) -> int:
        """Required scores (Z)."""
        return int(self._row_widths @ self._blocks.astype(np.int64) @ self._key_widths)

    @cached_property
    def touched_rows(self) -> int:
        """Rows that need at least one key."""
        return int(self._row_widths[self._blocks.any(axis=1)].sum())

    @cached_property
    def touched_keys(self) -> int:
        """Keys that at least one row needs."""
        return int(self._key_widths[self._blocks.any(axis=0)].sum())

    @cached_property
    def is_dense(self) -> bool:
        """Whether every row needs every key."""
        return bool(self._blocks.all())

    @cached_property
    def key_load_floors(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""
        return ((self.touched_keys, 0, 0), (0, self.scores, 0))

    @property
    def kinks(self) -> None:
        """None: a layout may favour any tile, so every one is tried."""
        return

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs."""
        return _for_each(lambda tile: int(self._tile_widths(tile).sum()), query_tile)

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them."""
        return self.transposed.key_loads(key_tile)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""

        def met(tile: int, width: int) -> int:
            return int((self._tile_heights(tile) * -(-self._tile_widths(tile) // width)).sum())

        return _for_each(met, query_tile, key_tile)

    def tile_rows_floor(self, query_tile: Counts, key_tile: Counts, key_loads: Counts) -> Counts:
        """A number that tile_rows does not go below: tile_rows itself."""
        return self.tile_rows(query_tile, key_tile)

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key."""
        return _for_each(lambda tile: int(self._tile_heights(tile)[self._tile_widths(tile) > 0].sum()), query_tile)

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row."""
        widths = self._blocks.astype(np.int64) @ self._key_widths
        return _for_each(lambda kept: int(self._row_widths @ np.maximum(widths - kept, 0)), resident)

    def widths(self, starts: Counts, stops: Counts) -> Counts:
        """How many keys the rows from each start to its stop need: the union of the block rows they overlap."""
        first = np.atleast_1d(starts) // self.layout.query_block
        end = (np.atleast_1d(stops) - 1) // self.layout.query_block + 1
        # reduceat takes every other stretch between these indices; one may end where the padding begins
        unions = np.logical_or.reduceat(self._padded, np.stack([first, end], axis=1).ravel(), axis=0)[::2]
        counts = unions @ self._key_widths
        return counts if np.ndim(starts) else int(counts[0])

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""
        first, last = start // self.layout.query_block, (stop - 1) // self.layout.query_block
        needed = np.repeat(self._blocks[first : last + 1].any(axis=0), self._key_widths)
        return np.flatnonzero(needed)

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
        rows = np.arange(start, stop) // self.layout.query_block
        return np.asarray(self._blocks[rows[:, None], (keys // self.layout.key_block)[None, :]])

    def _tile_heights(self, tile: int) -> NDArray[np.int64]:
        starts = np.arange(0, self.rows, tile)
        return np.minimum(starts + tile, self.rows) - starts

    @cached_property
    def _padded(self) -> NDArray[np.bool_]:
        return np.vstack([self._blocks, np.zeros((1, self._blocks.shape[1]), dtype=np.bool_)])

    @cached_property
    def _widths_by_tile(self) -> dict[int, NDArray[np.int64]]:
        return {}

    def _tile_widths(self, tile: int) -> NDArray[np.int64]:
        """Keys needed by each query tile; remembered, as searches ask for the same tile in several counts."""
        known = self._widths_by_tile.get(tile)
        if known is None:
            starts = np.arange(0, self.rows, tile)
            known = np.asarray(self.widths(starts, np.minimum(starts + tile, self.rows)))
            self._widths_by_tile[tile] = known
        return known


def _for_each(count, *tiles: Counts) -> Counts:  # type: ignore[no-untyped-def]
    """``count`` applied to integers, or to every element of broadcast arrays of integers."""
    if all(np.ndim(tile) == 0 for tile in tiles):
        return count(*(int(tile) for tile in tiles))
    arrays = np.broadcast_arrays(*tiles)
    flat = [count(*(int(value) for value in values)) for values in zip(*(a.ravel() for a in arrays), strict=True)]
    return np.array(flat, dtype=np.int64).reshape(arrays[0].shape)
