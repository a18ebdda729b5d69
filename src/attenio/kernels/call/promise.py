"""What is known of a call before it is approximated: the certificate of its data, and what running under it takes."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from attenio.approximation.certificate import Certificate, Scores, Terms, certificate_for
from attenio.approximation.rounding import storage_error
from attenio.approximation.running.tensors import Reach
from attenio.kernels.call.problem import KernelProblem

# What features reach of the rate of exact attention, measured: 330 of 440 TFLOP/s on an H200 in bf16 and 22 times the
# speed at 30 times fewer operations on two Neoverse N1 in fp32.
RATE = 0.75
# Steps between two powers of two of what certificates are remembered by: proving a polynomial takes milliseconds.
_STEPS = 64
_certificate_for = lru_cache(maxsize=1024)(certificate_for)


@dataclass(frozen=True, kw_only=True, eq=False)
class Promise:
    """A certificate that covers the data of a call, and the centre of the keys that it holds for."""

    certificate: Certificate
    reach: Reach


def on_grid(reach: Reach) -> Reach:
    """The same reach, its bound rounded up to one of a few values, so that similar data share a certificate.

    >>> from attenio.approximation.certificate import Evidence
    >>> on_grid(Reach(bound=0.995, evidence=Evidence.BOX, centre=None, balance=None)).bound
    1.0
    """
    return replace(reach, bound=_rounded_up(reach.bound))


def certificate_like(scores: Scores, terms: Terms) -> Certificate:
    """The certificate for these scores, out of that for values of unit range, with an offset not smaller than theirs.

    Truncation is a share of the range of values and rounding one of their offset: only storing outputs knows a size.

    >>> from attenio.approximation.certificate import certificate_for
    >>> scores, terms = Scores(d=64, keys=4096, radius=0.5, value_bound=3.0, value_radius=2.0), Terms(tolerance=0.1)
    >>> mine, plain = certificate_like(scores, terms), certificate_for(scores, terms)
    >>> 1 <= mine.rounding_error / plain.rounding_error < 1.02, mine.truncation_error == plain.truncation_error
    (True, True)
    """
    unit = scores.value_unit
    offset = _rounded_up(scores.value_bound / unit)
    certificate = _certificate_for(replace(scores, value_bound=offset, value_radius=1.0), terms)
    if certificate.polynomial is None:
        return replace(certificate, scores=scores)
    stored = storage_error(terms.dtype, largest=offset + certificate.added_error, unit=unit)
    return replace(certificate, scores=replace(scores, value_bound=offset * unit), storage_error=stored)


def _rounded_up(value: float) -> float:
    if not 2.0**-20 < value < 2.0**20:
        return value
    return float(max(value, 2.0 ** (math.ceil(_STEPS * math.log2(value)) / _STEPS)))


def exact_operations(problem: KernelProblem, *, causal: bool) -> int:
    """Multiplications and additions of both products of exact attention; half of them below the diagonal."""
    scores = problem.queries * (problem.queries + 1) // 2 if causal else problem.queries * problem.keys
    heads = problem.batch * problem.kv_heads * problem.group
    return 2 * heads * scores * int(problem.query.shape[-1] + problem.value.shape[-1])
