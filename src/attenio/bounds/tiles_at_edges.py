"""Tiles at edges: in a small fast memory tiles of scores along the edges of a mask take more rows and keys."""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

from attenio.bounds.backward.five_products import counted_apart, with_some_granted
from attenio.bounds.epochs import product_epochs_from_empty, whole_words
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
    room, corner = sizes[2] + 1.0, 2.0 * edges.count * edges.sharing
    within = edges.scores - (1.0 - _WITHIN) * edges.length
    free = edges.scores if direction is Direction.FORWARD else 2.0 * edges.scores
    best: Floats = 0.0
    for counted in _counted(sizes, direction, saved=saved):
        together, at_edges = counted.together, counted.at_edges
        weight = room * edges.length * at_edges / larger(corner * within * together, _TINY)
        weighed = _Weighed(
            within * together + weight * edges.length * at_edges,
            corner * weight * weight,
            _WITHIN + weight * counted.early / at_edges,
        )
        if saved:
            best = larger(best, _where_given(edges, sizes[2], weighed, counted.made))
        else:
            best = larger(best, product_epochs_from_empty(weighed.work, sizes[2], weighed.beyond, free))
    if direction is not Direction.FORWARD and not saved:
        best = larger(best, _with_some_granted(edges, sizes))
    return where(edges.deepest >= 1.0, best, 0.0)


def _with_some_granted(edges: Edges, sizes: Sizes) -> Floats:
    """The bound of the gradient where all products for dQ and dK of scores at no edge count."""
    (d, value_dim, fast_words), at_edges = sizes, edges.length
    corner, best = 2.0 * edges.count * edges.sharing, 0.0 * fast_words
    for counted in with_some_granted(d, value_dim):
        early, late = counted.early, counted.late_at_edges
        work = (edges.scores - at_edges) * (early + counted.late) + _WITHIN * at_edges * (early + late)
        heavy = at_edges * root(early * early + late * late)
        weight = (fast_words + 1.0) * heavy / larger(corner * work, _TINY)
        some = counted.words(work + weight * heavy, value_dim, fast_words, 2.0 * edges.scores, corner * weight * weight)
        best = larger(best, some)
    return best


class _Weighed(NamedTuple):
    """All that is counted, words that edges are worth to an epoch, and what early products at an edge weigh."""

    work: Floats
    beyond: Floats
    early: Floats


def _where_given(edges: Edges, fast_words: Floats, weighed: _Weighed, made: Floats) -> Floats:
    """The bound where probabilities may be given, of which no score is made, or be made, of which no word is given."""
    budget, at_edges = fast_words + 1.0 + weighed.beyond, edges.length
    rate, epochs = 2.0 / root(budget), larger(weighed.work / (budget * root(budget)), _TINY)
    free = edges.scores + (edges.scores - at_edges) * larger(1.0 - rate * made, 0.0)
    free = free + at_edges * larger(1.0 - rate * made * weighed.early, 0.0)
    words = whole_words(rate * weighed.work, free + budget / (8.0 * epochs) - fast_words)
    return where(epochs >= 1.0, words, 0.0)


def tiles_at_edges(
    workload: Workload, fast_words: int, *, direction: Direction, saved: bool = False
) -> tuple[LowerBound, ...]:
    """The floor under a pass on one fast memory under a causal mask or a window, of small memories.

    A backward pass with ``saved`` may find probabilities saved; elsewhere scores are made in the run.

    Theorem: with S of Z scores at m edges, g heads that share keys, Z' = Z - 0.293 S, r >= 0 and x = 2mg r², words >=
    M + k T - Z if k W < G (Z' + r S) with W = ((M + T + 1 + x)/3)^1.5, G as for recomputed-scores: about
    2 G root(Z'²/M + S²/2mg) - Z + M. For the gradient, G of five-products beside Z', the root of the squares of its two
    parts beside S, and 2 Z subtracted. Where probabilities may be given, products of scores do not count, and Z is
    subtracted, or up to 2 Z above about 2 d² words, or 2 d W under a short window.
    Assumes: as recomputed-scores, or five-products; the same for all heads and sequences.
    Regime: ahead of these from about W²/100 words on under a window of W keys: 4 n d root(1 + W²/M) - n W, forward.
    Proof: docs/theory/tiles_at_edges.md

    >>> (bound,) = tiles_at_edges(Workload(n=8192, d=64, mask="window:64"), 4096, direction=Direction.FORWARD)
    >>> bound.words / (8192 * 64)
    4.6...
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
