"""Which rank owns which block of tokens, and which rank computes the pairs of two blocks of a KV head.

Blocks are in the order of tokens, every rank owns as many of them, and its share of the tokens is cut evenly into
these. A workload with more KV heads than the table has uses each head of the table for several that follow each other.

>>> two = Patchwork(owners=(0, 1, 1, 0), makers=((0, 1, 1, 1, 1, 1, 0, 0, 0, 0),))
>>> [each.spans for each in two.homes(10)]
[((0, 3), (8, 10)), ((3, 8),)]
>>> [(each.rows.spans, each.keys.spans) for each in two.held(10, 1)]
[(((3, 8),), ((0, 8),))]
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.layout import Counts, Product
from attenio.cluster.partition import even_sizes
from attenio.cluster.spans import Span, Tokens
from attenio.errors import InvalidInput

Choices = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Patchwork:
    """``owners`` of every block, and by head the ``makers`` of its pairs of blocks, row by row up to the diagonal."""

    owners: tuple[int, ...]
    makers: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        blocks, ranks = len(self.owners), self.devices
        owned = np.bincount(np.array(self.owners, dtype=np.int64), minlength=ranks)
        if ranks < 1 or owned.min() != owned.max():
            raise InvalidInput(f"{blocks} blocks are owned by {ranks} ranks unevenly; give each as many")
        cells = blocks * (blocks + 1) // 2
        if not self.makers or any(
            len(each) != cells or not 0 <= min(each) <= max(each) < ranks for each in self.makers
        ):
            raise InvalidInput(
                f"a table of {blocks} blocks has {cells} pairs of blocks a head, each of one of {ranks} ranks"
            )

    @property
    def devices(self) -> int:
        """How many ranks there are."""
        return max(self.owners, default=-1) + 1

    @property
    def blocks(self) -> int:
        """Into how many blocks tokens are cut."""
        return len(self.owners)

    @property
    def heads(self) -> int:
        """How many KV heads the table has."""
        return len(self.makers)

    def __str__(self) -> str:
        mark = crc32(repr((self.owners, self.makers)).encode())
        return f"{self.heads} heads x {self.blocks} blocks on {self.devices} ranks ({mark:08x})"

    def finer(self, times: int) -> "Patchwork":
        """The same with so many blocks for each, so that keys are passed on in smaller parts.

        >>> Patchwork(owners=(0, 1), makers=((0, 1, 1),)).finer(2).makers
        ((0, 0, 0, 1, 1, 1, 1, 1, 1, 1),)
        """
        rows, keys = (each // times for each in np.tril_indices(times * self.blocks))
        makers = tuple(tuple(each[rows, keys].tolist()) for each in holdings(self).makers)
        return Patchwork(owners=tuple(each for each in self.owners for _ in range(times)), makers=makers)

    def sizes(self, tokens: int) -> Counts:
        """Tokens of every block."""
        return _sizes(self, tokens)

    def homes(self, tokens: int) -> tuple[Tokens, ...]:
        """The tokens that every rank owns."""
        owners = np.array(self.owners, dtype=np.int64)
        return tuple(self.tokens_of(tokens, owners == rank) for rank in range(self.devices))

    def tokens_of(self, tokens: int, chosen: Choices) -> Tokens:
        """The tokens of some blocks."""
        edges = _edges(self, tokens)
        return Tokens.of((edges[block], edges[block + 1]) for block in np.flatnonzero(chosen).tolist())

    def held(self, tokens: int, rank: int) -> tuple[Product, ...]:
        """Rows and keys of every head that a rank computes with."""
        has = holdings(self)
        return tuple(
            Product(rows=self.tokens_of(tokens, rows), keys=self.tokens_of(tokens, keys))
            for rows, keys in zip(has.rows[rank], has.keys[rank], strict=True)
        )

    def cells(self, tokens: int, rank: int, head: int) -> tuple[tuple[Span, Span], ...]:
        """Rows and keys that a rank computes of a head, as rectangles of which the mask hides what is not seen."""
        edges, mine = _edges(self, tokens), holdings(self).makers[head] == rank
        runs = [tuple(_runs(mine[row, : row + 1])) for row in range(self.blocks)]
        found, first = list[tuple[Span, Span]](), 0
        for keys, rows in groupby(runs):
            last = first + len(list(rows))
            found += [((edges[first], edges[last]), (edges[start], edges[stop])) for start, stop in keys]
            first = last
        return tuple(found)

    def longest_messages(self, tokens: int) -> tuple[Counts, Counts]:
        """Own tokens, over all heads, that the rank with most of them computes with: as rows and as keys."""
        mine = np.array(self.owners, dtype=np.int64)[None] == np.arange(self.devices, dtype=np.int64)[:, None]
        own, found = mine * self.sizes(tokens), list[Counts]()  # [home, block]
        for has in (holdings(self).rows, holdings(self).keys):
            shared = own @ has.sum(axis=1).T.astype(np.int64)  # [home, rank]
            np.fill_diagonal(shared, 0)
            found.append(shared.max(axis=1))
        return found[0], found[1]

    def pairs(self, tokens: int) -> list[int]:
        """Causal pairs that every rank computes, of one query head for each head of the table."""
        sizes, makers = self.sizes(tokens), holdings(self).makers
        area = np.multiply.outer(sizes, sizes)
        area[np.diag_indices(self.blocks)] = sizes * (sizes + 1) // 2
        return [int(np.where(makers == rank, area, 0).sum()) for rank in range(self.devices)]


def _runs(chosen: Choices) -> Iterable[Span]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(np.int8), [0]]))).tolist()
    return zip(edges[::2], edges[1::2], strict=True)


class Holdings(NamedTuple):
    """Makers [head, row, key], -1 where a key is after the row; whether ranks have rows, keys [rank, head, block]."""

    makers: Counts
    rows: Choices
    keys: Choices


@lru_cache(maxsize=64)
def holdings(patchwork: Patchwork) -> Holdings:
    """The table as arrays."""
    blocks = patchwork.blocks
    makers = np.full((patchwork.heads, blocks, blocks), -1, dtype=np.int64)
    rows, keys = np.tril_indices(blocks)
    makers[:, rows, keys] = np.array(patchwork.makers, dtype=np.int64)
    mine = makers[None] == np.arange(patchwork.devices, dtype=np.int64)[:, None, None, None]
    return Holdings(makers=makers, rows=mine.any(axis=3), keys=mine.any(axis=2))


@lru_cache(maxsize=64)
def _sizes(patchwork: Patchwork, tokens: int) -> Counts:
    if tokens < patchwork.blocks:
        raise InvalidInput(f"{tokens:,} tokens are too few for {patchwork.blocks} blocks; use more tokens")
    found = np.zeros(patchwork.blocks, dtype=np.int64)
    owners = np.array(patchwork.owners, dtype=np.int64)
    for rank, share in enumerate(even_sizes(tokens, patchwork.devices).tolist()):
        mine = np.flatnonzero(owners == rank)
        found[mine] = even_sizes(share, len(mine))
    return found


@lru_cache(maxsize=64)
def _edges(patchwork: Patchwork, tokens: int) -> tuple[int, ...]:
    return (0, *np.cumsum(_sizes(patchwork, tokens)).tolist())
