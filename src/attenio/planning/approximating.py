"""Plans that approximate: which degree the tolerance takes, what is guaranteed, and what that moves.

>>> from attenio.workload import Workload
>>> workload = Workload(n=65536, d=32, tolerance=0.05, entry_bound=0.4)
>>> plan = best_approximate(workload, 65536)
>>> plan.dataflow.value, plan.tiles["degree"], plan.moved_words == workload.compulsory_words
('feature-state', 2, True)
>>> plan.certificate.guaranteed_error <= 0.05
True
"""

from functools import lru_cache
from math import isqrt
from typing import cast

from attenio.approximation import (
    Certificate,
    Evidence,
    Kind,
    Scores,
    Summation,
    Terms,
    certificate_for,
    feature_count,
    polynomial,
    radius_for,
)
from attenio.approximation.enclosure import MOST_RADIUS
from attenio.approximation.rounding import rounding_error, storage_error, worst_amplification
from attenio.elements import ElementType
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning.costs.cost import checked_dataflow, closed_form, cost, problems_of, tile_names
from attenio.planning.costs.features_apply import why_no_features
from attenio.planning.plan import ApproximateDataflow, Dataflow, Plan, TileRule, Tiles
from attenio.planning.search.approximate import best_approximate_tiles
from attenio.planning.window_error import window_variation
from attenio.quantities import show_words
from attenio.workload import Workload

__all__ = ["approximate_plan", "best_approximate", "certificate_at", "certified", "needed_tile"]


def best_approximate(workload: Workload, fast_words: int) -> Plan | None:
    """The approximate plan that moves the fewest words, of equals the one that guarantees most, or None."""
    found = []
    for dataflow in Dataflow.approximating(workload.direction):
        try:
            found.append(approximate_plan(workload, fast_words, dataflow))
        except DoesNotFit:
            continue
    return min(found, key=lambda plan: (plan.moved_words, _guaranteed(plan)), default=None)


def _guaranteed(plan: Plan) -> float:
    assert plan.certificate is not None
    return plan.certificate.guaranteed_error


def approximate_plan(workload: Workload, fast_words: int, dataflow: Dataflow) -> Plan:
    """The best plan of one approximate dataflow; DoesNotFit says why exact attention is the answer."""
    reason = why_no_features(workload, dataflow)
    if reason is not None:
        raise DoesNotFit(reason)
    chosen = cast(ApproximateDataflow, checked_dataflow(workload, dataflow))
    degree, key_tile = needed_tile(workload)
    problems = problems_of(workload, chosen)
    found = best_approximate_tiles(problems, chosen, fast_words, degree, key_tile)
    if found is None:
        raise DoesNotFit(_too_small(workload, chosen, fast_words, (degree, key_tile)))
    tiles = _within_tolerance(workload, chosen, found.tiles)
    return Plan(
        workload=workload,
        fast_words=fast_words,
        dataflow=chosen,
        tiles=tiles,
        rule=TileRule.BEST,
        moved_words=found.moved_words,
        peak_words=closed_form(chosen).peak_words(problems, tiles),
        certificate=certificate_at(workload, tiles),
    )


def _within_tolerance(workload: Workload, dataflow: Dataflow, tiles: Tiles) -> Tiles:
    """The tiles with a window so narrow that adding it up does not cost more than the tolerance leaves."""
    if dataflow is not Dataflow.WINDOW_AND_FEATURES:
        return tiles
    while _exceeds(certificate_at(workload, tiles)) and tiles["window"] > tiles["key_tile"]:
        narrower = max(tiles["key_tile"], tiles["window"] // 2)
        tiles = Tiles.of(**{**tiles, "window": narrower})
    return tiles


def certified(workload: Workload) -> Certificate:
    """What the tolerance and the entry bound of a workload come to: a degree, or exact attention with the reason."""
    if workload.tolerance is None:
        raise InvalidInput("the workload asks for exact attention; give it a tolerance to approximate")
    if workload.entry_bound is None:
        scores = Scores(d=workload.d, keys=workload.keys, radius=MOST_RADIUS)
        reason = "no entry_bound says how far scores can reach; state one, or certify the data"
        terms = Terms(tolerance=workload.tolerance, dtype=workload.dtype)
        return Certificate(scores=scores, terms=terms, polynomial=None, needed_degree=None, reason=reason)
    return _certified(_scores(workload), workload.tolerance, workload.dtype, None)


def needed_tile(workload: Workload) -> tuple[int, int]:
    """The least degree for the tolerance, and the least tile of keys with which rounding leaves it so.

    The degree is at least one: a constant would not even read queries and keys.
    """
    found = certified(workload)
    if found.degree is None or workload.tolerance is None:
        raise DoesNotFit(f"use exact: {found.reason}")
    key_tile, most = 1, isqrt(workload.keys - 1) + 1
    while key_tile < most:
        if _certified(_scores(workload), workload.tolerance, workload.dtype, key_tile).degree == found.degree:
            break
        key_tile *= 2
    return max(1, found.degree), min(key_tile, most)


def certificate_at(workload: Workload, tiles: Tiles) -> Certificate:
    """What a degree guarantees with a tile of keys, and beside a window if there is one, needed or not."""
    if workload.tolerance is None or workload.entry_bound is None:
        raise InvalidInput("an approximation needs a tolerance and an entry_bound; give the workload both")
    scores, degree = _scores(workload), tiles["degree"]
    if scores.radius > MOST_RADIUS:
        raise DoesNotFit(f"use exact: {certified(workload).reason}")
    chosen = polynomial(Kind.MINIMAX, scores.radius, degree)
    key_tile, window = tiles.get("key_tile"), tiles.get("window", 0)
    summation = Summation(key_tile=key_tile, direct=window > 0)
    features = feature_count(workload.d, degree)
    # a row of the window is added up one key after the other
    roundings = window + summation.roundings(d=workload.d, degree=degree, features=features, keys=workload.keys)
    rounding = rounding_error(roundings, worst_amplification(chosen, scores.radius))
    inside = max(0, window - (key_tile or 1) + 1)
    truncation = 2 * window_variation(chosen, keys=workload.keys, window=inside)
    return Certificate(
        scores=scores,
        terms=Terms(tolerance=workload.tolerance, dtype=workload.dtype, summation=summation),
        polynomial=chosen,
        needed_degree=certified(workload).needed_degree,
        truncation_error=truncation,
        rounding_error=rounding,
        storage_error=storage_error(workload.dtype, largest=1 + truncation + rounding, unit=1.0),
    )


def _exceeds(certificate: Certificate) -> bool:
    """Whether approximating may change more than the tolerance; storing the output rounds it besides, as always."""
    return certificate.truncation_error + certificate.rounding_error > certificate.terms.tolerance


def _scores(workload: Workload) -> Scores:
    assert workload.entry_bound is not None
    radius = radius_for(workload.entry_bound, workload.d, workload.softmax_scale)
    return Scores(d=workload.d, keys=workload.keys, radius=radius, evidence=Evidence.ENTRIES)


@lru_cache(maxsize=1024)
def _certified(scores: Scores, tolerance: float, dtype: ElementType, key_tile: int | None) -> Certificate:
    return certificate_for(scores, Terms(tolerance=tolerance, dtype=dtype, summation=Summation(key_tile=key_tile)))


def _too_small(workload: Workload, dataflow: Dataflow, fast_words: int, least: tuple[int, int]) -> str:
    degree, key_tile = least
    sizes = dict.fromkeys(tile_names(dataflow)[0], 1) | {"degree": degree}
    if "key_tile" in sizes:
        sizes |= {"key_tile": key_tile}
    if "window" in sizes:
        sizes |= {"window": key_tile}
    words = cost(workload, dataflow, Tiles.of(**sizes)).peak_words
    features = feature_count(workload.d, degree)
    return (
        f"{dataflow.value} needs at least {show_words(words)} of fast memory for {features:,} features of degree"
        f" {degree}; the machine has {fast_words:,}: use exact, a larger fast memory or a larger tolerance"
    )
