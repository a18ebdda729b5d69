"""What a run returns: the output or gradients, what was counted, and how far they are from the definition."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.inputs import Inputs
from attenio.display import Shown
from attenio.memory import Trace
from attenio.planning.nested import NestedPlan
from attenio.planning.plan import Plan
from attenio.planning.training import TrainingPlan
from attenio.quantities import show_words
from attenio.reference import Gradients, attention_blocks, gradients_and_sinks
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(Shown):
    """One execution of a plan on the counted memory; ``output`` is (batch, heads, queries, value_dim).

    A backward run has ``gradients``, and those of sinks if there are any, which its error is about; its ``output`` is
    the one that it was given. A forward run that approximates has a ``guaranteed_error``, which its error does not
    exceed.
    """

    plan: Plan
    output: NDArray[np.float32]
    trace: Trace
    moved_words: int
    peak_words: int
    max_abs_error: float
    gradients: Gradients | None = None
    sink_gradients: NDArray[np.float32] | None = None
    guaranteed_error: float | None = None

    def facts(self) -> dict[str, Any]:
        """What was counted beside what was planned, and the error."""
        return {
            "workload": str(self.plan.workload),
            "dataflow": self.plan.dataflow.value,
            "tiles": str(self.plan.tiles),
            "moved_words": self.moved_words,
            "planned_words": self.plan.moved_words,
            "peak_words": self.peak_words,
            "fast_words": self.plan.fast_words,
            "max_abs_error": self.max_abs_error,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class NestedRun(Shown):
    """One execution of a nested plan; tuples have one entry per boundary, the innermost first."""

    plan: NestedPlan
    output: NDArray[np.float32]
    traces: tuple[Trace, ...]
    moved_words: tuple[int, ...]
    peak_words: tuple[int, ...]
    max_abs_error: float

    def facts(self) -> dict[str, Any]:
        """What was counted at every boundary, innermost first, beside what was planned, and the error."""
        counted = zip(self.moved_words, self.plan.moved_words, strict=True)
        return {
            "workload": str(self.plan.workload),
            **{
                f"boundary {k}": f"moved {show_words(moved)} of {planned:,} planned"
                for k, (moved, planned) in enumerate(counted)
            },
            "max_abs_error": self.max_abs_error,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingRun(Shown):
    """One execution of a training step; ``recomputed`` is the second forward run of a step that saves nothing."""

    plan: TrainingPlan
    forward: Run
    recomputed: Run | None
    backward: Run

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that it is made of, in order."""
        return (self.forward, *(() if self.recomputed is None else (self.recomputed,)), self.backward)

    @property
    def output(self) -> NDArray[np.float32]:
        """The output of the forward pass."""
        return self.forward.output

    @property
    def gradients(self) -> Gradients:
        """The gradients of the backward pass."""
        assert self.backward.gradients is not None
        return self.backward.gradients

    @property
    def moved_words(self) -> int:
        """Words moved by all runs together."""
        return sum(run.moved_words for run in self.runs)

    @property
    def peak_words(self) -> int:
        """The most words held at once in any of the runs, with outputs and queries that stay beside them."""
        plan, workload = self.plan, self.plan.workload
        beside = 0 if plan.first_tile else plan.kept_outputs * workload.value_dim + plan.kept_queries * workload.d
        return max(run.peak_words for run in self.runs) + beside

    @property
    def max_abs_error(self) -> float:
        """The larger error of output and gradients."""
        return float(np.max([run.max_abs_error for run in self.runs]))  # keeps NaN

    def facts(self) -> dict[str, Any]:
        """What was counted beside what was planned, and the error."""
        return {
            "workload": str(self.plan.workload),
            "saved": self.plan.saved.value,
            "moved_words": self.moved_words,
            "planned_words": self.plan.moved_words,
            "peak_words": self.peak_words,
            "max_abs_error": self.max_abs_error,
        }


def gradient_error(
    gradients: Gradients,
    inputs: Inputs,
    d_output: NDArray[np.float32],
    workload: Workload,
    sinks: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None,
) -> float:
    """The largest distance of any gradient from the float64 definition on the same, already rounded, inputs.

    ``sinks``: those, and the gradients of them, which count with the others.
    """
    exact, d_sinks = gradients_and_sinks(*inputs, d_output, workload, sinks=None if sinks is None else sinks[0])
    both = [*zip(gradients, exact, strict=True), *([] if sinks is None else [(sinks[1], d_sinks)])]
    return float(np.max([np.abs(gradient - right).max() for gradient, right in both]))


def max_abs_error(
    output: NDArray[np.float32], inputs: Inputs, workload: Workload, sinks: NDArray[np.float32] | None = None
) -> float:
    """The largest distance of any output from the float64 definition on the same, already rounded, inputs."""
    worst = np.float64(0)
    for block in attention_blocks(*inputs, workload, sinks=sinks):
        distance = np.abs(output[block.batch, block.head, block.rows] - block.values)
        worst = np.maximum(worst, distance.max())  # keeps NaN, which Python's max may drop
    return float(worst)
