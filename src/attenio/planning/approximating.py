"""Plans that approximate: of each dataflow the tiles that keep the tolerance, and what they move.

>>> from attenio.workload import Workload
>>> workload = Workload(n=65536, d=32, tolerance=0.05, entry_bound=0.4)
>>> plan = best_approximate(workload, 65536)
>>> plan.dataflow.value, plan.tiles["degree"], plan.moved_words == workload.compulsory_words
('feature-state', 2, True)
>>> plan.certificate.guaranteed_error <= 0.05
True
"""

from typing import cast

from attenio.approximation import feature_count
from attenio.errors import DoesNotFit
from attenio.planning.approximate.applies import why_no_features
from attenio.planning.approximate.forms import approximate_form, best_approximate_tiles
from attenio.planning.approximate.guarantees import certificate_at, needed_tile
from attenio.planning.approximate.window_tiles import window_tiles
from attenio.planning.costs import checked_dataflow, cost, problems_of, tile_names
from attenio.planning.plan import ApproximateDataflow, Dataflow, Plan, TileRule, Tiles
from attenio.quantities import show_count, show_words
from attenio.workload import Workload


def best_approximate(workload: Workload, fast_words: int) -> Plan | None:
    """The approximate plan that moves the fewest words, of equals the one that guarantees most, or None."""
    plans = []
    for dataflow in Dataflow.approximating(workload.direction):
        try:
            plans.append(approximate_plan(workload, fast_words, dataflow))
        except DoesNotFit:
            continue
    return min(plans, key=lambda plan: (plan.moved_words, _guaranteed(plan)), default=None)


def _guaranteed(plan: Plan) -> float:
    assert plan.certificate is not None
    return plan.certificate.guaranteed_error


def approximate_plan(workload: Workload, fast_words: int, dataflow: Dataflow) -> Plan:
    """The best plan of one approximate dataflow; DoesNotFit says why exact attention is the answer."""
    reason = why_no_features(workload, dataflow)
    if reason is not None:
        raise DoesNotFit(reason)
    chosen = cast(ApproximateDataflow, checked_dataflow(workload, dataflow))
    if chosen is Dataflow.WINDOW_AND_FEATURES:
        tiles = window_tiles(workload, fast_words)
    else:
        tiles = _least_tiles(workload, chosen, fast_words)
    form, problems = approximate_form(chosen), problems_of(workload, chosen)
    return Plan(
        workload=workload,
        fast_words=fast_words,
        dataflow=chosen,
        tiles=tiles,
        rule=TileRule.BEST,
        moved_words=form.moved_words(problems, tiles),
        peak_words=form.peak_words(problems, tiles),
        certificate=certificate_at(workload, tiles),
    )


def _least_tiles(workload: Workload, dataflow: ApproximateDataflow, fast_words: int) -> Tiles:
    """Tiles of the least degree that does without a window."""
    degree, key_tile = needed_tile(workload)
    best = best_approximate_tiles(problems_of(workload, dataflow), dataflow, fast_words, degree, key_tile)
    if best is None:
        raise DoesNotFit(_too_small(workload, dataflow, fast_words, (degree, key_tile)))
    return best.tiles


def _too_small(workload: Workload, dataflow: Dataflow, fast_words: int, least: tuple[int, int]) -> str:
    degree, key_tile = least
    sizes = dict.fromkeys(tile_names(dataflow)[0], 1) | {"degree": degree}
    if "key_tile" in sizes:
        sizes |= {"key_tile": key_tile}
    words = cost(workload, dataflow, Tiles.of(**sizes)).peak_words
    features = feature_count(workload.d, degree)
    return (
        f"{dataflow.value} needs at least {show_words(words)} of fast memory for"
        f" {show_count(features, 'feature')} of degree"
        f" {degree}; the machine has {fast_words:,}: use exact, a larger fast memory or a larger tolerance"
    )
