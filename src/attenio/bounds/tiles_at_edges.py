"""Tiles at edges: in a small fast memory tiles of scores along the edges of a mask take more rows and keys."""

from collections.abc import Iterator

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


def _products(d: Floats, value_dim: Floats, direction: Direction) -> Iterator[tuple[Floats, Floats]]:
    """Products of a pair that count, and the root of the sum of squares of those of either kind of pair words."""
    if direction is Direction.FORWARD:
        counted = counted_products(d, value_dim)
        yield counted, counted
        return
    for early, late in counted_apart(d, value_dim):
        yield early + late, root(early * early + late * late)


def may_be_ahead_in_small(sizes: tuple[Floats, Floats, Floats], direction: Direction) -> Floats:
    """Whether a fast memory is so small that the bound may be ahead of others; sizes are d, dv and M."""
    d, value_dim, fast_words = sizes
    least: Floats = 0.0
    for counted, _ in _products(d, value_dim, direction):
        least = larger(least, counted)
    return fast_words <= _MOST_SQUARES * least * least


def words_at_edges(edges: Edges, sizes: tuple[Floats, Floats, Floats], direction: Direction) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory; sizes are d, dv and M."""
    d, value_dim, fast_words = sizes
    room, corner = fast_words + 1.0, 2.0 * edges.count * edges.sharing
    within = edges.scores - (1.0 - _WITHIN) * edges.length
    free = edges.scores if direction is Direction.FORWARD else 2.0 * edges.scores
    best: Floats = 0.0
    for counted, at_edges in _products(d, value_dim, direction):
        weight = room * edges.length * at_edges / larger(corner * within * counted, 1e-9)
        beyond, work = corner * weight * weight, within * counted + weight * edges.length * at_edges
        for times in (1.0, 2.0):
            length = 2.0 * room + times * beyond
            leading = length * (work / products_per_epoch(room + length + beyond))
            best = larger(best, whole_words(leading, free + (length - fast_words)))
    return where(edges.deepest >= 1.0, best, 0.0)


def tiles_at_edges(workload: Workload, fast_words: int, *, direction: Direction) -> tuple[LowerBound, ...]:
    """The floor under a pass on one fast memory under a causal mask or a window, of small memories.

    Theorem: with S of Z scores at m edges, g heads that share keys and Z' = Z - 0.293 S, words >=
    2 G root(Z'²/(M + 1) + S²/2mg) - Z - M - 2 - (M + 1)² S²/mgZ'², G as for recomputed-scores; for the gradient, the G
    of five-products beside Z' and the root of the squares of its two parts beside S, and 2 Z is subtracted.
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
    words = words_at_edges(edges, sizes, direction) if may_be_ahead_in_small(sizes, direction) else 0
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
        covers=OWN_SUMS if forward else MAKES_SCORES,
        regime="causal or a window, small fast memory: a tile across an edge of the mask has fewer scores",
        assumptions=(
            f"{made[0]} a sum of products of its own, and a word when it is used",
            made[1],
            *(() if forward else ("no probability is given: scores are made in the run",)),
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/tiles_at_edges.md",
    )
    return (bound,)
