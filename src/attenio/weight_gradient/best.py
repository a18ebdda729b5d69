"""The plan that moves the fewest words, by exact count over every dataflow and all integer tiles.

>>> workload = WeightGradient(n=8192, d=64)
>>> [plan_weight_gradient(workload, words).dataflow.value for words in (2_000, 20_000, 20_000_000)]
['tiled-products', 'fused-projections', 'resident-keys']
"""

from collections.abc import Callable
from typing import assert_never

from attenio.errors import DoesNotFit
from attenio.planning.plan import MovingTiles
from attenio.planning.problems import Problems
from attenio.quantities import checked_count, show_words
from attenio.weight_gradient.costs.cost import closed_form, problems_of
from attenio.weight_gradient.plan import WeightDataflow, WeightPlan
from attenio.weight_gradient.search import (
    fused,
    fused_projections,
    one_pass,
    resident_keys,
    resident_rows,
    tiled_products,
    two_pass,
)
from attenio.weight_gradient.workload import WeightGradient, checked_weight_gradient


def plan_weight_gradient(
    workload: WeightGradient, fast_words: int, dataflow: WeightDataflow | str | None = None
) -> WeightPlan:
    """The best plan for a fast memory of this many words: of every dataflow, or of the one named."""
    checked_weight_gradient(workload)
    wanted = tuple(WeightDataflow) if dataflow is None else (WeightDataflow.named(dataflow),)
    plans = [plan for plan in weight_candidates(workload, fast_words) if plan.dataflow in wanted]
    if not plans:
        what = wanted[0].value if len(wanted) == 1 else "any dataflow"
        least = 6 * workload.accumulator_words + 1
        raise DoesNotFit(
            f"no tile of {what} fits {show_words(fast_words)}; tiled-products needs {show_words(least)}:"
            " use a larger fast memory"
        )
    return min(plans, key=lambda plan: plan.moved_words)


def weight_candidates(workload: WeightGradient, fast_words: int) -> tuple[WeightPlan, ...]:
    """Every dataflow that fits with its best tiles, in the order in which equals are preferred."""
    checked_weight_gradient(workload)
    checked_count("fast memory (words)", fast_words, most=2**60)
    problems, plans = problems_of(workload), []
    for dataflow in WeightDataflow:
        best = _search(dataflow)(problems, fast_words)
        if best is not None:
            plans.append(
                WeightPlan(
                    workload=workload,
                    fast_words=fast_words,
                    dataflow=dataflow,
                    tiles=best.tiles,
                    moved_words=best.moved_words,
                    peak_words=closed_form(dataflow).peak_words(problems, best.tiles),
                )
            )
    return tuple(plans)


def _search(dataflow: WeightDataflow) -> Callable[[Problems, int], MovingTiles | None]:
    """What finds the best tiles of a dataflow, or that none fits."""
    match dataflow:
        case WeightDataflow.RESIDENT_KEYS:
            return resident_keys.best_tiles
        case WeightDataflow.RESIDENT_ROWS:
            return resident_rows.best_tiles
        case WeightDataflow.FUSED:
            return fused.best_tiles
        case WeightDataflow.FUSED_PROJECTIONS:
            return fused_projections.best_tiles
        case WeightDataflow.ONE_PASS:
            return one_pass.best_tiles
        case WeightDataflow.TWO_PASS:
            return two_pass.best_tiles
        case WeightDataflow.TILED_PRODUCTS:
            return tiled_products.best_tiles
        case _:
            assert_never(dataflow)
