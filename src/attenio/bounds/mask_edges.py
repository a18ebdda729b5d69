"""Mask edges: where rows begin or end one after the other, rectangles of rows and keys cover what no row needs."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from attenio.bounds.backward.gradient_rows import (
    Weights,
    budget_for,
    even_weights,
    weighed_products_per_epoch,
    weights,
)
from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import BACKWARD_SUMS, FORWARD_SUMS, OWN_SUMS, LowerBound, Strength
from attenio.bounds.whole_epochs import best_whole_epochs
from attenio.masks import Causal, SlidingWindow
from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import smaller as counts_smaller
from attenio.masks.patterns.sums import where as counts_where
from attenio.workload import Direction, Workload

# What is subtracted from the work of an epoch, and this work, are products in floating point.
_SAFETY = 1.0 - 1e-12
# Budgets of an epoch that are tried, in fast memories, and how much more a pair in a strip weighs with them, times what
# makes held pairs do no more than fresh ones, which is 16 at most.
_TRIED = ((2.0, 1.0), (2.2, 2.0), (2.5, 1.0), (2.6, 2.0), (3.0, 2.0))
_STEEPEST = 16.0
# Fast memories, in rows or keys times the keys that a row needs, outside of which other bounds are ahead.
_LEAST_SHARE, _MOST_SHARE = 1.0 / 12.0, 3.0 / 4.0


class Edges(NamedTuple):
    """The edges of a band, or of arrays of bands: how many, heads that share keys, the deepest strips, all scores.

    ``length`` counts the required scores at the edges themselves, ``strips`` those in strips of a depth along them.
    """

    count: Floats
    sharing: Floats
    deepest: Floats
    scores: Floats
    length: Floats
    strips: Callable[[Floats], Floats]


def edges_of_band(band: Band, sharing: Floats, total: Callable[[Counts], Floats]) -> Edges:
    """Those of a band; ``total`` makes of a count of one head that of all heads and sequences."""
    ends, begins = band.end_key(0 * band.rows) < band.keys, band.first_key(band.rows - 1) > 0
    width = band.left + band.right + 1

    def strips(depth: Floats) -> Floats:
        deep = int(depth) if type(depth) is float else depth.astype("int64")
        sides = {"rows": band.rows, "keys": band.keys, "shift": band.shift}
        last = Band(**sides, left=deep - 1 - band.right, right=band.right)
        first = Band(**sides, left=band.left, right=deep - 1 - band.left)
        return total(counts_where(ends, last.scores, 0) + counts_where(begins, first.scores, 0))

    deepest = counts_where(ends & begins, width // 2, width)
    length = strips(deepest * 0.0 + 1.0)
    return Edges(ends * 1.0 + begins * 1.0, sharing, deepest * 1.0, total(band.scores), length, strips)


def band_of(workload: Workload) -> Band | None:
    """The band of a causal or a window mask."""
    if not isinstance(workload.mask, Causal | SlidingWindow):
        return None
    ((band, _),) = workload.separate_patterns
    assert isinstance(band, Band)
    return band


def edges_of(workload: Workload) -> Edges | None:
    """Those of a causal or a window mask; None if it has none."""
    band = band_of(workload)
    if band is None:
        return None
    heads = workload.batch * workload.heads
    found = edges_of_band(band, float(workload.group), lambda count: float(heads * int(count)))
    return found if found.count and found.deepest >= 1.0 else None


def weights_and_rooms(d: Floats, value_dim: Floats, direction: Direction) -> Iterator[tuple[Weights, Floats]]:
    """What products of a pass weigh, and the words that a row may have, times those that a key may have."""
    both = d + value_dim
    if direction is Direction.FORWARD:
        narrow = smaller(d, value_dim)
        each = (d + narrow) * (d + narrow) / narrow
        yield (each, each, each * value_dim), both * both
        return
    room = 2.0 * (d + both) * both
    yield weights(d, value_dim), room
    if any_of(value_dim > d):
        yield even_weights(d, value_dim), room


def may_be_ahead(band: Band, sizes: tuple[Floats, Floats, Floats], direction: Direction) -> Floats:
    """Whether a fast memory is so large, and so small, that other bounds may say less; sizes are d, dv and M."""
    d, value_dim, fast_words = sizes
    weigh, room = next(weights_and_rooms(d, value_dim, direction))
    heavy, width = larger(weigh[0], weigh[1]), counts_smaller(band.left + band.right + 1, band.keys)
    share = fast_words / (root(room) * width)
    return (heavy * heavy <= 2.0 * fast_words) & (share >= _LEAST_SHARE) & (share <= _MOST_SHARE)


def edge_words(edges: Edges, d: Floats, value_dim: Floats, fast_words: Floats, direction: Direction) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory."""
    best: Floats = 0.0
    for weigh, room in weights_and_rooms(d, value_dim, direction):
        heavy = larger(weigh[0], weigh[1])
        for share, times in _TRIED:
            steep = rounded_down(root(27.0 / 16.0 * share * fast_words) / heavy) - 1.0
            more = times * smaller(larger(steep, 1.0), _STEEPEST)
            best = larger(best, _words(edges, (weigh, room), more, share, fast_words))
    return where(edges.deepest >= 1.0, best, 0.0)


def _words(edges: Edges, pair: tuple[Weights, Floats], more: Floats, share: float, fast_words: Floats) -> Floats:
    """With pairs in strips that weigh so much more, and strips that are best for epochs of so many fast memories."""
    (of_first, of_second, of_pair), room = pair
    weigh = (1.0 + more) * of_first, (1.0 + more) * of_second, (1.0 + more) * of_pair
    corner = edges.count * edges.sharing * room * (more * (more + 1.0) / 2.0)
    fresh, line = weighed_products_per_epoch(share * fast_words, weigh), more * edges.length
    scores = larger(edges.scores, 1.0)
    under = corner * scores + root(corner * corner * scores * scores + corner * line * line * fresh)
    depth = smaller(larger(rounded_down(line * fresh / under), 1.0), larger(edges.deepest, 1.0))
    beyond = corner * depth * depth
    work = of_pair * (edges.scores + more * edges.strips(depth))

    def budget(part: Floats) -> Floats:
        """Words that an epoch needs for so much; none if its corners may do that."""
        rest = part * _SAFETY - beyond
        return where(rest > 0.0, budget_for(larger(rest, 1.0), weigh), 0.0)

    return best_whole_epochs((work / (fresh + beyond),), work, budget, fast_words)


def mask_edges(workload: Workload, fast_words: int) -> tuple[LowerBound, ...]:
    """The floor under every forward or backward pass on one fast memory, under a causal mask or a window.

    Theorem: pairs in strips of depth b along m edges of the mask weigh 1 + r, others 1. For whole r, b, k and T with
    k (W(M + T) + m g C b² r(r+1)/2) < G (Z + r S), S being the pairs in strips and g the heads that share keys,
    words >= M + k T. W is that of output-epochs or gradient-rows with pairs 1 + r times as heavy.
    Assumes: as whole-epochs.
    Regime: ahead of whole-epochs under windows of W keys from dW/4 words on, and under causal masks from nd/4 on; the
    function says nothing below dW/6 and above 3dW/2 words (of equal widths, forward), nor below 8d².
    Proof: docs/theory/mask_edges.md

    >>> (bound,) = mask_edges(Workload(n=65536, d=64, mask="window:4096"), 4096 * 64)
    >>> bound.words / (65536 * 64)
    4.76...
    """
    band, edges = band_of(workload), edges_of(workload)
    if band is None or edges is None or workload.direction is Direction.TRAINING:
        return ()
    direction, sizes = workload.direction, (float(workload.d), float(workload.value_dim), float(fast_words))
    forward = direction is Direction.FORWARD
    bound = LowerBound(
        theorem="mask-edges" if forward else "gradient-mask-edges",
        words=int(edge_words(edges, *sizes, direction)) if may_be_ahead(band, sizes, direction) else 0,
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="causal or a window: M + k T, where a tile across an edge of the mask holds pairs that no row needs",
        assumptions=(
            *(FORWARD_SUMS if forward else BACKWARD_SUMS),
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/mask_edges.md",
    )
    return (bound,)
