"""Run a plan of a weight gradient: real numbers through the counted memory, tile by tile as the plan says.

>>> from attenio.weight_gradient.best import plan_weight_gradient
>>> plan = plan_weight_gradient(WeightGradient(n=64, d=4), 100)
>>> run = execute_weight_gradient(plan)
>>> run.moved_words == plan.moved_words, run.peak_words == plan.peak_words
(True, True)
"""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.dataflows.host import HOST_LIMIT_BYTES
from attenio.errors import DoesNotFit, InvalidInput
from attenio.memory import FastMemory, Trace
from attenio.names import checked_kind
from attenio.quantities import checked_count, show_bytes
from attenio.weight_gradient.dataflows.fused import fused
from attenio.weight_gradient.dataflows.one_pass import fused_projections, one_pass
from attenio.weight_gradient.dataflows.problem import WeightProblem, weight_problem
from attenio.weight_gradient.dataflows.resident_keys import resident_keys
from attenio.weight_gradient.dataflows.resident_rows import resident_rows
from attenio.weight_gradient.dataflows.tiled_products import tiled_products
from attenio.weight_gradient.dataflows.two_pass import two_pass
from attenio.weight_gradient.inputs import checked_weight_inputs, random_weight_inputs
from attenio.weight_gradient.plan import WeightDataflow, WeightPlan
from attenio.weight_gradient.reference import weight_gradients
from attenio.weight_gradient.words import problems_of, weight_form
from attenio.weight_gradient.workload import WeightGradient

_BYTES_PER_VALUE = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightRun:
    """One execution of a plan; ``max_abs_error`` is the largest distance of dX or dY from the float64 definition."""

    plan: WeightPlan
    dx: NDArray[np.float32]
    dy: NDArray[np.float32]
    trace: Trace
    moved_words: int
    peak_words: int
    max_abs_error: float


def execute_weight_gradient(
    plan: WeightPlan, *, inputs: tuple[ArrayLike, ...] | None = None, seed: int = 0, record: bool = False
) -> WeightRun:
    """Execute a plan on its fast memory.

    ``inputs`` are a1, a2, a3, x, y and do, random from ``seed`` when left out. ``record`` keeps every move in the
    trace. The run stops with MemoryOverflow when the plan does not fit, and with DoesNotFit when this computer cannot
    hold it.
    """
    _check(plan)
    workload = plan.workload
    given = random_weight_inputs(workload, seed) if inputs is None else checked_weight_inputs(workload, inputs)
    problem = weight_problem(workload, given)
    fast = FastMemory(plan.fast_words, intermediate_words=workload.accumulator_words, trace=Trace(record=record))
    with np.errstate(over="ignore", under="ignore"):
        _run(plan, problem, fast)
    dx, dy = problem.queries.gradient.values, problem.outputs.gradient.values.T
    exact = weight_gradients(given, workload)
    return WeightRun(
        plan=plan,
        dx=dx,
        dy=dy,
        trace=fast.trace,
        moved_words=fast.trace.moved_words,
        peak_words=fast.peak_words,
        max_abs_error=float(max(np.abs(dx - exact.dx).max(), np.abs(dy - exact.dy).max())),
    )


def _run(plan: WeightPlan, problem: WeightProblem, fast: FastMemory) -> None:
    match plan.dataflow:
        case WeightDataflow.RESIDENT_KEYS:
            resident_keys(problem, plan.tiles, fast)
        case WeightDataflow.RESIDENT_ROWS:
            resident_rows(problem, plan.tiles, fast)
        case WeightDataflow.FUSED:
            fused(problem, plan.tiles, fast)
        case WeightDataflow.FUSED_PROJECTIONS:
            fused_projections(problem, plan.tiles, fast)
        case WeightDataflow.ONE_PASS:
            one_pass(problem, plan.tiles, fast)
        case WeightDataflow.TWO_PASS:
            two_pass(problem, plan.tiles, fast)
        case WeightDataflow.TILED_PRODUCTS:
            tiled_products(problem, plan.tiles, fast)
        case _:
            assert_never(plan.dataflow)


def _check(plan: WeightPlan) -> None:
    checked_kind(plan, WeightPlan, "plan", "a WeightPlan, such as plan_weight_gradient(workload, fast_words)")
    for name in weight_form(problems_of(plan.workload), plan.dataflow).names:
        if name not in plan.tiles:
            raise InvalidInput(
                f"{plan.dataflow.value} needs a size for {name}; the plan has {plan.tiles or 'no tiles'}"
            )
    for name, tile in plan.tiles.items():
        checked_count(name, tile)
    held = _BYTES_PER_VALUE * (_values(plan.workload, plan.dataflow) + plan.peak_words)
    if held > HOST_LIMIT_BYTES:
        raise DoesNotFit(
            f"running {plan.workload} would take {show_bytes(held)} of this computer's memory, over the limit of"
            f" {show_bytes(HOST_LIMIT_BYTES)}; use a smaller n"
        )


def _values(workload: WeightGradient, dataflow: WeightDataflow) -> int:
    """Values in slow memory: inputs and what is spilled."""
    rows, keys, d = workload.queries, workload.keys, workload.d
    scores = 2 * rows * keys if dataflow is WeightDataflow.TILED_PRODUCTS else 0
    return 8 * rows * d + 4 * keys * d + 8 * d * d + scores
