"""Mask edges: where rows begin or end one after the other, rectangles of rows and keys cover what no row needs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import BACKWARD_SUMS, FORWARD_SUMS, OWN_ROW_SUMS, OWN_SUMS, LowerBound, Strength
from attenio.bounds.row_sums import ROW_SUMS
from attenio.bounds.weighed_epochs import Epoch, epochs_of
from attenio.bounds.whole_epochs import best_whole_epochs
from attenio.masks import Causal, SlidingWindow
from attenio.masks.patterns import Band
from attenio.masks.patterns.lazy import lazy
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import smaller as counts_smaller
from attenio.masks.patterns.sums import sum_clipped
from attenio.masks.patterns.sums import where as counts_where
from attenio.workload import Direction, Workload

# What is subtracted from the work of an epoch, and this work, are products in floating point.
_SAFETY = 1.0 - 1e-12
_ROUNDED = 1.0 + 1e-9
# Budgets of an epoch that are tried, in fast memories. Pairs in a strip weigh as much more as leaves held pairs no
# better than fresh ones, up to a limit from where on the corners of the edges hardly change.
_TRIED = (2.0, 2.1, 2.2, 2.35, 2.5, 2.6, 3.0, 3.3)
_LEAST, _STEEPEST = 1.0 / 8.0, 64.0
# Fast memories for which epochs of so many are long enough for fresh pairs to do most.
_LONG = 2.8
# Fast memories, in rows or keys times the keys that a row needs, outside of which other bounds are ahead.
_LEAST_SHARE, _MOST_SHARE = 1.0 / 40.0, 3.0 / 4.0


@dataclass(frozen=True)
class Edges:
    """The edges of a band, or of arrays of bands, of which ``sharing`` heads share keys.

    ``total`` makes of a count of one head that of all heads and sequences.
    """

    band: Band
    sharing: Floats
    total: Callable[[Counts], Floats]

    @lazy
    def ends(self) -> Counts:
        """Whether rows end one after the other."""
        return self.band.end_key(0 * self.band.rows) < self.band.keys

    @lazy
    def begins(self) -> Counts:
        """Whether rows begin one after the other."""
        return self.band.first_key(self.band.rows - 1) > 0

    @lazy
    def count(self) -> Floats:
        """How many there are."""
        return self.ends * 1.0 + self.begins * 1.0

    @lazy
    def deepest(self) -> Floats:
        """The depth of the deepest strips along them."""
        width = self.band.left + self.band.right + 1
        return counts_where(self.ends & self.begins, width // 2, width) * 1.0

    @lazy
    def scores(self) -> Floats:
        """All required scores."""
        return self.total(self.band.scores)

    @lazy
    def rows(self) -> Floats:
        """Rows that need a key."""
        return self.total(self.band.touched_rows)

    @lazy
    def length(self) -> Floats:
        """The required scores at the edges themselves."""
        return self.strips(self.deepest * 0.0 + 1.0)

    def strips(self, depth: Floats) -> Floats:
        """Those in strips of a depth along them."""
        deep = int(depth) if type(depth) is float else depth.astype("int64")
        (last, before_last), (first, before_first) = self._last, self._first
        scores = counts_where(self.ends, before_last - self._before(last - deep), 0) if any_of(self.ends) else 0 * last
        if any_of(self.begins):
            scores = scores + counts_where(self.begins, self._before(first + deep) - before_first, 0)
        return self.total(scores)

    @lazy
    def _last(self) -> tuple[Counts, Counts]:
        """One past the last key of row 0, and scores before it; none where no row ends."""
        last = self.band.shift + self.band.right + 1
        return last, self._before(last) if any_of(self.ends) else 0 * last

    @lazy
    def _first(self) -> tuple[Counts, Counts]:
        """The first key of row 0, and scores before it; none where no row begins."""
        first = self.band.shift - self.band.left
        return first, self._before(first) if any_of(self.begins) else 0 * first

    def _before(self, key: Counts) -> Counts:
        """Scores of all rows before a key that moves on with them, which is this one for row 0."""
        return sum_clipped(0, self.band.rows - 1, 1, key, self.band.keys)


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
    found = Edges(band, float(workload.group), lambda count: float(heads * int(count)))
    return found if found.count and found.deepest >= 1.0 else None


def corner_weight(more: Floats) -> Floats:
    """What rows and keys at an edge weigh beyond all of their pairs, for strips of depth 1 that weigh so much more.

    >>> [corner_weight(more) for more in (0.5, 1.0, 1.5, 2.0)]
    [0.5, 1.0, 2.0, 3.0]
    """
    whole = rounded_down(more)
    return (whole + 1.0) * (2.0 * more - whole) / 2.0


def may_be_ahead(band: Band, sizes: tuple[Floats, Floats, Floats], direction: Direction) -> Floats:
    """Whether a fast memory is so large, and so small, that other bounds may say less; sizes are d, dv and M."""
    d, value_dim, fast_words = sizes
    epoch = next(epochs_of(d, value_dim, direction, sums=False))
    width = counts_smaller(band.left + band.right + 1, band.keys)
    share = fast_words / (root(epoch.room) * width)
    large = epoch.held(_LONG * fast_words) <= _LONG * fast_words * _LONG * fast_words / 4.0
    return large & (share >= _LEAST_SHARE) & (share <= _MOST_SHARE)


def most_at_edges(edges: Edges, sizes: tuple[Floats, Floats, Floats], direction: Direction, *, sums: bool) -> Floats:
    """Words that ``edge_words`` does not exceed, found without looking at strips; sizes are d, dv and M."""
    d, value_dim, fast_words = sizes
    longest, scores, most = _TRIED[-1] * fast_words, larger(edges.scores, 1.0), 0.0 * fast_words
    for epoch in epochs_of(d, value_dim, direction, sums=sums):
        more = _more_in_strips(longest * longest / 4.0, epoch.held(longest))
        steep = edges.count * more * more / (corner_weight(more) * edges.sharing * epoch.room)
        gain = edges.rows * fast_words
        pairs = scores + steep * gain * gain / (4.0 * scores)
        words = (fast_words + epoch.of_pair * pairs / fast_words) * _ROUNDED - epoch.free * edges.rows
        most = larger(most, words)
    return most


def edge_words(
    edges: Edges, d: Floats, value_dim: Floats, fast_words: Floats, direction: Direction, *, sums: bool = False
) -> Floats:
    """The bound in whole words on one fast memory; ``sums`` counts those of rows."""
    best: Floats = 0.0
    for epoch in epochs_of(d, value_dim, direction, sums=sums):
        tried = [_strips_for(edges, epoch, share * fast_words, fast_words) for share in _TRIED]
        for strips in sorted(tried, key=_Strips.at_most, reverse=True):
            if strips.most > best:
                best = larger(best, _words(edges.rows, epoch, strips, fast_words))
    return where(edges.deepest >= 1.0, best, 0.0)


def raised_at_edges(
    known: Floats, edges: Edges, sizes: tuple[Floats, Floats, Floats], direction: Direction, *, sums: bool
) -> Floats:
    """The same for arrays of edges and of d, dv and M, or words that are known where these are more."""
    d, value_dim, fast_words = sizes
    best = known.copy()
    for place, epoch in enumerate(epochs_of(d, value_dim, direction, sums=sums)):
        tried = _strips_for(edges, epoch, np.multiply.outer(_TRIED, fast_words), fast_words)
        first = np.arange(len(_TRIED), dtype=np.int64)[:, None] == tried.most.argmax(axis=0)
        for turn in (first, ~first):  # the most promising first, after which few others have to be tried
            share, some = np.nonzero(turn & (tried.most > best))
            strips = _Strips(*(each[share, some] for each in tried))
            for of_some in islice(epochs_of(d[some], value_dim[some], direction, sums=sums), place, place + 1):
                np.maximum.at(best, some, _words(edges.rows[some], of_some, strips, fast_words[some]))
    return np.where(edges.deepest >= 1.0, best, known)


class _Strips(NamedTuple):
    """Strips along the edges: what all pairs weigh with them, and how many times as much those in strips do.

    ``beyond`` is what rows and keys at an edge weigh beyond their pairs, ``done`` the most that an epoch does, and
    ``most`` words that the bound does not exceed.
    """

    work: Floats
    times: Floats
    beyond: Floats
    done: Floats
    most: Floats

    def at_most(self) -> Floats:
        """To sort them by: the most promising first, after which few others have to be tried."""
        return self.most


def _more_in_strips(fresh: Floats, held: Floats) -> Floats:
    """How much more pairs in strips weigh: the more, the longer epochs are, which do so much with either pairs."""
    return smaller(larger(fresh / held - 1.0, _LEAST), _STEEPEST)


def _strips_for(edges: Edges, epoch: Epoch, tried: Floats, fast_words: Floats) -> _Strips:
    """Strips that are best for epochs of so many words.

    An epoch that does y, of which corners do c, needs no more than 2 root(y - c) words, as pairs may be made afresh.
    So k epochs of G/k say M + k (2 root(G/k - c) - M) at most, which for any k is M + G/s or less with s² = M s + c.
    """
    fresh, held = tried * tried / 4.0, epoch.held(tried)
    more = _more_in_strips(fresh, held)
    corner = edges.count * edges.sharing * epoch.room * corner_weight(more)
    line, scores = more * edges.length, larger(edges.scores, 1.0)
    under = corner * scores + root(corner * corner * scores * scores + corner * line * line * fresh)
    depth = smaller(larger(rounded_down(line * fresh / under), 1.0), larger(edges.deepest, 1.0))
    beyond, times = corner * depth * depth, 1.0 + more
    work = epoch.of_pair * (edges.scores + more * edges.strips(depth)) - epoch.of_row * times * edges.rows
    work = larger(work, 0.0)
    words = (fast_words + root(fast_words * fast_words + 4.0 * beyond)) / 2.0
    most = (fast_words + work / words) * _ROUNDED - epoch.free * edges.rows
    return _Strips(work, times, beyond, larger(fresh, times * held) + beyond, most)


def _words(rows: Floats, epoch: Epoch, strips: _Strips, fast_words: Floats) -> Floats:
    """The bound with such strips, for so many rows."""

    def budget(part: Floats) -> Floats:
        """Words that an epoch needs for so much; none if its corners may do that."""
        rest = part * _SAFETY - strips.beyond
        return where(rest > 0.0, epoch.budget(larger(rest, 1.0), strips.times), 0.0)

    best = best_whole_epochs((strips.work / strips.done,), strips.work, budget, fast_words)
    return larger(best - epoch.free * rows, 0.0)


def mask_edges(workload: Workload, fast_words: int) -> tuple[LowerBound, ...]:
    """The floor under every forward or backward pass on one fast memory, under a causal mask or a window.

    Theorem: pairs in strips of depth b along m edges of the mask weigh 1 + r, others 1. For r >= 0 and whole b, k and T
    with k (W(M + T) + m g C b² K(r)) < G (Z + r S), S being the pairs in strips, g the heads that share keys and
    K(r) = r(r+1)/2 for whole r, words >= M + k T. W is that of output-epochs or gradient-rows with pairs that flow in
    1 + r times as heavy. With the sums of rows, words >= M + k T - R for R rows, and W, G and C are those of row-sums.
    Assumes: as whole-epochs; with sums as row-sums.
    Regime: ahead of whole-epochs under windows of W keys, and under causal masks of n, and of short-periods up to about
    dW words, backward up to about 7dW/4; by a few thousandths below dW/8, and the function says nothing below
    dW/20 and above 3dW/2 words (of equal widths, forward), nor forward below 1.9d².
    Proof: docs/theory/mask_edges.md

    >>> alone, with_sums = mask_edges(Workload(n=65536, d=16, mask="window:4096"), 4096 * 16)
    >>> alone.words / (65536 * 16), with_sums.words / (65536 * 16)
    (4.8..., 4.9...)
    """
    band, edges = band_of(workload), edges_of(workload)
    if band is None or edges is None or workload.direction is Direction.TRAINING:
        return ()
    direction, sizes = workload.direction, (float(workload.d), float(workload.value_dim), float(fast_words))
    forward, ahead = direction is Direction.FORWARD, bool(may_be_ahead(band, sizes, direction))

    def bound(theorem: str, covers: str, sums: tuple[str, ...], *, of_rows: bool) -> LowerBound:
        return LowerBound(
            theorem=theorem,
            words=int(edge_words(edges, *sizes, direction, sums=of_rows)) if ahead else 0,
            strength=Strength.ORDINARY,
            covers=covers,
            regime="causal or a window: M + k T, where a tile across an edge of the mask holds pairs that no row needs",
            assumptions=(*sums, "recomputation allowed", "one fast memory, empty at the beginning"),
            page="docs/theory/mask_edges.md",
        )

    if not forward:
        return (bound("gradient-mask-edges", OWN_SUMS, BACKWARD_SUMS, of_rows=False),)
    sums = bound("mask-edges-and-sums", OWN_ROW_SUMS, (*FORWARD_SUMS, ROW_SUMS), of_rows=True)
    return bound("mask-edges", OWN_SUMS, FORWARD_SUMS, of_rows=False), sums
