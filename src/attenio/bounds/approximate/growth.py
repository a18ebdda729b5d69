"""How the traffic of approximate attention grows, regime by regime."""

import math

from attenio.bounds.approximate.monomial_epochs import distinct_keys
from attenio.bounds.epochs import whole_words
from attenio.bounds.lower_bound import GROWTH, LowerBound, Strength
from attenio.workload import Workload


def approximate_growth(workload: Workload, degree: int, fast_words: int) -> LowerBound:
    """Almost linear in the length: rows times what each row of features costs.

    Theorem: grows as rows * (d + dv) while the sums r (dv+1) of a head fit; as rows * r dv/M^(g/(g+1)) once they do
    not. Assumes: monomial features made on the fly. No constant is claimed. Regime: the two meet near M = r (dv+1),
    where state-resident schedules end. Proof: docs/theory/approximate_monomials.md; the framework is published, the
    exponent is that of our class.

    >>> approximate_growth(Workload(n=2**20, d=64), 2, 262_144).regime
    'the sums of a head fit: grows as n d'
    """
    rows = workload.batch * workload.heads * workload.queries + workload.kv_heads * distinct_keys(workload)
    features = math.comb(workload.d + degree, degree)
    fits = features * (workload.value_dim + 1) <= fast_words or degree == 0
    linear = float(rows * (workload.d + workload.value_dim))
    blocked = float(rows) * features * workload.value_dim / fast_words ** (degree / (degree + 1))
    return LowerBound(
        theorem="approximate-growth",
        words=int(whole_words(linear if fits else max(linear, blocked))),
        strength=Strength.ASYMPTOTIC,
        covers=GROWTH,
        regime=(
            "the sums of a head fit: grows as n d"
            if fits
            else f"the sums of a head do not fit: grows as n r dv/M^({degree}/{degree + 1})"
        ),
        citation="our class, in the framework of Alman & Song 2023 and Papp, Sobczyk & Zouzias (arXiv:2605.23751)",
        assumptions=("monomial features made on the fly", "growth only: the constant is not stated"),
        page="docs/theory/approximate_monomials.md",
    )
