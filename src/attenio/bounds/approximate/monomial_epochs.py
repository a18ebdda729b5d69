"""Monomial epochs: what features, sums over keys and outputs cost when features are made on the fly."""

import math

import numpy as np

from attenio.bounds.epochs import best_over_epochs
from attenio.bounds.floats import Floats
from attenio.bounds.lower_bound import LowerBound, Strength, between_units
from attenio.masks import SharedPrefix
from attenio.quantities import checked_count, show_digits, show_words
from attenio.workload import Workload


def monomial_constant(degree: int) -> float:
    """Words per term and per M^(-g/(g+1)): (g+1) (g!/g^g)^(1/(g+1)); 2 for g = 1, as for any matrix product.

    >>> [round(monomial_constant(g), 3) for g in (1, 2, 3, 4)]
    [2.0, 2.381, 2.746, 3.114]
    """
    checked_count("degree", degree, most=4096)
    root = math.exp((math.lgamma(degree + 1) - degree * math.log(degree)) / (degree + 1))
    return (degree + 1) * root


def monomials_without_squares(d: int, degree: int) -> int:
    """Monomials of degree g in which no variable is repeated, C(d, g): the ones that the bound counts."""
    return math.comb(d, degree)


def terms_per_epoch(budget: Floats, degree: int) -> Floats:
    """The most terms in an epoch with this many words: it pays to spend g/(2g+1) of them on sums."""
    share = degree / (2 * degree + 1)
    sums, entries = share * budget, (1 - share) * budget
    return entries * sums ** (degree / (degree + 1)) / monomial_constant(degree)


def monomial_epoch_words(terms: Floats, sums: Floats, degree: int, fast_words: Floats, units: Floats = 1.0) -> Floats:
    """The bound in whole words: ``terms`` that are added to ``sums`` over keys or taken from them."""
    return best_over_epochs(
        (fast_words, np.ceil(fast_words * (degree + 1) / degree)),
        lambda length: length * (terms / terms_per_epoch(fast_words + length, degree)),
        fast_words,
        units,
        free=sums,
    )


def distinct_keys(workload: Workload) -> int:
    """Key rows of a KV head over the batch, those of a shared prefix once.

    >>> distinct_keys(Workload(queries=1, keys=4097, d=8, batch=256, mask="prefix:4096"))
    4352
    """
    shared = workload.mask.length if isinstance(workload.mask, SharedPrefix) else 0
    return shared + workload.batch * (workload.keys - shared)


def monomial_epochs(workload: Workload, degree: int, fast_words: int, *, units: int = 1) -> LowerBound | None:
    """Within the class of algorithms that add k^alpha v to sums over keys and q^alpha times them to outputs.

    Theorem: with C = C(d, g), N = C dv (rows of queries + rows of keys) and S = C dv sums for each KV head of each
    request, words >= (g+1) (g!/g^g)^(1/(g+1)) N / M^(g/(g+1)) - S - M/g. Keys of a shared prefix count once, and have
    C dv sums of their own.
    Assumes: every score is required; a term needs the entries of its monomial, its value or output, and its sum in fast
    memory together; sums are over all keys and none is made twice. Nothing to say (None) for other masks or for degree
    0. Regime: strongest when the sums do not fit, S > M, and there are many more rows than M^(g/(g+1)). Proof:
    docs/theory/approximate_monomials.md

    >>> monomial_epochs(Workload(n=2**20, d=64), 3, 65_536).words
    3746763332
    """
    if degree < 1 or workload.scores != workload.batch * workload.heads * workload.queries * workload.keys:
        return None
    columns = monomials_without_squares(workload.d, degree) * workload.value_dim
    rows = workload.batch * workload.heads * workload.queries + workload.kv_heads * distinct_keys(workload)
    sums = workload.kv_heads * columns * (workload.batch + isinstance(workload.mask, SharedPrefix))
    words = monomial_epoch_words(float(rows * columns), float(sums), degree, float(fast_words), float(units))
    state = columns
    return LowerBound(
        theorem="monomial-epochs",
        words=int(words),
        strength=Strength.SCHEDULE,
        covers="algorithms that sum monomials of keys times values, and make no sum twice",
        regime=(
            f"the sums of a head, {show_words(state)}, do not fit:"
            f" {show_digits(2 * monomial_constant(degree))} n C dv/M^(g/(g+1))"
            if state > fast_words
            else "weak while the sums of a head fit: see compulsory"
        ),
        assumptions=(
            f"features are the monomials of degree up to {degree}, made on the fly",
            "a term is added while its entries, its value and its sum are in fast memory",
            "sums are over all keys of a head, a shared prefix or a request's own, and none is made twice",
            *between_units(units),
        ),
        page="docs/theory/approximate_monomials.md",
    )
