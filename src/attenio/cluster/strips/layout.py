"""Which rows and which keys every place of a layout in strips computes with.

With D places the strip above which D' of them are left ends at row n·sqrt(D'/D): areas of triangles are as the squares
of their sides, so that every place has n²/2D pairs. A strip of w rows, from row y on, has q places. Keys before y are
seen by all w rows, later ones by fewer. Each place has its own keys, wherever they are, an early and a late piece of
the others from y on, and as many of those before y as make its work even.

The first rows, a triangle, are shared by ``top`` places: an early and a late piece of rows for each, and the keys that
they see.

>>> [len(each.rows) for each in Strips(counts=(3, 2, 2), top=1).products(800)]
[282, 168, 168, 168, 143, 143, 207, 207]
>>> [len(each.keys) for each in Strips(counts=(3, 2, 2), top=1).products(800)]
[282, 281, 266, 253, 320, 312, 239, 250]
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import isqrt
from typing import assert_never

import numpy as np

from attenio.cluster.layout import NONE, Counts, Product
from attenio.cluster.partition import even_sizes
from attenio.cluster.spans import Span, Tokens
from attenio.cluster.strips.homes import Owners, Places, homes_in_rows, pieces, zigzag_homes
from attenio.errors import InvalidInput
from attenio.quantities import checked_count


@dataclass(frozen=True, kw_only=True)
class Strips:
    """Groups of heads, and for each the places of every strip, that of the last rows first, and those of the top.

    Rank p has head group p mod ``heads`` at place p // heads. Places of the top come first, then strip after strip.
    Tokens are spread evenly over the ranks, with all their heads; ``owners`` says to whom.
    """

    heads: int = 1
    counts: tuple[int, ...]
    top: int = 1
    owners: Owners = Owners.ZIGZAG

    def __post_init__(self) -> None:
        for name, value in (("heads", self.heads), ("top", self.top), *(("places of a strip", q) for q in self.counts)):
            checked_count(name, value, most=2**20)

    @property
    def places(self) -> int:
        """How many places share the work of a head group (D)."""
        return self.top + sum(self.counts)

    @property
    def devices(self) -> int:
        """How many ranks there are."""
        return self.heads * self.places

    def __str__(self) -> str:
        homes = "" if self.owners is Owners.ZIGZAG else f" with homes in {self.owners.value}"
        return f"{self.heads} x ({' + '.join(map(str, (*self.counts, self.top)))}){homes}"

    def homes(self, tokens: int) -> tuple[Tokens, ...]:
        """The tokens that every rank owns."""
        return _homes(self, tokens)

    def homes_of_places(self, tokens: int) -> tuple[Tokens, ...]:
        """The tokens that the ranks of every place own."""
        homes, h = self.homes(tokens), self.heads
        return tuple(Tokens.union(homes[p : p + h]) for p in range(0, self.devices, h))

    def held(self, tokens: int, rank: int) -> tuple[Product, ...]:
        """By head group: rows and keys that a rank computes with, of its own group only."""
        place, group = divmod(rank, self.heads)
        nothing = Product(rows=NONE, keys=NONE)
        return tuple(self.products(tokens)[place] if head == group else nothing for head in range(self.heads))

    def cells(self, tokens: int, rank: int, head: int) -> tuple[tuple[Span, Span], ...]:
        """Rows and keys that a rank computes of a head group, as rectangles."""
        mine = self.held(tokens, rank)[head]
        return tuple((rows, keys) for rows in mine.rows.spans for keys in mine.keys.spans if keys[0] < rows[1])

    def longest_messages(self, tokens: int) -> tuple[Counts, Counts]:
        """All own tokens in one head group."""
        own = np.array([len(home) for home in self.homes(tokens)], dtype=np.int64)
        return own, own

    def products(self, tokens: int) -> tuple[Product, ...]:
        """What every place computes, in a sequence of so many tokens."""
        return _products(self, tokens)

    def boundaries(self, tokens: int) -> tuple[int, ...]:
        """Where strips end, the last rows first."""
        left, found = self.places, [tokens]
        for count in self.counts:
            left -= count
            found.append(isqrt(tokens * tokens * left // self.places))
        return tuple(found)


@lru_cache(maxsize=64)
def _homes(strips: Strips, tokens: int) -> tuple[Tokens, ...]:
    match strips.owners:
        case Owners.ZIGZAG:
            return zigzag_homes(tokens, strips.devices)
        case Owners.ROWS:
            check_strips(strips, tokens)
            edges, first = strips.boundaries(tokens), strips.top
            groups = [Places(0, edges[-1], range(first))]
            for count, end, start in zip(strips.counts, edges, edges[1:], strict=False):
                groups.append(Places(start, end, range(first, first + count)))
                first += count
            top = zigzag_homes(edges[-1], strips.top)
            return homes_in_rows(tokens, strips.heads, tuple(groups), top)
        case _:
            assert_never(strips.owners)


def check_strips(strips: Strips, tokens: int) -> None:
    """Refuse lengths that leave a strip without rows."""
    edges = strips.boundaries(tokens)
    if tokens < 2 * strips.devices or any(a <= b for a, b in pairwise(edges)):
        raise InvalidInput(f"{tokens:,} tokens are too few for strips on {strips.devices:,} devices; use more tokens")


@lru_cache(maxsize=64)
def _products(strips: Strips, tokens: int) -> tuple[Product, ...]:
    check_strips(strips, tokens)
    edges, cells = strips.boundaries(tokens), strips.homes_of_places(tokens)
    found, first = _top(edges[-1], strips.top), strips.top
    for count, end, start in zip(strips.counts, edges, edges[1:], strict=False):
        found += _strip(start, end, cells[first : first + count])
        first += count
    return tuple(found)


def _top(tokens: int, places: int) -> list[Product]:
    return [Product(rows=rows, keys=Tokens.of([(0, rows.spans[-1][1])])) for rows in zigzag_homes(tokens, places)]


def _strip(start: int, end: int, cells: tuple[Tokens, ...]) -> list[Product]:
    """The places of the strip of rows [start, end)."""
    width, places = end - start, len(cells)
    own = [cell.within(0, end) for cell in cells]
    others = Tokens.of([(0, end)]).without(Tokens.union(own))
    seen_by_some = others.within(start, end)
    bits = pieces(seen_by_some, even_sizes(len(seen_by_some), 2 * places).tolist())
    held = [Tokens.union([mine, bits[i], bits[-1 - i]]) for i, mine in enumerate(own)]
    pairs = start * width + width * (width + 1) // 2
    # keys before the strip, each worth a pair with every row, to make up for what is missing
    wanted = [max(pairs / places - _pairs(keys, start, end), 0.0) for keys in held]
    seen_by_all = others.within(0, start)
    share, total, edges = len(seen_by_all) / (sum(wanted) or 1.0), 0.0, [0]
    for each in wanted:
        total += each * share
        edges.append(round(total))
    edges[-1] = len(seen_by_all)
    more = pieces(seen_by_all, [b - a for a, b in pairwise(edges)])
    rows = Tokens.of([(start, end)])
    return [Product(rows=rows, keys=Tokens.union(each)) for each in zip(held, more, strict=True)]


def _pairs(keys: Tokens, start: int, end: int) -> int:
    """Causal pairs of the rows [start, end) with some keys before ``end``."""
    total = 0
    for first, stop in keys.spans:
        before, late = min(stop, start), max(first, start)
        total += max(before - first, 0) * (end - start)
        if stop > late:
            total += (stop - late) * (end - late + end - stop + 1) // 2
    return total


def product_pairs(product: Product) -> int:
    """Causal pairs that a place computes."""
    total = 0
    for first, stop in product.rows.spans:
        for start, end in product.keys.spans:
            # rows from ``start`` on see some of these keys, rows from ``end`` on all
            all_from, some_from = max(first, end), max(first, start)
            total += max(stop - all_from, 0) * (end - start)
            rows = min(stop, end) - some_from
            if rows > 0:
                total += rows * (some_from - start + 1 + min(stop, end) - start) // 2
    return total
