"""Who owns which tokens, who computes which scores, and what has to travel for that. Pure data, the same on all ranks.

There are ``heads`` ranks to each place. Ranks of one place first exchange heads, so that each has all tokens of the
place, its cell, for its share of the heads. Place x then computes the scores of pairs (query cell, key cell): rows of
other cells come to it and their partial outputs go back, keys of other cells come, and in the backward pass their
gradients go back. Only tokens with a visible score travel.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from attenio.cluster.executor.spans import Span, Tokens
from attenio.kernels.call.visibility import UNBOUNDED


@dataclass(frozen=True, kw_only=True)
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
        return _columns(self, place, cell)

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


@lru_cache(maxsize=65536)
def _columns(work: Assignment, place: int, cell: int) -> Tokens:
    seers = [query for query, k in work.pairs[place] if k == cell]
    mine = work.key_cells[cell]
    if not work.is_window:
        return mine if seers else Tokens(())
    return Tokens.union(mine.within(*work.visible_keys(s)) for q in seers for s in work.query_cells[q].spans)


def contiguous(tokens: int, ranks: int) -> tuple[tuple[Span, ...], ...]:
    """Tokens in order, as DTensor and ``torch.chunk`` cut them: the last ranks may have fewer, or none.

    >>> contiguous(7, 3)
    (((0, 3),), ((3, 6),), ((6, 7),))
    """
    step = -(-tokens // ranks)
    return tuple(((min(p * step, tokens), min((p + 1) * step, tokens)),) for p in range(ranks))


def balanced(tokens: int, ranks: int) -> tuple[tuple[Span, ...], ...]:
    """An early and a late chunk for every rank, so that each has as many scores to compute under a causal mask.

    >>> balanced(12, 3)
    (((0, 2), (10, 12)), ((2, 4), (8, 10)), ((4, 6), (6, 8)))
    """
    edges = [tokens * chunk // (2 * ranks) for chunk in range(2 * ranks + 1)]
    last = 2 * ranks - 1
    return tuple(((edges[p], edges[p + 1]), (edges[last - p], edges[last - p + 1])) for p in range(ranks))


def grid_pairs(queries: int, keys: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Place (i, j) of a grid computes the scores of the queries of row i with the keys of column j.

    >>> grid_pairs(1, 2)
    (((0, 0), (1, 0)), ((0, 1), (1, 1)))
    """
    return tuple(
        tuple((i * keys + x, y * keys + j) for y in range(queries) for x in range(keys))
        for i in range(queries)
        for j in range(keys)
    )
