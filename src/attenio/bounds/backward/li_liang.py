"""The published growth of the traffic of attention's gradient."""

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, root, smaller
from attenio.bounds.lower_bound import GROWTH, LowerBound, Strength
from attenio.workload import Workload


def li_liang_words(scores: Floats, rows: Floats, d: Floats, fast_words: Floats) -> Floats:
    """The growth, without a constant, for floats or arrays of floats."""
    products = scores * d + rows * d * d
    return whole_words(smaller(products * d / fast_words, products / root(fast_words)))


def li_liang(workload: Workload, fast_words: int) -> LowerBound:
    """Growth of the traffic of the gradient in the two regimes.

    Theorem: Θ(min((n²d² + nd³)/M, (n²d + nd²)/sqrt(M))); required scores stand for n², query rows for n here.
    Assumes: ordinary matrix products, equal widths. No constant is claimed. The terms with n alone belong to the
    gradients of the weights, which that paper includes.
    Regime: the two terms cross at M = d².
    Proof: cited; docs/theory/backward_growth.md

    >>> li_liang(Workload(n=1024, d=64, direction="backward"), 4096).strength
    <Strength.ASYMPTOTIC: 'asymptotic'>
    """
    rows = workload.heads * workload.batch * workload.queries
    large = fast_words >= workload.d**2
    return LowerBound(
        theorem="li-liang",
        words=int(li_liang_words(float(workload.scores), float(rows), float(workload.d), float(fast_words))),
        strength=Strength.ASYMPTOTIC,
        covers=GROWTH,
        regime=(
            "fast memory of at least d²: grows as (Z d² + n d³)/M"
            if large
            else "fast memory below d²: grows as (Z d + n d²)/√M"
        ),
        citation="Li, Liang, Shi, Song, Yue & Zhang 2024, arXiv:2410.09397, Thm 1.1",
        assumptions=("ordinary matrix products", "growth only: the constant is not stated"),
        page="docs/theory/backward_growth.md",
    )
