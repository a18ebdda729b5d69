"""What a run returns: the output, what was counted, and how far the output is from the definition."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.inputs import Inputs
from attenio.memory import Trace
from attenio.planning.nested_plan import NestedPlan
from attenio.planning.plan import Plan
from attenio.reference import attention_blocks
from attenio.workload import Workload

__all__ = ["NestedRun", "Run", "max_abs_error"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One execution of a plan on the counted memory; ``output`` is (batch, heads, queries, value_dim)."""

    plan: Plan
    output: NDArray[np.float32]
    trace: Trace
    moved_words: int
    peak_words: int
    max_abs_error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class NestedRun:
    """One execution of a nested plan; tuples have one entry per boundary, the innermost first."""

    plan: NestedPlan
    output: NDArray[np.float32]
    traces: tuple[Trace, ...]
    moved_words: tuple[int, ...]
    peak_words: tuple[int, ...]
    max_abs_error: float


def max_abs_error(output: NDArray[np.float32], inputs: Inputs, workload: Workload) -> float:
    """The largest distance of any output from the float64 definition on the same, already rounded, inputs."""
    worst = np.float64(0)
    for block in attention_blocks(*inputs, workload):
        distance = np.abs(output[block.batch, block.head, block.rows] - block.values)
        worst = np.maximum(worst, distance.max())  # keeps NaN, which Python's max may drop
    return float(worst)
