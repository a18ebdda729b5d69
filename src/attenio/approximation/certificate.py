"""A certificate: how far approximate attention can be from exact attention, proven before anything is run.

>>> from attenio.approximation.certificate import Scores, Terms, certificate_for
>>> found = certificate_for(Scores(d=64, keys=65536, radius=0.5), Terms(tolerance=1e-2))
>>> found.degree, found.features, found.guaranteed_error < 1.1e-2
(2, 2145, True)
>>> certificate_for(Scores(d=64, keys=65536, radius=8.0), Terms(tolerance=1e-2)).reason
'degree 12 would do, but it takes 31,022,118,677,225 features, over the most of 16,777,216'
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from attenio.approximation.enclosure import MOST_RADIUS
from attenio.approximation.entries import EntryBounds, checked_positive
from attenio.approximation.features import feature_count
from attenio.approximation.polynomials import (
    MOST_DEGREE,
    Kind,
    Polynomial,
    focused,
    guessed,
    polynomial_within,
    surely_final,
    taylor_degree,
)
from attenio.approximation.rounding import (
    Range,
    Summation,
    least_rounding_error,
    rounding_error,
    storage_error,
    underflow,
    worst_amplification,
)
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.quantities import checked_count, show_figures

# Every row is looked at only if the worst possible one misses the tolerance by less than this factor.
_HOPE = 64.0
# Nobody needs to know which degree it is that nobody can use.
_MOST_SHOWN = 10**6
# Shares of the interval that a polynomial may be best on, tried where rows are looked at and the plain one misses.
_FOCUS = (0.6, 0.2)


class Evidence(Enum):
    """How it is known how far scores reach."""

    STATED = "stated"  # someone says so
    ENTRIES = "entries"  # from bounds on the entries
    ROW_NORMS = "row-norms"  # from the norms of all rows, by Cauchy and Schwarz
    BOX = "box"  # from the range of every coordinate
    EVERY_SCORE = "every-score"  # every required score was computed


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What every row of a head says of one polynomial."""

    total_variation: float  # the most that the weights of a row move
    amplification: float  # the largest sum of sizes of terms over a denominator
    output_bound: float  # the largest size of an output


Auditor = Callable[[Polynomial], Audit]


class Verdict(Enum):
    """What to do."""

    APPROXIMATE = "approximate"
    EXACT = "exact"


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What is known of one head: its scores lie in centre ± radius after the keys are centred, and so on.

    ``product`` is at least every scale * sum of |q_t k_t|, which is what rounding errors grow with; the radius unless
    given. ``value_bound`` is the largest size of an entry of V, ``value_radius`` half the largest range of a column of
    V.
    """

    d: int
    keys: int
    radius: float
    centre: float = 0.0
    product: float | None = None
    value_bound: float = 1.0
    value_radius: float | None = None
    evidence: Evidence = Evidence.STATED
    data: str | None = None  # the fingerprint of the data and of the keys' centre, where every score was computed

    def __post_init__(self) -> None:
        checked_count("d", self.d, most=2**16)
        checked_count("keys", self.keys)
        if not 0 <= self.radius < math.inf:
            raise InvalidInput(f"radius of the scores is {self.radius}; give a finite number of at least 0")

    @classmethod
    def from_entries(cls, bounds: EntryBounds, *, d: int, keys: int, scale: float | None = None) -> "Scores":
        """Scores of queries and keys whose entries are bounded."""
        radius = bounds.radius(d=d, scale=d**-0.5 if scale is None else scale)
        return cls(d=d, keys=keys, radius=radius, value_bound=bounds.value, evidence=Evidence.ENTRIES)

    @property
    def largest_product(self) -> float:
        """At least every scale * sum of |q_t k_t|."""
        return abs(self.centre) + self.radius if self.product is None else self.product

    @property
    def value_unit(self) -> float:
        """What errors are measured in: half the largest range of a column of V; its size where the range is 0."""
        radius = self.value_bound if self.value_radius is None else self.value_radius
        return radius or self.value_bound or 1.0


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is asked of an approximation: how far outputs may move, how, and at what cost at most.

    The tolerance is in units of half the range of a column of V. It is about what approximating adds, truncation and
    the rounding of its sums; rounding the output to its type comes on top, as it does for exact attention.
    """

    tolerance: float
    kind: Kind = Kind.MINIMAX
    dtype: ElementType = ElementType.FP16
    accumulator: ElementType = ElementType.FP32
    summation: Summation = field(default_factory=Summation)
    most_degree: int = MOST_DEGREE
    most_features: int = 2**24
    fast_words: int | None = None  # with it, what exact attention would move is taken into account

    def __post_init__(self) -> None:
        checked_positive("tolerance", self.tolerance)
        checked_count("most degree", self.most_degree, least=0, most=MOST_DEGREE)
        checked_count("most features", self.most_features)
        if self.fast_words is not None:
            checked_count("fast memory (words)", self.fast_words, least=0, most=2**60)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The least degree that meets the terms and what it guarantees, or why exact attention is the answer.

    Errors are the largest change of any output, in units of ``scores.value_unit``. With the verdict ``exact`` there is
    no polynomial, and ``needed_degree`` is the degree that the tolerance would take, where one was found.
    """

    scores: Scores
    terms: Terms
    polynomial: Polynomial | None
    needed_degree: int | None
    truncation_error: float = 0.0
    rounding_error: float = 0.0
    storage_error: float = 0.0
    reason: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether to approximate."""
        return Verdict.EXACT if self.polynomial is None else Verdict.APPROXIMATE

    @property
    def degree(self) -> int | None:
        """The degree of the polynomial to use."""
        return None if self.polynomial is None else self.polynomial.degree

    @property
    def features(self) -> int | None:
        """Monomials per row, C(d+g, g)."""
        return None if self.polynomial is None else feature_count(self.scores.d, self.polynomial.degree)

    @property
    def added_error(self) -> float:
        """What approximating adds, in units of ``scores.value_unit``: this is what the tolerance is about."""
        return self.truncation_error + self.rounding_error

    @property
    def guaranteed_error(self) -> float:
        """No output is further from exact attention than this, in units of ``scores.value_unit``."""
        return self.added_error + self.storage_error

    @property
    def guaranteed_change(self) -> float:
        """The same as a number to compare outputs with."""
        return self.guaranteed_error * self.scores.value_unit


def certificate_for(scores: Scores, terms: Terms, auditor: Auditor | None = None) -> Certificate:
    """The certificate of the least degree that meets the terms, or of exact attention with the reason.

    ``auditor`` looks at every row under a polynomial, where the data are at hand; without it the worst row that scores
    within these bounds could have is taken.
    """
    if abs(scores.centre) + scores.radius > MOST_RADIUS:
        needed = taylor_degree(scores.radius, terms.tolerance)
        reach = f"scores reach {show_figures(abs(scores.centre) + scores.radius)}, over the most of {MOST_RADIUS:g}"
        such = "a degree over a million" if needed > _MOST_SHOWN else f"degree {needed:,}"
        instead = f"a Taylor polynomial would take {such}"
        if needed == 0:
            instead = "they are so close to each other that the mean of the values would do"
        return _exact(scores, terms, None, f"{reach}; {instead}")
    least = least_rounding_error(terms.accumulator)
    rounds = (
        f"rounding sums in {terms.accumulator.value} may cost {least:.1g} at any degree,"
        f" over the tolerance of {terms.tolerance:g}"
    )
    if terms.tolerance < least * least:  # far below it, nobody asks which degree would do
        return _exact(scores, terms, None, rounds)
    for degree in range(terms.most_degree + 1):
        proven = _candidate(scores, terms, degree, auditor)
        if proven is None:
            continue
        candidate, errors = proven
        reason = _too_many_features(scores, terms, degree)
        if reason is not None:
            return _exact(scores, terms, degree, reason)
        if errors.truncation + errors.rounding <= terms.tolerance:
            return Certificate(
                scores=scores,
                terms=terms,
                polynomial=candidate,
                needed_degree=degree,
                truncation_error=errors.truncation,
                rounding_error=errors.rounding,
                storage_error=errors.storage,
            )
        if errors.rounding > terms.tolerance:
            cost = f"cost {errors.rounding:.2g}" if errors.rounding < math.inf else "lose everything"
            reason = (
                f"degree {degree} would do, but rounding sums in {terms.accumulator.value} may {cost},"
                f" over the tolerance of {terms.tolerance:g}"
            )
            return _exact(scores, terms, degree, reason)
    needs = f"scores within ±{show_figures(scores.radius)} need a degree over {terms.most_degree}"
    return _exact(scores, terms, None, rounds if least > terms.tolerance else needs)


def _candidate(
    scores: Scores, terms: Terms, degree: int, auditor: Auditor | None
) -> "tuple[Polynomial, _Errors] | None":
    """A polynomial of this degree whose truncation meets the tolerance, and its errors."""
    # the truncation of the worst row possible is at least eps; rows that are looked at may be better, not without end
    most_error = min(terms.tolerance if auditor is None else _HOPE * terms.tolerance, 1 - 1e-9)
    guess = guessed(terms.kind, scores.radius, degree, centre=scores.centre)
    if surely_final(guess) and guess.relative_error > most_error:
        return None
    if not surely_final(guess) or _may_do(scores, terms, guess, auditor):
        plain = polynomial_within(terms.kind, scores.radius, degree, most_error, centre=scores.centre)
        if plain is None:
            return None
        errors = _errors(scores, terms, plain, None if auditor is None else auditor(plain))
        if errors.truncation <= terms.tolerance:
            return plain, errors
    if auditor is None or terms.kind is not Kind.MINIMAX or degree == 0:
        return None
    for share in _FOCUS:
        guess = guessed(terms.kind, scores.radius, degree, share=share, centre=scores.centre)
        if guess.relative_error > most_error or not _may_do(scores, terms, guess, auditor):
            continue
        narrow = focused(scores.radius, degree, share, centre=scores.centre)
        if narrow.relative_error <= most_error:
            errors = _errors(scores, terms, narrow, auditor(narrow))
            if errors.truncation <= terms.tolerance:
                return narrow, errors
    return None


def _may_do(scores: Scores, terms: Terms, guess: Polynomial, auditor: Auditor | None) -> bool:
    """Whether a polynomial is worth a proof: looking at rows is fast, proving is not."""
    return _errors(scores, terms, guess, None if auditor is None else auditor(guess)).truncation <= terms.tolerance


def _too_many_features(scores: Scores, terms: Terms, degree: int) -> str | None:
    features = feature_count(scores.d, degree)
    would = f"degree {degree} would do, but it takes {features:,} features"
    if features > terms.most_features:
        return f"{would}, over the most of {terms.most_features:,}"
    if terms.fast_words is None:
        return None
    # exact attention moves about 4 n d (n d/M), an approximation about 2 r d (d/M) n in passes over feature blocks
    even = features / 2 + terms.fast_words / (2 * scores.d)
    if scores.keys <= even:
        return f"{would} and pays off from {math.ceil(even):,} keys on; there are {scores.keys:,}"
    return None


@dataclass(frozen=True, kw_only=True)
class _Errors:
    truncation: float
    rounding: float
    storage: float


def _errors(scores: Scores, terms: Terms, candidate: Polynomial, audit: Audit | None) -> _Errors:
    features = feature_count(scores.d, candidate.degree)
    roundings = terms.summation.roundings(d=scores.d, degree=candidate.degree, features=features, keys=scores.keys)
    grown = worst_amplification(candidate, scores.largest_product)
    variation, output = candidate.total_variation, scores.value_bound
    if audit is not None:
        grown, variation = min(grown, audit.amplification), min(variation, audit.total_variation)
        output = min(output, audit.output_bound)
    truncation = 2 * variation
    reach = Range(d=scores.d, keys=scores.keys, features=features, product=scores.largest_product)
    lost = underflow(candidate, reach, roundings, terms.accumulator)
    rounding = rounding_error(roundings, grown, terms.accumulator, lost) * (scores.value_bound / scores.value_unit)
    largest = output / scores.value_unit + truncation + rounding
    return _Errors(
        truncation=truncation,
        rounding=rounding,
        storage=storage_error(terms.dtype, largest=largest, unit=scores.value_unit),
    )


def _exact(scores: Scores, terms: Terms, needed: int | None, reason: str) -> Certificate:
    return Certificate(scores=scores, terms=terms, polynomial=None, needed_degree=needed, reason=reason)
