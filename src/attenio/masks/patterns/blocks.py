"""Required scores given block by block.

The keys that rows from block p to block q need together are counted without looking at any of them. Follow each key
down the block rows that need it: a key that rows r and r' need, and none between them, is counted twice if both lie in
the range. So the union has as many keys as its block rows have on their own, less the pairs (r, r') inside p..q, and a
table of all unions is a sum over a table of pairs. After that a tile of queries costs one look, and all tile sizes
together about n*log(n) of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.every_size import EverySize, blocks_of, ends_of, small_tiles
from attenio.masks.patterns.pattern import AnyInts, Counts, kept_by_fewer_slots
from attenio.masks.values import BlockSparse, LaidOut

Ints = NDArray[np.int64]

# A table of unions up to this many block rows has 64 MB; beyond, unions are taken as they are asked for.
_MOST_IN_TABLE = 4096
# Counts of tiles up to this size are kept: searches ask for the same ones again and again.
_MOST_KEPT = 2**17
# Up to so many rows, all tiles are counted when the first is asked for: many searches of a few would take longer.
_MOST_AT_FIRST = 2**14
# About this many tiles are looked at in one go, so that arrays stay in cache.
_AT_ONCE = 2**16
# Sums of integers below this one are exact in floating point, where division is several times as quick.
_LARGEST_FLOAT_SUM = 2**53


class _Tiles(NamedTuple):
    """Tiles of several sizes: needed keys of each, how often it occurs, and where the tiles of the next size begin."""

    widths: AnyInts
    times: Ints | None
    starts: Ints
    last_widths: AnyInts


@dataclass(frozen=True, kw_only=True)
class BlockPattern:
    """A block-sparse layout over ``rows`` x ``keys`` scores; the last blocks may be ragged.

    With ``exchanged`` the rows are the columns of the layout.
    """

    rows: int
    keys: int
    layout: BlockSparse | LaidOut
    exchanged: bool = False

    @cached_property
    def _blocks(self) -> NDArray[np.bool_]:
        return np.ascontiguousarray(self.layout.array.T) if self.exchanged else self.layout.array

    @property
    def _row_block(self) -> int:
        return self.layout.key_block if self.exchanged else self.layout.query_block

    @property
    def _key_block(self) -> int:
        return self.layout.query_block if self.exchanged else self.layout.key_block

    @cached_property
    def _key_widths(self) -> Ints:
        edges = np.minimum(np.arange(self._blocks.shape[1] + 1, dtype=np.int64) * self._key_block, self.keys)
        return np.asarray(np.diff(edges))

    @cached_property
    def _row_widths(self) -> Ints:
        edges = np.minimum(np.arange(self._blocks.shape[0] + 1, dtype=np.int64) * self._row_block, self.rows)
        return np.asarray(np.diff(edges))

    @cached_property
    def transposed(self) -> "BlockPattern":
        """The same scores with rows and keys exchanged; those of a symmetric layout are its own."""
        if (
            self.rows == self.keys
            and self._row_block == self._key_block
            and np.array_equal(self._blocks, self._blocks.T)
        ):
            return self
        return BlockPattern(rows=self.keys, keys=self.rows, layout=self.layout, exchanged=not self.exchanged)

    @cached_property
    def answers(self) -> dict[object, Any]:
        """What searches found, by question: other workloads with this pattern may ask the same."""
        return {}

    @cached_property
    def scores(self) -> int:
        """Required scores (Z)."""
        return int(self._row_widths @ self._block_row_widths)

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
        every = self.every_size
        return (
            self._once(self._kept_loads, self._key_loads, query_tile) if every is None else every.key_loads(query_tile)
        )

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them."""
        return self.transposed.key_loads(key_tile)

    def kept_loads(self, query_tile: Counts, slots: Counts) -> Counts:
        """Keys that tiles of queries need not read because ``slots`` keep them from the tile before."""
        every = self.every_size
        if every is None:
            return kept_by_fewer_slots(self, query_tile, slots)
        if np.ndim(query_tile) == np.ndim(slots) == 0 and query_tile > every.small:
            return every.kept(int(query_tile), int(slots))
        tiles, room = np.broadcast_arrays(np.asarray(query_tile, dtype=np.int64), np.asarray(slots, dtype=np.int64))
        sizes, room = tiles.ravel(), room.ravel()
        found, small = np.empty(len(sizes), dtype=np.int64), sizes <= every.small
        found[small] = every.kept_by_small(sizes[small], room[small])
        found[~small] = kept_by_fewer_slots(self, sizes[~small], room[~small], known=every.shared_keys)
        return found.reshape(tiles.shape) if tiles.ndim else int(found[0])

    def most_kept(self, query_tiles: Ints, slots: Ints) -> Ints | None:
        """Numbers that kept_loads does not exceed and that are known at once; None where nothing is."""
        return None if self.every_size is None else self.every_size.most_kept(query_tiles, slots)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""
        every = self.every_size
        if every is not None and np.ndim(query_tile) == np.ndim(key_tile) == 0 and query_tile > every.small:
            return every.tile_rows(int(query_tile), int(key_tile))
        tiles, widths = np.broadcast_arrays(np.asarray(query_tile), np.asarray(key_tile))
        found = self._tile_rows(tiles.ravel().astype(np.int64), widths.ravel().astype(np.int64))
        return found.reshape(tiles.shape) if tiles.ndim else int(found[0])

    def tile_rows_floor(self, query_tile: Counts, key_tile: Counts, key_loads: Counts) -> Counts:
        """A number that tile_rows does not go below: rows times the keys that their tile needs, by key tiles."""
        missing = -self.rows % query_tile  # the last tile may be shorter than the others
        return np.maximum(-(-(query_tile * key_loads - missing * self.keys) // key_tile), self.touched_rows)

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key."""
        if self.touched_rows == self.rows:
            return self.rows + 0 * query_tile
        return self._once(self._kept_rows, lambda tiles: self._tile_rows(tiles, self.keys + 0 * tiles), query_tile)

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row."""
        kept = np.asarray(resident)
        beyond = np.maximum(self._block_row_widths - kept[..., None], 0) @ self._row_widths
        return beyond if kept.ndim else int(beyond)

    def widths(self, starts: Counts, stops: Counts) -> Counts:
        """How many keys the rows from each start to its stop need: the union of the block rows they overlap."""
        counts = self._union_widths(self._block_of(np.atleast_1d(starts)), self._block_of(np.atleast_1d(stops) - 1))
        return counts if np.ndim(starts) else int(counts[0])

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""
        first, last = start // self._row_block, (stop - 1) // self._row_block
        needed = np.repeat(self._blocks[first : last + 1].any(axis=0), self._key_widths)
        return np.flatnonzero(needed)

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
        rows = np.arange(start, stop, dtype=np.int64) // self._row_block
        return np.asarray(self._blocks[rows[:, None], (keys // self._key_block)[None, :]])

    @cached_property
    def _block_row_widths(self) -> Ints:
        """Keys that each block row needs; sums of products of 0 and 1 with lengths are exact in float64."""
        return np.asarray(np.rint(self._blocks @ self._key_widths.astype(np.float64)), dtype=np.int64)

    @cached_property
    def _unions(self) -> NDArray[np.int32]:
        """Keys that block rows p to q need together, for all p <= q; keys are at most 2^30.

        Sums may be larger on the way; they wrap around and so does the difference, which is right again at the end.
        """
        count = len(self._blocks)
        key, row = np.nonzero(self._blocks.T)  # by key, and then downwards
        follows = key[1:] == key[:-1]
        above, below = row[:-1][follows], row[1:][follows]
        pairs = np.bincount(above * count + below, weights=self._key_widths[key[1:][follows]], minlength=count**2)
        twice = pairs.astype(np.int64).astype(np.int32).reshape(count, count)
        np.cumsum(twice, axis=1, out=twice)
        np.cumsum(twice[::-1], axis=0, out=twice[::-1])
        ends = np.cumsum(self._block_row_widths)
        starts = (ends - self._block_row_widths).astype(np.int32)
        return np.asarray(ends.astype(np.int32)[None, :] - starts[:, None] - twice)

    @cached_property
    def _padded(self) -> NDArray[np.bool_]:
        return np.vstack([self._blocks, np.zeros((1, self._blocks.shape[1]), dtype=np.bool_)])

    def _union_widths(self, first: Ints, last: Ints) -> Ints:
        """Keys that block rows need together, from each first to its last."""
        count = len(self._blocks)
        if count <= _MOST_IN_TABLE:
            return np.asarray(self._unions.ravel()[first * count + last], dtype=np.int64)
        # reduceat takes every other stretch between these indices; one may end where the padding begins
        unions = np.logical_or.reduceat(
            self._padded, np.stack([first, last + 1], axis=1).ravel().astype(np.intp, copy=False), axis=0
        )[::2]
        return np.asarray(unions @ self._key_widths)

    def _block_of(self, rows: Counts) -> Counts:
        return blocks_of(rows, self._row_block)

    @cached_property
    def every_size(self) -> EverySize | None:
        """The tiles of all sizes, where searches that ask for the same ones again make up for counting them all."""
        few = self.rows <= _MOST_AT_FIRST and len(self._blocks) <= _MOST_IN_TABLE
        return EverySize(rows=self.rows, block=self._row_block, unions=self._unions) if few else None

    @cached_property
    def _kept_loads(self) -> Ints:
        return np.full(min(self.rows, _MOST_KEPT) + 1, -1, dtype=np.int64)

    @cached_property
    def _kept_rows(self) -> Ints:
        return np.full(min(self.rows, _MOST_KEPT) + 1, -1, dtype=np.int64)

    def _key_loads(self, sizes: Ints) -> Ints:
        found = np.empty(len(sizes), dtype=np.int64)
        for part, tiles in self._tiles(sizes):
            widths = tiles.widths if tiles.times is None else tiles.widths * tiles.times
            found[part] = np.add.reduceat(widths, tiles.starts.astype(np.intp, copy=False))
        return found

    def _tile_rows(self, sizes: Ints, key_tiles: Ints) -> Ints:
        found = np.empty(len(sizes), dtype=np.int64)
        for part, tiles in self._tiles(sizes):
            rows, keys = sizes[part], key_tiles[part]
            lengths = np.diff(np.append(tiles.starts, len(tiles.widths)))
            met = np.ceil(tiles.widths / np.repeat(keys, lengths))  # widths up to 2^30 are divided exactly
            if self.rows * self.keys >= _LARGEST_FLOAT_SUM:
                met = met.astype(np.int64)
            total = np.add.reduceat(
                met if tiles.times is None else met * tiles.times, tiles.starts.astype(np.intp, copy=False)
            ).astype(np.int64)
            missing = -self.rows % rows  # the last tile may be shorter than the others
            found[part] = total * rows - missing * -(-tiles.last_widths // keys)
        return found

    def _tiles(self, sizes: Ints) -> Iterator[tuple[Ints, _Tiles]]:
        """The tiles of these sizes, some sizes at a time, with the places of those sizes among them."""
        small = sizes <= small_tiles(self.rows, self._row_block)
        for group, cut in ((np.flatnonzero(small), self._cut_small), (np.flatnonzero(~small), self._cut_large)):
            if not len(group):
                continue
            looks = -(-self.rows // sizes[group]) if cut == self._cut_large else 2 * len(self._blocks) + 0 * group
            edges = np.flatnonzero(np.diff(np.cumsum(looks) // _AT_ONCE)) + 1
            for part in np.split(group, edges) if len(edges) else (group,):
                yield part, cut(sizes[part])

    def _cut_large(self, sizes: Ints) -> _Tiles:
        """Every tile once."""
        counts = -(-self.rows // sizes)
        widths: AnyInts
        if self.every_size is not None:
            widths = self.every_size.widths_of(sizes, counts)
        else:
            widths = self._union_widths(*(self._block_of(ends) for ends in ends_of(sizes, counts, self.rows)))
        starts = np.cumsum(counts) - counts
        return _Tiles(widths, None, starts, widths[starts + counts - 1])

    def _cut_small(self, sizes: Ints) -> _Tiles:
        """Tiles within one block row, and those across two: of either kind all tiles of a block row are alike."""
        count, size = len(self._blocks), sizes[:, None]
        edges = np.minimum(np.arange(count + 1, dtype=np.int64) * self._row_block, self.rows)
        begun = np.diff(-(-edges // size), axis=1)
        across = np.zeros_like(begun)
        across[:, :-1] = edges[1:-1] % size > 0
        rows = np.arange(count, dtype=np.int64)
        alone, both = self._union_widths(rows, rows), self._union_widths(rows, np.minimum(rows + 1, count - 1))
        widths = np.tile(np.concatenate([alone, both]), len(sizes))
        times = np.concatenate([begun - across, across], axis=1).ravel()
        # The last tile ends in the last block row, and begins before it if no tile begins in it.
        last = np.where(begun[:, -1] > 0, alone[-1], both[-2] if count > 1 else 0)
        return _Tiles(widths, times, np.arange(len(sizes), dtype=np.int64) * (2 * count), last)

    def _once(self, kept: Ints, count: Callable[[Ints], Ints], tiles: Counts) -> Counts:
        """``count`` of every tile, asked for only once if the tile is small enough to be kept; -1 is not known yet."""
        if kept[-1] < 0 and len(kept) <= _MOST_AT_FIRST + 1 and len(self._blocks) <= _MOST_IN_TABLE:
            kept[1:] = count(np.arange(1, len(kept), dtype=np.int64))
        if np.ndim(tiles) == 0:
            if tiles >= len(kept):
                return int(count(np.array([tiles], dtype=np.int64))[0])
            if kept[tiles] < 0:
                kept[tiles] = count(np.array([tiles], dtype=np.int64))[0]
            return int(kept[tiles])
        sizes = np.asarray(tiles, dtype=np.int64).ravel()
        if sizes.size and sizes.max() >= len(kept):
            return count(sizes).reshape(np.shape(tiles))
        missing = np.unique(sizes[kept[sizes] < 0])
        if len(missing):
            kept[missing] = count(missing)
        return kept[sizes].reshape(np.shape(tiles))
