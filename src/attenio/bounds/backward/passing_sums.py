"""Passing sums: a sum of a gradient that leaves fast memory has to come back, and both is paid for."""

from attenio.bounds.backward.gradient_rows import Weights, weighed_products_per_epoch
from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, larger, root, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.workload import Workload

# A step advances the clock by less than this.
_STEP = 2.0
_LARGEST_TOLL = 0.25


def weights_with_toll(d: Floats, value_dim: Floats, toll: Floats) -> Weights:
    """What products count where a sum that comes or goes in an epoch counts ``1 + toll`` words.

    >>> weights_with_toll(1.0, 1.0, 0.25)
    (5.0, 4.0, 13.0)
    """
    both = 2.0 * (d + value_dim)
    return both * (1.0 + toll), both, both * ((2.0 + toll) * d + value_dim)


def passing_sum_words(scores: Floats, sums: Floats, d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory; ``sums`` are gradients' entries."""
    budget = 2.0 * fast_words + _STEP
    # as much as leaves an epoch nothing to gain by pairs that flow in
    toll = root(27.0 / 16.0 * budget) / (2.0 * (d + value_dim)) - 1.0
    most = smaller(value_dim / (2.0 * d), _LARGEST_TOLL)
    toll = smaller(larger(toll, 0.0), most)
    weigh = weights_with_toll(d, value_dim, toll)
    epochs = scores * weigh[2] / weighed_products_per_epoch(budget, weigh)
    words = whole_words(fast_words * (epochs + 1.0 - fast_words / budget), 3.0 * toll * sums)
    return where((value_dim <= d) & (epochs * budget >= fast_words), words, 0.0)


def passing_sums(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every backward pass on one fast memory, where sums of gradients that leave have to come back.

    Theorem: for dv <= d, words >= T Z G/W(A) + M (1 - T/A) - 3bS for A = M + T + 2, with S entries of dQ, dK and dV, a
    toll b of at most 1/4 and dv/2d, G = 2 (d+dv) ((2+b) d + dv), and W as in gradient-rows with w = 2 (d+dv)(1+b), if
    A Z G >= M W(A). For large fast memory that is about 13 Z d²/M + M/2 - 9nd/4 for equal widths, and for dv <= d/2 it
    has the leading term of what two passes move.
    Assumes: as gradient-rows; one fast memory.
    Regime: for equal widths ahead of gradient-rows from about 5 d² words up to nd/2 for one head, dW/2 under a window,
    by 1/12 at most; for dv = d/2 from about 2.7 d² words on.
    Proof: docs/theory/backward_passing_sums.md

    >>> n, d, fast_words = 131072, 64, 262144
    >>> passing_sums(Workload(n=n, d=d, direction="backward"), fast_words).words * fast_words / (n * d) ** 2
    12.930...
    """
    sizes = float(workload.d), float(workload.value_dim), float(fast_words)
    return LowerBound(
        theorem="passing-sums",
        words=int(passing_sum_words(float(workload.scores), float(workload.gradient_words), *sizes)),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=_regime(*sizes),
        assumptions=(
            "each score and each dP is a sum of products of its own",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/backward_passing_sums.md",
    )


def _regime(d: float, value_dim: float, fast_words: float) -> str:
    if value_dim > d:
        return "says nothing for dv > d"
    toll = min(value_dim / (2.0 * d), _LARGEST_TOLL)
    least = 32.0 / 27.0 * ((d + value_dim) * (1.0 + toll)) ** 2
    if fast_words < least:
        return f"below {least:.6g} words: with a smaller toll, or none"
    leading = "2 (d+dv) (d min(9/4, 2+dv/2d) + dv) Z/M"
    return f"large fast memory, far from all inputs: {leading} + M/2 - {3 * toll:.3g} times the entries of gradients"
