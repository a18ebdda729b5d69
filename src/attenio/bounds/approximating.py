"""Bounds of a workload that tolerates an error: what binds any algorithm, what binds exact ones, and features."""

from dataclasses import replace

from attenio.bounds.compulsory import compulsory
from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.workload import Workload

__all__ = ["approximate_bounds"]


def approximate_bounds(
    workload: Workload, fast_words: int, exact: tuple[LowerBound, ...], *, units: int = 1, degree: int | None = None
) -> tuple[LowerBound, ...]:
    """Compulsory words for whoever reads all inputs, and the bounds of exact attention for exact algorithms.

    >>> from attenio.bounds import bounds_for
    >>> found = bounds_for(Workload(n=1024, d=64, tolerance=0.01, entry_bound=0.5), 8192)
    >>> [(bound.theorem, bound.strength.value) for bound in found][:2]
    [('compulsory', 'absolute'), ('score-epochs', 'schedule')]
    """
    return (_for_all_inputs(workload), *(_for_exact_algorithms(bound) for bound in exact[1:]))


def _for_all_inputs(workload: Workload) -> LowerBound:
    """Compulsory words, with what they assume of an approximation."""
    found = compulsory(workload)
    return replace(
        found,
        assumptions=(
            found.assumptions[0],
            "every entry is read: an approximation that skips some, such as a sample of the keys, may move less",
        ),
    )


def _for_exact_algorithms(bound: LowerBound) -> LowerBound:
    if bound.strength is Strength.ASYMPTOTIC:
        return bound
    return replace(
        bound,
        strength=Strength.SCHEDULE,
        assumptions=("exact attention: an approximation need not compute every score", *bound.assumptions),
    )
