"""Saha and Ye's theorem: how the traffic of exact attention grows."""

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, root, smaller
from attenio.bounds.lower_bound import GROWTH, LowerBound, Strength
from attenio.workload import Workload


def saha_ye_words(scores: Floats, d: Floats, fast_words: Floats) -> Floats:
    """The growth, without a constant, for floats or arrays of floats."""
    return whole_words(scores * smaller(d / root(fast_words), d * d / fast_words))


def saha_ye(workload: Workload, fast_words: int) -> LowerBound:
    """Growth of the traffic of exact attention in the two regimes.

    Theorem: Θ(min(n²d/sqrt(M), n²d²/M)); required scores stand for n² here.
    Assumes: ordinary matrix products, equal widths. No constant is claimed.
    Regime: the two terms cross at M = d².
    Proof: cited; docs/theory/saha_ye.md

    >>> saha_ye(Workload(n=1024, d=64), 4096).strength
    <Strength.ASYMPTOTIC: 'asymptotic'>
    """
    large = fast_words >= workload.d**2
    return LowerBound(
        theorem="saha-ye",
        words=int(saha_ye_words(float(workload.scores), float(workload.d), float(fast_words))),
        strength=Strength.ASYMPTOTIC,
        covers=GROWTH,
        regime="fast memory of at least d²: grows as Z d²/M" if large else "fast memory below d²: grows as Z d/√M",
        citation="Saha & Ye 2024, arXiv:2402.07443, Thm 3.1",
        assumptions=("ordinary matrix products", "growth only: the constant is not stated"),
        page="docs/theory/saha_ye.md",
    )
