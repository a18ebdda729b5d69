"""Bounds of a workload that tolerates an error: what binds any algorithm, what binds exact ones, and features."""

from dataclasses import replace

from attenio.bounds.approximate import approximate_growth, monomial_epochs, unread_values
from attenio.bounds.compulsory import compulsory
from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.workload import Direction, Workload


def approximate_bounds(
    workload: Workload, fast_words: int, exact: tuple[LowerBound, ...], *, units: int = 1, degree: int | None = None
) -> tuple[LowerBound, ...]:
    """What the tolerance leaves; compulsory words where all inputs are read; features; exact bounds for exact ones.

    The bound within the class of features is about outputs, and so about the forward pass.

    >>> from attenio.bounds import bounds_for
    >>> found = bounds_for(Workload(n=1024, d=64, tolerance=0.01, entry_bound=0.5), 8192)
    >>> [(bound.theorem, bound.strength.value) for bound in found][:2]
    [('unread-values', 'absolute'), ('compulsory', 'ordinary')]
    >>> found = bounds_for(Workload(n=2**20, d=64, tolerance=0.01, entry_bound=0.25), 65536, degree=2)
    >>> [bound.theorem for bound in found][:3]
    ['unread-values', 'compulsory', 'monomial-epochs']
    """
    features: tuple[LowerBound | None, ...] = ()
    if degree is not None and degree > 0 and workload.direction is Direction.FORWARD:
        within = monomial_epochs(workload, degree, fast_words, units=units)
        features = (within, approximate_growth(workload, degree, fast_words))
    known = (bound for bound in features if bound is not None)
    binding = (unread_values(workload), _for_all_inputs(workload))
    return (*binding, *known, *(_for_exact_algorithms(bound) for bound in exact[1:]))


def _for_all_inputs(workload: Workload) -> LowerBound:
    """Compulsory words, with what they assume of an approximation."""
    bound = compulsory(workload)
    return replace(
        bound,
        strength=Strength.ORDINARY,
        covers="any algorithm within the tolerance that reads all of its inputs",
        assumptions=(
            bound.assumptions[0],
            "every entry is read: an approximation that skips some, such as a sample of the keys, may move less",
        ),
    )


def _for_exact_algorithms(bound: LowerBound) -> LowerBound:
    if bound.strength is Strength.ASYMPTOTIC:
        return bound
    return replace(
        bound,
        strength=Strength.SCHEDULE,
        covers=bound.covers if bound.strength is Strength.SCHEDULE else f"of the exact ones, {bound.covers}",
        assumptions=("exact attention: an approximation need not compute every score", *bound.assumptions),
    )
