"""Gradient epochs: every product that is added to a gradient needs a pair, an input and an output."""

from attenio.bounds.epochs import best_over_epochs
from attenio.bounds.floats import Floats, larger, root, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength, all_units, between_units
from attenio.workload import Direction, Workload


def _largest_cubic(first: Floats, second: Floats) -> Floats:
    """The largest a k (first k + second a) with a + k = 1 and both not negative."""
    slope = first - second
    less = second - slope
    k = second / (less + root(less * less + 3.0 * slope * second))
    return k * (1.0 - k) * (second + slope * k)


def reuse_of_fresh_pairs(d: Floats, value_dim: Floats, *, step: bool = False) -> Floats:
    """tau: y input words make pairs afresh that meet at most tau y³ triples of a pair and an input."""
    width, narrow = d + value_dim, smaller(d, value_dim)
    one = where(value_dim <= d, d, width * width / (4.0 * value_dim))
    cube = width * width * width
    both = smaller(one + cube / (4.0 * d * d), cube / (4.0 * narrow * narrow))
    return _largest_cubic(both if step else one, both) / cube


def gradient_products_per_epoch(budget: Floats, tau: Floats) -> Floats:
    """The most effective products that an epoch with this many words can add to outputs."""
    held = 2.0 * budget / (3.0 + root(larger(9.0 - 20.0 * tau * budget, 0.0)))
    from_held = where(20.0 * tau * budget <= 9.0, root(held) * (budget - held + tau * held * held) / 2.0, 0.0 * budget)
    from_fresh = root(27.0 * tau / 256.0) * budget * budget
    return larger(from_held, from_fresh)


def _words(products: Floats, tau: Floats, fast_words: Floats, units: Floats) -> Floats:
    return best_over_epochs(
        (fast_words, 2.0 * fast_words),
        lambda length: length * (products / gradient_products_per_epoch(fast_words + length, tau)),
        fast_words,
        units,
    )


def gradient_epoch_words(
    scores: Floats, d: Floats, value_dim: Floats, fast_words: Floats, units: Floats = 1.0, *, step: bool = False
) -> Floats:
    """The bound in whole words, for floats or arrays of floats; a step also computes the output."""
    backward = _words(scores * (2.0 * d + value_dim), reuse_of_fresh_pairs(d, value_dim), fast_words, units)
    if not step:
        return backward
    tau = reuse_of_fresh_pairs(d, value_dim, step=True)
    return larger(backward, _words(2.0 * scores * (d + value_dim), tau, fast_words, units))


def gradient_epochs(workload: Workload, fast_words: int, *, units: int = 1) -> LowerBound:
    """All products of the gradient pooled: the floor at every size of fast memory, the best one for small ones.

    Theorem: for every whole T >= M, words >= T Z (2d+dv)/W(M+T) - (T - M), where W(A) is the largest
    sqrt(z (x y + tau y³)) with x + y + z = A. For equal widths 10.5 Z d²/M once M >= 5 d², and close to 6 Z d/sqrt(M)
    well below d². A training step has 2 Z (d+dv) products and a larger tau.
    Assumes: dQ, dK and dV are sums of their products in any order; scores and dP as sums of products of their own.
    Regime: any fast memory; overtaken by gradient rows for large ones.
    Proof: docs/theory/backward_gradient_epochs.md

    >>> gradient_epochs(Workload(n=1024, d=64, direction="backward"), 256).words
    25127550
    """
    d, value_dim = float(workload.d), float(workload.value_dim)
    step = workload.direction is Direction.TRAINING
    words = gradient_epoch_words(float(workload.scores), d, value_dim, float(fast_words), float(units), step=step)
    tau = float(reuse_of_fresh_pairs(d, value_dim, step=step))
    large = 40.0 * tau * fast_words >= 9.0
    products = "2 Z (d+dv)" if step else "Z (2d+dv)"
    return LowerBound(
        theorem="gradient-epochs",
        words=int(words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=(
            f"large fast memory: {products} / (M √(27 τ/16)), τ = {tau:.3g}"
            if large
            else f"small fast memory: about 2 {products}/√M - {all_units(units)}"
        ),
        citation="derived here, docs/theory/backward_gradient_epochs.md",
        assumptions=(
            "each score and each dP is a sum of products of its own",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            *between_units(units),
        ),
        page="docs/theory/backward_gradient_epochs.md",
    )
