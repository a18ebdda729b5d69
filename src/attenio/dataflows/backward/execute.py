"""Run a backward plan: what the forward pass saved comes from the definition, or from a forward run."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.backward.all_keys import all_keys
from attenio.dataflows.backward.band_turns import turns_of_band_keys, turns_of_band_rows
from attenio.dataflows.backward.causal_sums import causal_sums
from attenio.dataflows.backward.feature_gradient import feature_gradient
from attenio.dataflows.backward.fused_values import fused_values
from attenio.dataflows.backward.held_scores import held_scores
from attenio.dataflows.backward.kept_row_gradients import kept_row_gradients
from attenio.dataflows.backward.key_ring import key_ring
from attenio.dataflows.backward.key_stationary import key_stationary
from attenio.dataflows.backward.passing_keys import passing_keys
from attenio.dataflows.backward.problem import (
    BackwardProblem,
    BackwardSharing,
    SavedValues,
    backward_problems,
    probabilities_of,
    saved_by_forward,
)
from attenio.dataflows.backward.query_stationary import query_stationary
from attenio.dataflows.backward.rolling_keys import rolling_keys
from attenio.dataflows.backward.rolling_rows import rolling_rows
from attenio.dataflows.backward.row_ring import row_ring
from attenio.dataflows.backward.spilled_gradients import spilled_gradients
from attenio.dataflows.backward.standing_sinks import StandingSinks
from attenio.dataflows.backward.staying_sums import key_sums, row_sums
from attenio.dataflows.backward.taking_turns import turns_of_keys, turns_of_rows
from attenio.dataflows.backward.tiled_products import tiled_products
from attenio.dataflows.backward.turning_tiles import turning_tiles
from attenio.dataflows.backward.two_pass import two_pass
from attenio.dataflows.backward.waiting_keys import waiting_keys
from attenio.dataflows.backward.waiting_rows import waiting_rows
from attenio.dataflows.guarantee import polynomial_of
from attenio.dataflows.inputs import Inputs
from attenio.dataflows.problem import Advance
from attenio.dataflows.run import Run, gradient_error
from attenio.memory import FastMemory, Trace
from attenio.planning.plan import Dataflow, GradientDataflow, Plan, Tiles, is_exact_gradient
from attenio.reference import Gradients
from attenio.workload import Workload


def run_backward(
    plan: Plan,
    given: tuple[Inputs, NDArray[np.float32]],
    saved: SavedValues,
    *,
    trace: Trace,
    advance: Advance,
    sinks: NDArray[np.float32] | None = None,
) -> Run:
    """Execute a backward plan on inputs, the gradient of the output, and what the forward pass saved."""
    workload, (inputs, d_output) = plan.workload, given
    shared = BackwardSharing(
        workload=workload,
        inputs=inputs,
        d_output=d_output,
        saved=saved,
        gradients=Gradients(*(np.full(x.shape, np.nan, dtype=np.float32) for x in inputs)),
        arithmetic=Arithmetic.of(workload, *inputs, d_output),
        advance=advance,
        sinks=sinks,
    )
    fast = FastMemory(plan.fast_words, intermediate_words=workload.accumulator_words, trace=trace)
    standing = StandingSinks(shared, fast)
    with np.errstate(over="ignore", under="ignore"):
        for problem in backward_problems(shared):
            known = standing.beside(problem)
            trace.problem = problem.label
            _differentiate(plan, known, fast)
        standing.done()
    return Run(
        plan=plan,
        output=saved.output,
        trace=trace,
        moved_words=trace.moved_words,
        peak_words=fast.peak_words,
        max_abs_error=gradient_error(
            shared.gradients, inputs, d_output, workload, None if sinks is None else (sinks, standing.gradients)
        ),
        gradients=shared.gradients,
        sink_gradients=None if sinks is None else standing.gradients,
    )


def saved_by_definition(
    plan: Plan, given: tuple[Inputs, NDArray[np.float32]], sinks: NDArray[np.float32] | None = None
) -> SavedValues:
    """What a forward pass would have saved for this plan."""
    workload, (inputs, d_output) = plan.workload, given
    arithmetic = Arithmetic.of(workload, *inputs, d_output)
    saved = saved_by_forward(workload, inputs, arithmetic, sinks)
    if "gradient_keys" not in plan.tiles:
        return saved
    return SavedValues(saved.output, saved.log_sum_exp, probabilities_of(workload, inputs, arithmetic))


def _differentiate(plan: Plan, problem: BackwardProblem, fast: FastMemory) -> None:
    """Run the plan's loop nest on one problem."""
    if plan.dataflow is Dataflow.FEATURE_GRADIENT:
        feature_gradient(problem, plan.tiles, fast, polynomial_of(plan))
        return
    if not is_exact_gradient(plan.dataflow):
        raise ValueError(f"{plan.dataflow.value} does not compute gradients")
    match plan.dataflow:
        case Dataflow.KEY_STATIONARY:
            key_stationary(problem, plan.tiles, fast)
        case Dataflow.QUERY_STATIONARY:
            tiled = passing_keys if "kept_keys" in plan.tiles else query_stationary
            sums = key_sums if "key_sums" in plan.tiles else turns_of_keys if "turn_keys" in plan.tiles else tiled
            other = key_ring if "ring_keys" in plan.tiles else sums
            run = waiting_rows if "waiting_rows" in plan.tiles else other
            run = rolling_rows if "rolling_rows" in plan.tiles else run
            run = turns_of_band_keys if "masked_turn_keys" in plan.tiles else run
            run(problem, plan.tiles, fast)
        case Dataflow.TWO_PASS:
            two_pass(problem, plan.tiles, fast)
        case Dataflow.TILED_PRODUCTS:
            tiled_products(problem, plan.tiles, fast)
        case Dataflow.FUSED_VALUES:
            run = held_scores if "value_columns" in plan.tiles else fused_values
            run(problem, plan.tiles, fast)
        case Dataflow.SPILLED_GRADIENTS:
            spilled_gradients(problem, plan.tiles, fast)
        case Dataflow.KEPT_ROW_GRADIENTS:
            tiled = turns_of_rows if "turn_rows" in plan.tiles else kept_row_gradients
            sums = row_sums if "row_sums" in plan.tiles else tiled
            ring = row_ring if "ring_rows" in plan.tiles else sums
            other = waiting_keys if "waiting_keys" in plan.tiles else ring
            turning = turning_tiles if "exchanged_positions" in plan.tiles else other
            last = causal_sums if "last_keys" in plan.tiles else turning
            run = rolling_keys if "rolling_keys" in plan.tiles else last
            run = turns_of_band_rows if "masked_turn_rows" in plan.tiles else run
            run = all_keys if "first_keys" in plan.tiles else run
            run(problem, plan.tiles, fast)
        case _:
            assert_never(plan.dataflow)


def backward_units(workload: Workload, dataflow: GradientDataflow, tiles: Tiles) -> int:
    """Rows and keys that a run passes over: what progress counts."""
    rows = workload.batch * workload.heads * workload.queries
    keys = workload.batch * workload.kv_heads * workload.keys
    match dataflow:
        case Dataflow.KEY_STATIONARY:
            return keys
        case Dataflow.KEPT_ROW_GRADIENTS:
            return keys * (1 + (-(-workload.value_dim // tiles["value_columns"]) if "value_columns" in tiles else 0))
        case Dataflow.QUERY_STATIONARY:
            return rows
        case Dataflow.TWO_PASS:
            passes = workload.group if workload.heads_are_rows else -(-workload.group // tiles.get("head_tile", 1))
            return passes * workload.batch * workload.kv_heads * workload.queries + keys
        case Dataflow.TILED_PRODUCTS:
            if "whole_rows" in tiles:
                return rows + (2 if "summed_keys" in tiles else 1) * keys
            return (3 if {"gradient_keys", "stationary_keys"}.isdisjoint(tiles) else 2) * rows + 2 * keys
        case Dataflow.FUSED_VALUES if "value_columns" in tiles:
            return rows + keys * -(-workload.value_dim // tiles["value_columns"])
        case Dataflow.FUSED_VALUES:
            return 2 * rows + keys
        case Dataflow.SPILLED_GRADIENTS:
            return rows + (2 if "key_keys" in tiles else 1) * keys
        case _:
            assert_never(dataflow)
