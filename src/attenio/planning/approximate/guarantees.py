"""What the tolerance of a workload takes, and what a degree guarantees with the tiles of a plan."""

from functools import lru_cache
from math import isqrt

from attenio.approximation import (
    Certificate,
    Evidence,
    Kind,
    Polynomial,
    Scores,
    Summation,
    Terms,
    certificate_for,
    feature_count,
    polynomial,
    radius_for,
)
from attenio.approximation.enclosure import MOST_RADIUS
from attenio.approximation.rounding import Range, rounding_error, storage_error, underflow, worst_amplification
from attenio.elements import ElementType
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning.approximate.beside_window import beside_window
from attenio.planning.plan import Tiles
from attenio.workload import Workload


def certified(workload: Workload) -> Certificate:
    """What the tolerance and the entry bound of a workload come to: a degree, or exact attention with the reason."""
    if workload.tolerance is None:
        raise InvalidInput("the workload asks for exact attention; give it a tolerance to approximate")
    if workload.entry_bound is None:
        scores = Scores(d=workload.d, keys=workload.keys, radius=MOST_RADIUS)
        reason = "no entry_bound says how far scores can reach; state one, or certify the data"
        terms = Terms(tolerance=workload.tolerance, dtype=workload.dtype)
        return Certificate(scores=scores, terms=terms, polynomial=None, needed_degree=None, reason=reason)
    return _certified(scores_of(workload), workload.tolerance, workload.dtype)


def needed_tile(workload: Workload) -> tuple[int, int]:
    """The least degree for the tolerance, and the least tile of keys with which rounding leaves it so.

    The degree is at least one: a constant would not even read queries and keys.
    """
    certificate = certified(workload)
    if certificate.degree is None or workload.tolerance is None:
        raise DoesNotFit(f"use exact: {certificate.reason}")
    degree, key_tile, most = max(1, certificate.degree), 1, isqrt(workload.keys - 1) + 1
    while exceeds(certificate_at(workload, Tiles.of(degree=degree, key_tile=key_tile))):
        if key_tile == most:
            # the tolerance was kept by a constant only
            raise DoesNotFit(
                f"use exact: a constant would do, but rounding sums of degree {degree} in fp32 may exceed the tolerance"
                f" of {workload.tolerance:g}"
            )
        key_tile = min(2 * key_tile, most)
    return degree, key_tile


def certificate_at(workload: Workload, tiles: Tiles) -> Certificate:
    """What a degree guarantees with a tile of keys, and beside a window if there is one, needed or not."""
    if workload.tolerance is None or workload.entry_bound is None:
        raise InvalidInput("an approximation needs a tolerance and an entry_bound; give the workload both")
    scores, degree = scores_of(workload), tiles["degree"]
    if scores.radius > MOST_RADIUS:
        raise DoesNotFit(f"use exact: {certified(workload).reason}")
    key_tile, window = tiles.get("key_tile"), tiles.get("window", 0)
    summation = Summation(key_tile=key_tile, direct=window > 0)
    if window:
        beside = beside_window(scores, degree, longest(workload))
        chosen, key_tile = beside.polynomial, tiles["key_tile"]
        truncation, rounding = beside.truncation(window, key_tile), beside.rounding(window, key_tile)
    else:
        chosen = polynomial(Kind.MINIMAX, scores.radius, degree)
        truncation, rounding = 2 * chosen.total_variation, _rounding(scores, chosen, summation)
    return Certificate(
        scores=scores,
        terms=Terms(tolerance=workload.tolerance, dtype=workload.dtype, summation=summation),
        polynomial=chosen,
        needed_degree=certified(workload).needed_degree,
        truncation_error=truncation,
        rounding_error=rounding,
        storage_error=storage_error(workload.dtype, largest=1 + truncation + rounding, unit=1.0),
    )


def _rounding(scores: Scores, chosen: Polynomial, summation: Summation) -> float:
    features = feature_count(scores.d, chosen.degree)
    roundings = summation.roundings(d=scores.d, degree=chosen.degree, features=features, keys=scores.keys)
    reach = Range(d=scores.d, keys=scores.keys, features=features, product=scores.largest_product)
    lost = underflow(chosen, reach, roundings, ElementType.FP32)
    return rounding_error(roundings, worst_amplification(chosen, scores.largest_product), lost=lost)


def longest(workload: Workload) -> int:
    """Keys of the longest sequence: no row has more."""
    return max(pattern.keys for pattern, _ in workload.separate_patterns)


def exceeds(certificate: Certificate) -> bool:
    """Whether approximating may change more than the tolerance; storing the output rounds it besides, as always."""
    return certificate.truncation_error + certificate.rounding_error > certificate.terms.tolerance


def scores_of(workload: Workload) -> Scores:
    """How far the scores of a workload with an entry bound reach."""
    assert workload.entry_bound is not None
    radius = radius_for(workload.entry_bound, workload.d, workload.softmax_scale)
    return Scores(d=workload.d, keys=workload.keys, radius=radius, evidence=Evidence.ENTRIES)


@lru_cache(maxsize=1024)
def _certified(scores: Scores, tolerance: float, dtype: ElementType) -> Certificate:
    return certificate_for(scores, Terms(tolerance=tolerance, dtype=dtype))
