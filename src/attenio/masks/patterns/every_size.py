"""The tiles of all sizes of one pattern, counted together: about n*log(n) numbers that are looked up from then on.

Tiles of 1, 2, ... rows stand one after another. A search that asks for many sizes, and the next search of another
width or another fast memory, then take what they need.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts, Ints, parts_of

Places = NDArray[np.intp]


class EverySize(NamedTuple):
    """Keys that each tile needs, and those that it shares with the next one of its size.

    ``begins`` says where the tiles of a size stand, and ``loads`` how many keys they need together; what the last tile
    of a size shares has no meaning.
    """

    rows: int
    widths: NDArray[np.int32]
    shared: NDArray[np.int32]
    begins: Places
    loads: Ints

    @classmethod
    def of(cls, rows: int, block_of: Callable[[Places], Places], unions: NDArray[np.int32]) -> "EverySize":
        """All of them, given the block row of each row and the keys that block rows p to q need together."""
        blocks, union = len(unions), unions.ravel()
        sizes = np.arange(1, rows + 1, dtype=np.intp)
        counts = -(-rows // sizes)
        begins = np.cumsum(counts) - counts
        widths, shared = np.empty((2, int(counts.sum())), dtype=np.int32)
        for part in parts_of(counts):
            first, last = (block_of(ends) for ends in ends_of(sizes[part], counts[part], rows))
            here = slice(int(begins[part.start]), int(begins[part.start]) + len(first))
            first *= blocks
            widths[here] = union.take(first + last)
            both = union.take(first[:-1] + last[1:])
            shared[here] = widths[here]
            shared[here][:-1] += widths[here][1:] - both
        loads = np.add.reduceat(widths, begins, dtype=np.int64)
        return cls(rows, widths, shared, np.concatenate([[0], begins]), np.concatenate([[0], loads]))

    def key_loads(self, tiles: Counts) -> Counts:
        """Keys that tiles of each size need together."""
        found = self.loads[np.minimum(tiles, self.rows)]
        return found if np.ndim(tiles) else int(found)

    def tile_rows(self, tile: int, key_tile: int) -> int:
        """Sum over the tiles of one size of their rows times the key tiles that they meet."""
        begin, count = self.begins[min(tile, self.rows)], -(-self.rows // tile)
        met = -(-self.widths[begin : begin + count] // min(key_tile, 2**30))
        missing = -self.rows % tile  # the last tile may be shorter than the others
        return tile * int(met.sum(dtype=np.int64)) - missing * int(met[-1])

    def widths_of(self, sizes: Ints, counts: Ints) -> Ints:
        """Keys that the tiles of these sizes need, so many of each."""
        return self.widths.take(self._places(sizes, counts)).astype(np.int64)

    def shared_keys(self, sizes: Ints, boundaries: Ints) -> Ints:
        """Keys that neighbours of these sizes share, so many boundaries of each."""
        return self.shared.take(self._places(sizes, boundaries)).astype(np.int64)

    def _places(self, sizes: Ints, counts: Ints) -> Places:
        ends = np.cumsum(counts)
        begins = self.begins[np.minimum(sizes, self.rows)]
        places = np.repeat((begins - ends + counts).astype(np.intp, copy=False), counts)
        places += np.arange(len(places), dtype=np.intp)
        return places


def ends_of(sizes: Counts, counts: Counts, rows: int) -> tuple[Counts, Counts]:
    """The first and the last row of all tiles of these sizes, so many of each, one after another."""
    size = np.repeat(sizes, counts)
    first = np.arange(len(size), dtype=size.dtype) - np.repeat(np.cumsum(counts) - counts, counts)
    first *= size
    return first, np.minimum(first + size, rows) - 1
