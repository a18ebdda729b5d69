"""A block-sparse workload with its queries and keys in another order.

A row of attention depends on its own query and on the set of keys it needs, and not on where the row stands nor on the
order of the keys. So rows of Q may be taken in any order if rows of O are written in the same one, and K and V in any
common order: the same numbers, and no more words, as long as slow memory is addressed by row. What changes is which
rows meet in a tile, and so how many keys the tile reads.

>>> workload = Workload(n=8, d=2, mask=BlockSparse.from_array(np.eye(4)[[0, 2, 0, 2]], query_block=2))
>>> found = reorder(workload, "greedy", rows_per_tile=4)
>>> found.query_blocks
(0, 2, 1, 3)
>>> found.query_order.tolist()
[0, 1, 4, 5, 2, 3, 6, 7]
"""

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput, MissingExtra
from attenio.masks import BlockSparse, Layout
from attenio.names import member_named
from attenio.quantities import checked_count
from attenio.workload import Workload, checked_workload

Blocks = NDArray[np.bool_]
Order = NDArray[np.intp]
Bits = NDArray[np.uint64]

# Rows and keys linked to more than this part of the other side are left out of the graph that Cuthill-McKee orders.
_MOST = 0.5
_ONES_IN_BYTE = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.int64)


class Method(Enum):
    """How an order is found."""

    NATURAL = "natural"
    CUTHILL_MCKEE = "cuthill-mckee"
    GREEDY = "greedy"
    CHAINED = "chained"

    @classmethod
    def named(cls, name: "str | Method") -> "Method":
        """The method with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "method of reordering")


@dataclass(frozen=True, kw_only=True)
class Reordering:
    """A workload in another order: block ``query_blocks[i]`` of the natural queries is now block i, likewise keys."""

    method: Method
    natural: Workload
    workload: Workload
    query_blocks: tuple[int, ...]
    key_blocks: tuple[int, ...]

    @cached_property
    def query_order(self) -> Order:
        """The natural row that is now each row: ``q[..., query_order, :]`` are the queries in the new order."""
        return _rows_of(self.query_blocks, blocks_of(self.natural).query_block, self.natural.queries)

    @cached_property
    def key_order(self) -> Order:
        """The natural key that is now each key."""
        return _rows_of(self.key_blocks, blocks_of(self.natural).key_block, self.natural.keys)

    @cached_property
    def query_places(self) -> Order:
        """Where each natural row is now: ``o[..., query_places, :]`` are outputs back in the natural order."""
        return np.argsort(self.query_order)


def reorder(
    workload: Workload, method: Method | str, *, rows_per_tile: int, keys_per_tile: int | None = None
) -> Reordering:
    """The workload with blocks of queries and of keys in the order that a method finds.

    A greedy method packs ``rows_per_tile`` queries, and ``keys_per_tile`` keys (as many by default), into a tile. A
    last block that is shorter than the others stays the last.
    """
    checked_workload(workload)
    checked_count("rows per tile", rows_per_tile)
    checked_count("keys per tile", rows_per_tile if keys_per_tile is None else keys_per_tile)
    mask, chosen = blocks_of(workload), Method.named(method)
    rows = max(1, rows_per_tile // mask.query_block)
    keys = max(1, (keys_per_tile or rows_per_tile) // mask.key_block)
    # Blocks that may move: all but a short one at the end.
    movable = mask.array[: workload.queries // mask.query_block, : workload.keys // mask.key_block]
    queries, columns = _orders(movable, chosen, rows, keys)
    query_blocks = np.append(queries, np.arange(len(queries), mask.array.shape[0], dtype=np.int64))
    key_blocks = np.append(columns, np.arange(len(columns), mask.array.shape[1], dtype=np.int64))
    moved = BlockSparse.from_array(
        mask.array[np.ix_(query_blocks, key_blocks)], query_block=mask.query_block, key_block=mask.key_block
    )
    return Reordering(
        method=chosen,
        natural=workload,
        workload=replace(workload, mask=moved),
        query_blocks=tuple(query_blocks.tolist()),
        key_blocks=tuple(key_blocks.tolist()),
    )


def blocks_of(workload: Workload) -> BlockSparse:
    """The block-sparse mask of a workload, or an error where it has another kind."""
    mask = workload.mask
    if isinstance(mask, Layout):
        return BlockSparse.laid_out(mask, queries=workload.queries, keys=workload.keys)
    if not isinstance(mask, BlockSparse):
        raise InvalidInput(f"mask {mask} cannot be reordered by blocks; use a block-sparse mask or a layout")
    return mask


def _orders(blocks: Blocks, method: Method, rows: int, keys: int) -> tuple[Order, Order]:
    """Orders of the rows and of the columns of a table of blocks, for tiles of so many of each."""
    natural = np.arange(blocks.shape[0], dtype=np.int64), np.arange(blocks.shape[1], dtype=np.int64)
    if not blocks.size:
        return natural
    match method:
        case Method.NATURAL:
            return natural
        case Method.CUTHILL_MCKEE:
            return cuthill_mckee_orders(blocks)
        case Method.GREEDY | Method.CHAINED:
            chained = method is Method.CHAINED
            return greedy_order(blocks, rows, chained=chained), greedy_order(blocks.T, keys, chained=chained)
        case _:
            assert_never(method)


def _rows_of(blocks: tuple[int, ...], block: int, length: int) -> Order:
    rows = np.asarray(blocks, dtype=np.intp)[:, None] * block + np.arange(block, dtype=np.int64)
    return rows[rows < length]


def cuthill_mckee_orders(blocks: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Reverse Cuthill-McKee order of the graph of rows and keys, linked by required blocks.

    The order goes breadth first from one end of the graph to the other, which puts rows that share keys near each other
    when every row shares keys with few others. Rows and keys that are linked to most of the other side bring everything
    within two steps and would hide the rest: they are put first, where such rows share a tile.
    """
    try:
        from scipy.sparse import bmat, csr_array
        from scipy.sparse.csgraph import reverse_cuthill_mckee
    except ImportError:
        raise MissingExtra("the Cuthill-McKee order", "pebble") from None
    full_rows = np.flatnonzero(blocks.mean(axis=1) > _MOST)
    full_keys = np.flatnonzero(blocks.mean(axis=0) > _MOST)
    linked = blocks.copy()
    linked[full_rows, :] = False
    linked[:, full_keys] = False
    table = csr_array(linked.astype(np.int8))
    graph = bmat([[None, table], [table.T, None]], format="csr")
    order = np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.intp)
    count = len(blocks)
    rows, keys = order[order < count], order[order >= count] - count
    return _first(full_rows, rows), _first(full_keys, keys)


def _first(chosen: NDArray[np.intp], order: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.concatenate([chosen, order[~np.isin(order, chosen)]])


def greedy_order(blocks: NDArray[np.bool_], rows_per_tile: int, *, chained: bool = False) -> NDArray[np.intp]:
    """The rows of a table of required blocks, packed into tiles one after the other.

    A tile starts with the row that has most keys or, chained, that needs the fewest keys which the tile before does not
    have: rows that were next to each other in a hidden order are then taken up where they were left. Until the tile is
    full, the row comes next that needs the fewest keys which the tile does not have (of equals the one with most keys,
    which it then shares, then the first).

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
