"""Run a training step: the forward pass leaves what the plan says, and the backward pass works on just that."""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.backward.execute import run_backward
from attenio.dataflows.backward.problem import SavedValues
from attenio.dataflows.forward import run_forward
from attenio.dataflows.inputs import Inputs
from attenio.dataflows.problem import NOTHING_STAYS, Advance, ExtraOutputs, Stays
from attenio.dataflows.run import Run, TrainingRun
from attenio.memory import Trace
from attenio.planning.training import Saved, TrainingPlan


def run_training(
    plan: TrainingPlan,
    given: tuple[Inputs, NDArray[np.float32]],
    *,
    record: bool,
    advance: Advance,
    sinks: NDArray[np.float32] | None = None,
) -> TrainingRun:
    """Execute a training step on inputs and the gradient of the output; ``record`` keeps the events of every run."""
    inputs, _ = given

    def forward(extra: ExtraOutputs) -> Run:
        trace = Trace(record=record)
        return run_forward(plan.forward, inputs, trace=trace, advance=advance, extra=extra, sinks=sinks)

    extra = _room(plan)
    first = forward(ExtraOutputs() if plan.saved is Saved.NOTHING else extra)
    again = forward(extra) if plan.saved is Saved.NOTHING else None
    output = first.output if again is None else again.output
    # Some backward passes never ask for the log-sum-exp.
    lse = np.full((*output.shape[:3], 1), np.nan, dtype=np.float32) if extra.log_sum_exp is None else extra.log_sum_exp
    beside = plan.saved is Saved.OUTPUTS and not plan.first_tile
    saved = SavedValues(
        output,
        lse,
        extra.probabilities,
        plan.kept_outputs if beside else 0,
        keys_stayed=beside and plan.kept_keys > 0,
        kept_queries=plan.kept_queries if beside else 0,
        stays=extra.stays,
    )
    trace = Trace(record=record)
    backward = run_backward(plan.backward, given, saved, trace=trace, advance=advance, sinks=sinks)
    return TrainingRun(plan=plan, forward=first, recomputed=again, backward=backward)


def _room(plan: TrainingPlan) -> ExtraOutputs:
    """Room in slow memory for what is saved."""
    if plan.saved is Saved.PROBABILITIES:
        return ExtraOutputs(probabilities={})
    if plan.saved is Saved.OUTPUTS and plan.kept_keys == plan.workload.keys:  # rows make their log-sum-exp again
        return ExtraOutputs()
    workload = plan.workload
    shape = (workload.batch, workload.heads, workload.queries, 1)
    return ExtraOutputs(np.full(shape, np.nan, dtype=np.float32), stays=_stays(plan))


def _stays(plan: TrainingPlan) -> Stays:
    """What stays of a first tile."""
    return Stays(plan.kept_keys, plan.kept_values, plan.kept_outputs) if plan.first_tile else NOTHING_STAYS
