"""The tiles of all sizes of one pattern, counted together: about n*log(n) numbers that are looked up from then on.

A search that asks for many sizes, and the next search of another width or another fast memory, then take what they
need. Tiles of up to half a block lie in one block row or across two, and are as many kinds as there are block rows;
the larger ones stand one after another, size by size. Where they lie depends on the rows and on their block alone, so
that a pattern and its transpose share it.

Numbers are looked up by an array of places in brackets: ``take`` is several times as slow in a browser.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.lazy import lazy
from attenio.masks.patterns.pattern import Counts, Ints, keeping_of, parts_of

Places = NDArray[np.intp]


class _Cut(NamedTuple):
    """Where tiles lie.

    ``first`` is the place of a larger tile's first block row in a table of block rows by block rows, ``last`` its last
    block row, and ``begins`` and ``ends`` say where the tiles of a size stand. Of small tiles of each size, so many lie
    in a block row alone or across it and the next one, and of their boundaries so many lie within it or where it
    begins.
    """

    first: Places
    last: Places
    begins: Places
    ends: Places
    alone: Ints
    across: Ints
    within: Ints
    between: Ints


@dataclass(frozen=True, kw_only=True)
class EverySize:
    """Keys that each tile needs, and those that it shares with the next one of its size.

    Given the keys that block rows p to q need together, and the rows of a block.
    """

    rows: int
    block: int
    unions: NDArray[np.int32]

    @lazy
    def small(self) -> int:
        """Tiles up to this size are counted by kind; there is always a larger one."""
        return small_tiles(self.rows, self.block)

    @lazy
    def _touched_keys(self) -> int:
        """Keys that some row needs."""
        return int(self.unions[0, -1])

    @lazy
    def _cut(self) -> _Cut:
        return _cut(self.rows, self.block)

    @lazy
    def _alone(self) -> Ints:
        """Keys of each block row."""
        return self.unions.diagonal().astype(np.int64)

    @lazy
    def _across(self) -> Ints:
        """Keys of each block row and the next one; the last one has none."""
        return np.append(self.unions.diagonal(1), np.int32(0)).astype(np.int64)

    @lazy
    def _widths(self) -> NDArray[np.int32]:
        return np.asarray(self.unions.ravel()[self._cut.first + self._cut.last])

    @lazy
    def _shared(self) -> NDArray[np.int32]:
        """Keys that a larger tile shares with the next one; the last one of a size has none."""
        first, last = self._cut.first, self._cut.last
        shared = self._widths.copy()
        shared[:-1] += self._widths[1:]
        shared[:-1] -= self.unions.ravel()[first[:-1] + last[1:]]
        shared[self._cut.ends - 1] = 0
        return shared

    @lazy
    def _loads(self) -> Ints:
        """Keys that tiles of each size need together."""
        small = self._cut.alone @ self._alone + self._cut.across @ self._across
        return np.concatenate([[0], small, self._sums(self._widths)])

    @lazy
    def _between(self) -> Ints:
        """Keys that each block row shares with the next one."""
        return self._alone[:-1] + self._alone[1:] - self._across[:-1]

    @lazy
    def _shared_together(self) -> Ints:
        """Keys that all tiles of each size share with the next one."""
        small = self._cut.within @ self._alone + self._cut.between @ self._between
        return np.concatenate([[0], small, self._sums(self._shared)])

    def _sums(self, values: NDArray[np.int32]) -> Ints:
        """Sums of the larger tiles of each size: a running total that may wrap around, where no sum does."""
        tiles, most = -(-self.rows // (self.small + 1)), self._touched_keys
        totals = np.cumsum(values, dtype=np.int32 if tiles * most < 2**31 else np.int64)[self._cut.ends - 1]
        return np.diff(totals, prepend=totals.dtype.type(0)).astype(np.int64)

    def key_loads(self, tiles: Counts) -> Counts:
        """Keys that tiles of each size need together."""
        found = self._loads[np.minimum(tiles, self.rows)]
        return found if np.ndim(tiles) else int(found)

    def most_kept(self, tiles: Ints, slots: Ints) -> Ints:
        """A number that keys kept do not exceed: all that are shared, and at every boundary all that slots keep."""
        sizes = np.minimum(tiles, self.rows)
        turns = -(-self.rows // sizes) - 1
        return np.asarray(np.minimum(self._shared_together[sizes], turns * keeping_of(slots, self._touched_keys)))

    def kept_by_small(self, sizes: Ints, slots: Ints) -> Ints:
        """Keys that slots keep from one small tile to the next, of each size.

        Two within a block row share its keys, and two in neighbours what both of these need.
        """
        keeping = np.asarray(keeping_of(slots, self._touched_keys))[:, None]
        within = self._cut.within[sizes - 1] * np.minimum(self._alone, keeping)
        between = self._cut.between[sizes - 1] * np.minimum(self._between, keeping)
        return np.asarray(within.sum(axis=1) + between.sum(axis=1))

    def kept(self, tile: int, slots: int) -> int:
        """The same for the larger tiles of one size."""
        keeping = min(int(keeping_of(slots, self._touched_keys)), 2**30)
        return int(np.minimum(self._shared[self._where(tile)], keeping).sum(dtype=np.int64))

    def tile_rows(self, tile: int, key_tile: int) -> int:
        """Sum over the larger tiles of one size of their rows times the key tiles that they meet."""
        met = -(-self._widths[self._where(tile)] // min(key_tile, 2**30))
        missing = -self.rows % tile  # the last tile may be shorter than the others
        return tile * int(met.sum(dtype=np.int64)) - missing * int(met[-1])

    def _where(self, tile: int) -> slice:
        """Where the larger tiles of a size stand."""
        place = min(tile, self.rows) - self.small - 1
        return slice(int(self._cut.begins[place]), int(self._cut.ends[place]))

    def widths_of(self, sizes: Ints, counts: Ints) -> NDArray[np.int32]:
        """Keys that larger tiles of these sizes need, so many of each."""
        return self._widths[self._places(sizes, counts)]

    def shared_keys(self, sizes: Ints, boundaries: Ints) -> NDArray[np.int32]:
        """Keys that larger neighbours of these sizes share, so many boundaries of each."""
        return self._shared[self._places(sizes, boundaries)]

    def _places(self, sizes: Ints, counts: Ints) -> Places:
        begins = self._cut.begins[np.minimum(sizes, self.rows) - self.small - 1]
        places = np.repeat((begins - np.cumsum(counts) + counts).astype(np.intp, copy=False), counts)
        places += np.arange(len(places), dtype=np.intp)
        return places


def small_tiles(rows: int, block: int) -> int:
    """The largest tile of which two neighbours lie in one block row or across two; one at least is larger."""
    return min(block // 2, rows - 1)


@lru_cache(maxsize=1)
def _cut(rows: int, block: int) -> _Cut:
    small = small_tiles(rows, block)
    sizes = np.arange(small + 1, rows + 1, dtype=np.intp)
    counts = -(-rows // sizes)
    ends = np.cumsum(counts)
    first, last = np.empty((2, int(ends[-1])), dtype=np.intp)
    for part in parts_of(counts):
        tops, bottoms = ends_of(sizes[part], counts[part], rows)
        here = slice(int(ends[part.stop - 1]) - len(tops), int(ends[part.stop - 1]))
        first[here], last[here] = blocks_of(tops, block), blocks_of(bottoms, block)
    first *= -(-rows // block)
    edges = np.append(np.arange(0, rows, block, dtype=np.int64), rows)
    size = np.arange(1, small + 1, dtype=np.int64)[:, None]
    begun = -(-edges // size)
    across = np.zeros((small, len(edges) - 1), dtype=np.int64)
    across[:, :-1] = edges[1:-1] % size > 0
    return _Cut(
        first=first,
        last=last,
        begins=ends - counts,
        ends=ends,
        alone=np.diff(begun, axis=1) - across,
        across=across,
        within=np.asarray(begun[:, 1:] - edges[:-1] // size - 1, dtype=np.int64),
        between=1 - across[:, :-1],
    )


def blocks_of(rows: Counts, block: int) -> Counts:
    """The block row of each row; a shift is several times as quick as a division."""
    return rows // block if block & (block - 1) else rows >> (block.bit_length() - 1)


def ends_of(sizes: Counts, counts: Counts, rows: int) -> tuple[Counts, Counts]:
    """The first and the last row of all tiles of these sizes, so many of each, one after another."""
    size = np.repeat(sizes, counts)
    first = np.arange(len(size), dtype=size.dtype) - np.repeat(np.cumsum(counts) - counts, counts)
    first *= size
    return first, np.minimum(first + size, rows) - 1
