"""Five products: what is made for a gradient, scores too, pays beside what is made of it, recomputed or not."""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

from attenio.bounds.epochs import product_epochs, product_epochs_from_empty
from attenio.bounds.floats import Floats, larger, root, smaller, where
from attenio.bounds.lower_bound import (
    MAKES_SCORES,
    LowerBound,
    Strength,
    beside_leading_words,
    between_units,
    room_of_products,
)
from attenio.bounds.recomputed_scores import counted_products
from attenio.bounds.whole_products import budget_without_fresh_pairs, whole_product_words
from attenio.quantities import show_number
from attenio.workload import Workload

# What products for dQ and dK count beside those for dP, and what those of scores then do: each is a theorem.
_COUNTS = tuple((late, 2.0 * late * sqrt(1.0 - late * late)) for late in (0.76, 0.8, 0.838))
# The same where all of them count, and what pairs that are made afresh do beyond is granted: each is a theorem.
_GRANTED = tuple((late, 2.0 * late * sqrt(1.0 - late * late)) for late in (0.838, 0.85, 0.866))
# So many words an epoch has at most there, over those of fast memory and one.
_LONGEST = 3.15


class Granted(NamedTuple):
    """Products of a pair that count, for each kind of its words, of late ones at an edge, and what is granted."""

    early: Floats
    late: Floats
    late_at_edges: Floats
    beyond: Floats

    def words(self, work: Floats, value_dim: Floats, fast_words: Floats, free: Floats, beyond: Floats = 0.0) -> Floats:
        """The bound for so much work on one fast memory, with edges that are worth ``beyond`` words to an epoch."""
        longest = _LONGEST * (fast_words + 1.0 + beyond)
        more = self.beyond * root(longest / 3.0) / (4.0 * value_dim)
        some = work / (1.0 + more + more * more)
        return product_epochs_from_empty(some, fast_words, beyond, free, longest - beyond)


def with_some_granted(d: Floats, value_dim: Floats) -> Iterator[Granted]:
    """Ways to count where little is made afresh in an epoch; each is a theorem."""
    for late, early in _GRANTED:
        at_edges = counted_products(value_dim, 2.0 * late * d)
        beyond = larger(sqrt(late) - root(value_dim / (2.0 * d)), 0.0)
        yield Granted(counted_products(early * d, value_dim), value_dim + 2.0 * late * d, at_edges, beyond * beyond)


def counted_apart(d: Floats, value_dim: Floats) -> Iterator[tuple[Floats, Floats]]:
    """The products of a pair that count, of scores and dV and of dP, dQ and dK; each way is a theorem."""
    for late, early in _COUNTS:
        yield counted_products(early * d, value_dim), counted_products(value_dim, 2.0 * late * d)


def _counted(d: Floats, value_dim: Floats) -> Floats:
    """The products of a pair that count at any size of fast memory, of 3d + 2dv."""
    best: Floats = 0.0
    for early, late in counted_apart(d, value_dim):
        best = larger(best, early + late)
    return best


def five_product_words(scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words, for floats or arrays of floats."""
    work = scores * _counted(d, value_dim)
    alone = product_epochs_from_empty(work, fast_words, free=2.0 * scores)
    for counted in with_some_granted(d, value_dim):
        some = scores * (counted.early + counted.late)
        alone = larger(alone, counted.words(some, value_dim, fast_words, 2.0 * scores))
    alone = where(units > 1.0, 0.0, alone)
    best = larger(alone, product_epochs(work, fast_words, units, free=2.0 * scores, fraction=1.0))
    products, narrow = 3.0 * d + 2.0 * value_dim, smaller(d, value_dim)
    return larger(
        best, whole_product_words(scores, products, budget_without_fresh_pairs(narrow), fast_words, units, five=True)
    )


def five_products(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """The products of scores and of dP count beside those of the three gradients, at any size of fast memory.

    Theorem: words >= M + k T - 2 Z if k is whole, T > 0 and k ((M + T + e)/3)^1.5 < Z G, e = 1/4(M + T - 1), G = 4.50 d
    for equal widths: about 2 Z G/sqrt(M) - 2 Z + M up to M = (Z G)^(2/3). On each of several units, and beyond,
    2 Z G/sqrt(M + 1) - 2 Z - M - 2. On one fast memory G is 4.59 d/(1 + 0.0115 sqrt(M)/d), where that is more. Up to 16
    words G counts all five products, in whole numbers.
    Assumes: as fused-gradient-epochs; no probability is given, scores are made in the run.
    Regime: fast memory up to about 3d².
    Proof: docs/theory/backward_five_products.md

    >>> five_products(Workload(n=1024, d=64, direction="backward"), 4096).words
    7424540
    """
    sizes = float(workload.scores), float(workload.d), float(workload.value_dim), float(fast_words), float(units)
    counted = _counted(*sizes[1:3])
    of_work = sizes[0] * counted, fast_words, units
    more = beside_leading_words(*of_work)
    small = f"2 Z G/{room_of_products(*of_work)} - 2 Z {more}, G = {show_number(counted)}"
    return LowerBound(
        theorem="five-products",
        words=int(five_product_words(*sizes)),
        strength=Strength.ORDINARY,
        covers=MAKES_SCORES,
        regime=small
        if fast_words <= counted**2
        else f"weak above G² = {show_number(counted**2)} words: see gradient-rows",
        assumptions=(
            "each score and each dP is a sum of products of its own, and a word when it is used",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "no probability is given: scores are made in the run",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/backward_five_products.md",
    )
