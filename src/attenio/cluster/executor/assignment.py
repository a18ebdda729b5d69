"""Who owns which tokens, who computes which scores, and what has to travel for that. Pure data, the same on all ranks.

There are ``heads`` ranks to each place. Ranks of one place first exchange heads, so that each has all tokens of the
place, its cell, for its share of the heads. Place x then computes the scores of pairs (query cell, key cell): rows of
other cells come to it and their partial outputs go back, keys of other cells come, and in the backward pass their
gradients go back. Only tokens with a visible score travel.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import assert_never

from attenio.cluster.grid import Grid
from attenio.cluster.partition import Sharding, even_sizes
from attenio.cluster.spans import Span, Tokens
from attenio.errors import InvalidInput
from attenio.kernels.call.visibility import UNBOUNDED


@dataclass(frozen=True, kw_only=True, eq=False)
class Assignment:
    """Rank p = place x heads + head group owns spans of queries and of keys, in the order of its memory.

    Key k may be seen by query q if q + below <= k <= q + above.
    """

    heads: int
    queries: tuple[tuple[Span, ...], ...]
    keys: tuple[tuple[Span, ...], ...]
    pairs: tuple[tuple[tuple[int, int], ...], ...]
    below: int
    above: int

    @property
    def places(self) -> int:
        """How many places there are."""
        return len(self.pairs)

    @property
    def is_window(self) -> bool:
        """Whether keys far before a query are hidden."""
        return self.below > -UNBOUNDED

    def rank(self, place: int, group: int) -> int:
        """The rank of a head group at a place."""
        return place * self.heads + group

    @cached_property
    def query_cells(self) -> tuple[Tokens, ...]:
        """Queries of every place."""
        return self._cells(self.queries)

    @cached_property
    def key_cells(self) -> tuple[Tokens, ...]:
        """Keys of every place."""
        return self._cells(self.keys)

    @cached_property
    def key_steps(self) -> tuple[int, ...]:
        """At which steps any place sends keys so many places further; all ranks go through these in the same order."""
        places = range(self.places)
        return tuple(step for step in places if step and any(self._sends(place, step) for place in places))

    def _sends(self, place: int, step: int) -> bool:
        return len(self.columns((place + step) % self.places, place)) > 0

    def _cells(self, owned: tuple[tuple[Span, ...], ...]) -> tuple[Tokens, ...]:
        ranks = range(0, len(owned), self.heads)
        return tuple(Tokens.of(span for rank in owned[p : p + self.heads] for span in rank) for p in ranks)

    def rows(self, place: int, cell: int) -> Tokens:
        """Queries of a cell that a place computes with."""
        return self.query_cells[cell] if any(q == cell for q, _ in self.pairs[place]) else Tokens(())

    def columns(self, place: int, cell: int) -> Tokens:
        """Keys of a cell that a place computes with; under a window those that its queries see."""
        known = self._known_columns
        if (place, cell) not in known:
            known[place, cell] = self._seen_columns(place, cell)
        return known[place, cell]

    @cached_property
    def _known_columns(self) -> dict[tuple[int, int], Tokens]:
        return {}

    def _seen_columns(self, place: int, cell: int) -> Tokens:
        seers = [query for query, key in self.pairs[place] if key == cell]
        mine = self.key_cells[cell]
        if not self.is_window:
            return mine if seers else Tokens(())
        return Tokens.union(mine.within(*self.visible_keys(span)) for q in seers for span in self.query_cells[q].spans)

    def seeing(self, place: int, key_cell: int, query_cells: tuple[int, ...]) -> Tokens:
        """Queries of these cells whose scores with a key cell a place computes."""
        mine = (q for q, k in self.pairs[place] if k == key_cell and q in query_cells)
        return Tokens.union(self.query_cells[q] for q in mine)

    def visible_queries(self, keys: Span) -> Span:
        """Positions from which some of these keys are visible."""
        return keys[0] - self.above, keys[1] - self.below

    def visible_keys(self, queries: Span) -> Span:
        """Positions that are visible from some of these queries."""
        return queries[0] + self.below, queries[1] + self.above


def spans_of(tokens: int, ranks: int, sharding: Sharding) -> tuple[tuple[Span, ...], ...]:
    """The spans of every rank as ``partition`` shares tokens out.

    >>> spans_of(10, 3, Sharding.ZIGZAG)
    (((0, 2), (9, 10)), ((2, 4), (8, 9)), ((4, 6), (6, 8)))
    """
    match sharding:
        case Sharding.CONTIGUOUS:
            return tuple((span,) for span in _pieces(even_sizes(tokens, ranks).tolist()))
        case Sharding.ZIGZAG:
            chunks = _pieces(even_sizes(tokens, 2 * ranks).tolist())
            return tuple((chunks[p], chunks[-1 - p]) for p in range(ranks))
        case Sharding.STRIPED:
            raise InvalidInput("striped tokens are planned and not run, a message for each; use zigzag")
        case _:
            assert_never(sharding)


def chunked(tokens: int, parts: tuple[int, ...]) -> tuple[tuple[Span, ...], ...]:
    """The spans of every rank as DTensor and ``torch.chunk`` cut tokens, once for each dimension of a mesh.

    >>> chunked(7, (3,))
    (((0, 3),), ((3, 6),), ((6, 7),))
    """
    spans = [(0, tokens)]
    for count in parts:
        finer = []
        for start, stop in spans:
            step = max(1, -(-(stop - start) // count))
            finer += [(min(start + i * step, stop), min(start + (i + 1) * step, stop)) for i in range(count)]
        spans = finer
    return tuple((span,) for span in spans)


def _pieces(sizes: list[int]) -> list[Span]:
    edges = [0, *accumulate(sizes)]
    return list(pairwise(edges))


def grid_pairs(grid: Grid) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The place at row i and column j of a grid computes the scores of the queries of the row with the column's keys.

    >>> grid_pairs(Grid(queries=1, keys=2))
    (((0, 0), (1, 0)), ((0, 1), (1, 1)))
    """
    a, b = grid.queries, grid.keys
    return tuple(tuple((i * b + x, y * b + j) for y in range(a) for x in range(b)) for i in range(a) for j in range(b))
