"""The plan that moves the fewest words, by exact count over every dataflow and all integer tiles.

>>> workload = WeightGradient(n=8192, d=64)
>>> [plan_weight_gradient(workload, words).dataflow.value for words in (2_000, 20_000, 20_000_000)]
['tiled-products', 'fused-projections', 'resident-keys']
"""

from attenio.errors import DoesNotFit
from attenio.quantities import checked_count, show_words
from attenio.weight_gradient.plan import WeightDataflow, WeightPlan
from attenio.weight_gradient.words import problems_of, weight_form
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
        form = weight_form(problems, dataflow)
        tiles = form.best_tiles(fast_words)
        if tiles is not None:
            cost = form.cost(tiles)
            plans.append(
                WeightPlan(
                    workload=workload,
                    fast_words=fast_words,
                    dataflow=dataflow,
                    tiles=tiles,
                    moved_words=cost.moved_words,
                    peak_words=cost.peak_words,
                )
            )
    return tuple(plans)
