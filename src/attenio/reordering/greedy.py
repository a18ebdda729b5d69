"""Greedy packing of rows into tiles.

    until every row is placed:
        start a tile with the row that has most keys
        until the tile is full: add the row that needs the fewest keys which the tile does not have
                                (of equals the one with most keys, which it then shares, then the first)

Chained, a tile starts with the row that needs the fewest keys which the tile before does not have: rows that were next
to each other in a hidden order are then taken up where they were left.
"""

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

_ONES_IN_BYTE = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.int64)


def greedy_order(blocks: NDArray[np.bool_], rows_per_tile: int, *, chained: bool = False) -> NDArray[np.intp]:
    """The rows of a table of required blocks, tile after tile.

    >>> greedy_order(np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0]], dtype=bool), 2).tolist()
    [1, 3, 0, 2]
    """
    bits = _packed(blocks)
    sizes = _ones(bits)
    # Of equal rows the one with most keys is preferred: sizes break ties between counts of new keys.
    scale = blocks.shape[1] + 1
    placed = np.zeros(len(bits), dtype=np.bool_)
    tile = np.zeros_like(bits[0])
    order = np.empty(len(bits), dtype=np.intp)
    for place in range(len(bits)):
        if place % rows_per_tile == 0:
            before, tile = tile, np.zeros_like(tile)
            beyond = _ones(bits & ~before) if chained and place else np.zeros_like(sizes)
        else:
            beyond = _ones(bits & ~tile)
        cost = np.where(placed, np.iinfo(np.int64).max, beyond * scale - sizes)
        row = int(np.argmin(cost))
        order[place], placed[row] = row, True
        tile = tile | bits[row]
    return order


def _packed(blocks: NDArray[np.bool_]) -> Bits:
    """Rows as bits, 64 in a word."""
    padded = np.zeros((blocks.shape[0], -(-blocks.shape[1] // 64) * 64), dtype=np.bool_)
    padded[:, : blocks.shape[1]] = blocks
    return np.packbits(padded, axis=1).view(np.uint64)


def _ones(bits: Bits) -> NDArray[np.int64]:
    """How many bits of each row are set."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(bits).sum(axis=1, dtype=np.int64))
    return np.asarray(_ONES_IN_BYTE[bits.view(np.uint8)].sum(axis=1))  # NumPy 1
