"""Tiles at edges: in a small fast memory tiles of scores along the edges of a mask take more rows and keys."""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

from attenio.bounds.backward.five_products import counted_apart
from attenio.bounds.epochs import products_per_epoch, whole_words
from attenio.bounds.floats import Floats, larger, root, where
from attenio.bounds.lower_bound import MAKES_SCORES, OWN_SUMS, LowerBound, Strength
from attenio.bounds.mask_edges import Edges, edges_of
from attenio.bounds.recomputed_scores import counted_products
from attenio.workload import Direction, Workload

# What a score at an edge counts among those within: no more than the root of a half.
_WITHIN = 0.7071
# Above so many times the square of the products of a pair that count, other bounds are ahead.
_MOST_SQUARES = 2.0
# What products for dQ and dK count beside those for dP where probabilities may be given: each is a theorem.
_WHERE_GIVEN = (0.838, 0.9, 0.95)
# Where no score is within, none is at an edge.
_TINY = 1e-9

# The widths d and dv, and the words of fast memory.
Sizes = tuple[Floats, Floats, Floats]


class _Counted(NamedTuple):
    """Products of a pair that count for each kind of its words, and those of scores that no given one makes."""

    early: Floats
    late: Floats
    made: Floats

    @property
    def together(self) -> Floats:
        """Those of both kinds."""
        return self.early + self.late

    @property
    def at_edges(self) -> Floats:
        """What they come to at an edge, where the weights of both kinds are paid for apart."""
        return root(self.early * self.early + self.late * self.late)


def _counted(sizes: Sizes, direction: Direction, *, saved: bool = False) -> Iterator[_Counted]:
    """What may be counted of a pass; ``saved``, where probabilities may be given. Each way is a theorem."""
    d, value_dim, _ = sizes
    if direction is Direction.FORWARD:
        yield _Counted(counted_products(d, value_dim), 0.0, 0.0)
        return
    if not saved:
        for early, late in counted_apart(d, value_dim):
            yield _Counted(early, late, 0.0)
        return
    for share in _WHERE_GIVEN:
        made = 2.0 * share * sqrt(1.0 - share * share) * d
        yield _Counted(counted_products(made, value_dim) - made, counted_products(value_dim, 2.0 * share * d), made)


def may_be_ahead_in_small(sizes: Sizes, direction: Direction) -> Floats:
    """Whether a fast memory is so small that the bound may be ahead of others."""
    least: Floats = 0.0
    for counted in _counted(sizes, direction):
        least = larger(least, counted.together)
    return sizes[2] <= _MOST_SQUARES * least * least


def words_at_edges(edges: Edges, sizes: Sizes, direction: Direction, *, saved: bool = False) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory; ``saved``, whatever was saved."""
    fast_words, scores, length = sizes[2], edges.scores, edges.length
    room, corner = fast_words + 1.0, 2.0 * edges.count * edges.sharing
    within = scores - (1.0 - _WITHIN) * length
    kinds = 1.0 if saved or direction is Direction.FORWARD else 2.0
    best: Floats = 0.0
    for counted in _counted(sizes, direction, saved=saved):
        together, at_edges = counted.together, counted.at_edges
        weight = room * length * at_edges / larger(corner * within * together, _TINY)
        beyond, work = corner * weight * weight, within * together + weight * length * at_edges
        for times in (1.0, 2.0):
            time = 2.0 * room + times * beyond
            an_epoch = products_per_epoch(room + time + beyond)
            free = kinds * scores
            if saved:  # a given probability has no score that is made, one that is made no word that is given
                share, early = time * counted.made / an_epoch, _WITHIN + weight * counted.early / at_edges
                free = free + (scores - length) * larger(1.0 - share, 0.0) + length * larger(1.0 - share * early, 0.0)
            best = larger(best, whole_words(time * (work / an_epoch), free + (time - fast_words)))
    return where(edges.deepest >= 1.0, best, 0.0)


def tiles_at_edges(
    workload: Workload, fast_words: int, *, direction: Direction, saved: bool = False
) -> tuple[LowerBound, ...]:
    """The floor under a pass on one fast memory under a causal mask or a window, of small memories.

    A backward pass with ``saved`` may find probabilities saved; elsewhere scores are made in the run.

    Theorem: with S of Z scores at m edges, g heads that share keys and Z' = Z - 0.293 S, words >=
    2 G root(Z'²/(M + 1) + S²/2mg) - Z - M - 2 - (M + 1)² S²/mgZ'², G as for recomputed-scores; for the gradient, the G
    of five-products beside Z' and the root of the squares of its two parts beside S, and 2 Z is subtracted. Where
    probabilities may be given, of products that make scores none count, and Z is subtracted.
    Assumes: as recomputed-scores, or five-products; the same for all heads and sequences.
    Regime: ahead of these from about W²/100 words on under a window of W keys: 4 n d root(1 + W²/M) - n W, forward.
    Proof: docs/theory/tiles_at_edges.md

    >>> (bound,) = tiles_at_edges(Workload(n=8192, d=64, mask="window:64"), 4096, direction=Direction.FORWARD)
    >>> bound.words / (8192 * 64)
    4.5...
    """
    edges = edges_of(workload)
    if edges is None:
        return ()
    sizes, forward = (float(workload.d), float(workload.value_dim), float(fast_words)), direction is Direction.FORWARD
    words = words_at_edges(edges, sizes, direction, saved=saved) if may_be_ahead_in_small(sizes, direction) else 0
    made = ("each score is", "each output is a sum of products p·v, rescaled by row factors at will")
    if not forward:
        made = (
            "each score and each dP is",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
        )
    bound = LowerBound(
        theorem="tiles-at-edges" if forward else "gradient-tiles-at-edges",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS if forward or saved else MAKES_SCORES,
        regime="causal or a window, small fast memory: a tile across an edge of the mask has fewer scores",
        assumptions=(
            f"{made[0]} a sum of products of its own, and a word when it is used",
            made[1],
            *(() if forward or saved else ("no probability is given: scores are made in the run",)),
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/tiles_at_edges.md",
    )
    return (bound,)
