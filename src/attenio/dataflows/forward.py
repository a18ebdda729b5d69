"""Run a forward plan, problem by problem; what is to outlast the run is in ``ExtraOutputs``."""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.attenio import attenio
from attenio.dataflows.exchanged_keys import exchanged_keys
from attenio.dataflows.exchanged_rows import exchanged_rows
from attenio.dataflows.feature_blocks import feature_blocks
from attenio.dataflows.feature_state import feature_state
from attenio.dataflows.flash_attention_1 import flash_attention_1
from attenio.dataflows.flash_attention_2 import flash_attention_2
from attenio.dataflows.flat import flat
from attenio.dataflows.guarantee import guaranteed_error, polynomial_of
from attenio.dataflows.inputs import Inputs
from attenio.dataflows.kept_keys import kept_keys
from attenio.dataflows.kept_rows import kept_rows
from attenio.dataflows.problem import (
    NO_EXTRA,
    Advance,
    ExtraOutputs,
    Problem,
    Sharing,
    separate_problems,
    stacked_problems,
)
from attenio.dataflows.rank_one_tiling import rank_one_tiling
from attenio.dataflows.rolling_rows import rolling_rows
from attenio.dataflows.run import Run, max_abs_error
from attenio.dataflows.score_stationary import score_stationary
from attenio.dataflows.split_keys import split_keys
from attenio.dataflows.square_tiling import square_tiling
from attenio.dataflows.stacked_groups import stacked_groups
from attenio.dataflows.stacked_rows import stacked_rows
from attenio.dataflows.standard import standard
from attenio.dataflows.standing import Standing
from attenio.dataflows.value_columns import value_columns
from attenio.dataflows.window_and_features import window_and_features
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, Trace
from attenio.planning.nested import NestedPlan
from attenio.planning.plan import (
    OF_GROUPS,
    ApproximateDataflow,
    Dataflow,
    Plan,
    Tiles,
    is_approximate,
    is_exact_forward,
    takes_heads_as_rows,
)


def run_forward(
    plan: Plan,
    inputs: Inputs,
    *,
    trace: Trace,
    advance: Advance,
    extra: ExtraOutputs = NO_EXTRA,
    sinks: NDArray[np.float32] | None = None,
) -> Run:
    """Execute a forward plan on inputs, and fill the extra outputs."""
    shared = replace(prepared(plan, inputs, advance, extra), sinks=sinks)
    fast = FastMemory(plan.fast_words, intermediate_words=plan.workload.accumulator_words, trace=trace)
    with np.errstate(over="ignore", under="ignore"), Standing(shared, (fast,)) as standing:
        for problem in _problems(plan, shared):
            known = standing.beside(problem)
            if takes_heads_as_rows(plan.workload, plan.dataflow):
                known = replace(known, pattern=Band.dense(len(known.Q.values), known.pattern.keys), group=1)
            trace.problem = problem.label
            _attend(plan, known, fast)
    return Run(
        plan=plan,
        output=shared.output,
        trace=trace,
        moved_words=trace.moved_words,
        peak_words=fast.peak_words,
        max_abs_error=max_abs_error(shared.output, shared.inputs, plan.workload, sinks),
        guaranteed_error=guaranteed_error(plan, inputs),
    )


def prepared(plan: Plan | NestedPlan, inputs: Inputs, advance: Advance, extra: ExtraOutputs = NO_EXTRA) -> Sharing:
    """What the problems of a plan are cut from, with room for the output."""
    workload = plan.workload
    shape = (workload.batch, workload.heads, workload.queries, workload.value_dim)
    return Sharing(
        workload=workload,
        inputs=inputs,
        output=np.full(shape, np.nan, dtype=np.float32),
        arithmetic=Arithmetic.of(workload, *inputs),
        advance=advance,
        extra=extra,
    )


def _problems(plan: Plan, shared: Sharing) -> Iterator[Problem]:
    dataflow = plan.dataflow
    if dataflow in (Dataflow.STACKED_GROUPS, Dataflow.SPLIT_KEYS):
        return stacked_problems(shared)
    by_group = dataflow is Dataflow.FLASH_ATTENTION_1 or not OF_GROUPS.isdisjoint(plan.tiles) or dataflow.is_approximate
    return separate_problems(shared, by_group=by_group or takes_heads_as_rows(plan.workload, dataflow))


def _attend(plan: Plan, problem: Problem, fast: FastMemory) -> None:  # noqa: C901 - a case a dataflow
    """Run the plan's loop nest on one problem."""
    if is_approximate(plan.dataflow):
        _approximate(plan, plan.dataflow, problem, fast)
        return
    if not is_exact_forward(plan.dataflow):
        raise ValueError(f"{plan.dataflow.value} does not compute outputs")
    match plan.dataflow:
        case Dataflow.STANDARD:
            standard(problem, plan.tiles, fast)
        case Dataflow.FLAT:
            flat(problem, plan.tiles, fast)
        case Dataflow.FLASH_ATTENTION_1:
            flash_attention_1(problem, plan.tiles, fast)
        case Dataflow.FLASH_ATTENTION_2:
            flash_attention_2(problem, plan.tiles, fast)
        case Dataflow.ATTENIO:
            attenio(problem, plan.tiles, fast)
        case Dataflow.SQUARE_TILING:
            square_tiling(problem, plan.tiles, fast)
        case Dataflow.RANK_ONE_TILING:
            rank_one_tiling(problem, plan.tiles, fast)
        case Dataflow.SCORE_STATIONARY:
            score_stationary(problem, plan.tiles, fast)
        case Dataflow.SPLIT_KEYS:
            split_keys(problem, plan.tiles, fast)
        case Dataflow.STACKED_GROUPS:
            stacked_groups(problem, plan.tiles, fast)
        case Dataflow.KEPT_KEYS:
            _kept_keys(problem, plan.tiles, fast)
        case Dataflow.KEPT_ROWS:
            kept_rows(problem, plan.tiles, fast)
        case _:
            assert_never(plan.dataflow)


def _kept_keys(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """The nest of kept keys that has these tiles."""
    if "exchanged_keys" in tiles:
        exchanged_keys(problem, tiles, fast)
    elif "stacked_rows" in tiles:
        stacked_rows(problem, tiles, fast)
    elif "rolling_rows" in tiles:
        rolling_rows(problem, tiles, fast)
    elif "exchanged_rows" in tiles:
        exchanged_rows(problem, tiles, fast)
    else:
        kept_keys(problem, tiles, fast)


def _approximate(plan: Plan, dataflow: ApproximateDataflow, problem: Problem, fast: FastMemory) -> None:
    """The same where a polynomial takes the place of the exponential."""
    match dataflow:
        case Dataflow.FEATURE_STATE:
            feature_state(problem, plan.tiles, fast, polynomial_of(plan))
        case Dataflow.VALUE_COLUMNS:
            value_columns(problem, plan.tiles, fast, polynomial_of(plan))
        case Dataflow.FEATURE_BLOCKS:
            feature_blocks(problem, plan.tiles, fast, polynomial_of(plan))
        case Dataflow.WINDOW_AND_FEATURES:
            window_and_features(problem, plan.tiles, fast, polynomial_of(plan))
        case Dataflow.FEATURE_GRADIENT:
            raise ValueError(f"{dataflow.value} does not compute outputs")
        case _:
            assert_never(dataflow)
