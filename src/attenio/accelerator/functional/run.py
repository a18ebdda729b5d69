"""A program on real numbers: every step that has an operation does it, in the order of the program.

What a step uses must have been loaded by an earlier one; a program that forgot a load fails here.

Masked scores are hidden as they are written, and the scale of the scores is multiplied into the queries as they arrive
(exactly, where it is a power of two, as at d = 64).

>>> from attenio.catalogue import machine_named
>>> from attenio.accelerator import plan_for
>>> from attenio.workload import Workload
>>> machine = machine_named("attenio-512k")
>>> plan = plan_for(Workload(n=64, d=64), machine, Dataflow.ATTENIO)
>>> round(run_functional(plan, machine).max_abs_error, 4)
0.0025
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.accelerator.controller import SIMULATED, program_of
from attenio.accelerator.functional.arithmetic import Numbers, Precision
from attenio.accelerator.functional.error import error_bound
from attenio.accelerator.functional.exponential import ExpApproximation
from attenio.accelerator.functional.gradient import GradientTiles, Saved
from attenio.accelerator.functional.heads import heads_of
from attenio.accelerator.functional.query_tiles import QueryTiles
from attenio.accelerator.functional.three_operators import ThreeOperators
from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Program
from attenio.accelerator.programs.attenio import Switches
from attenio.accelerator.step import Operation
from attenio.dataflows.inputs import Inputs, checked_inputs, given_or_random, random_inputs
from attenio.dataflows.run import gradient_error, max_abs_error
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.names import checked_kind
from attenio.planning import Dataflow, Plan
from attenio.reference import Gradients
from attenio.workload import Direction

FUNCTIONAL = SIMULATED
# As many products as take about a minute.
_MOST_MACS = 2**31

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionalRun:
    """The output of a program, its distance from the definition, and the distance that it cannot exceed.

    Of a gradient the ``output`` is the one that it was given, the error is that of the ``gradients``, and nothing is
    promised about it: the bound is infinite.
    """

    plan: Plan
    precision: Precision
    output: NDArray[np.float32]
    max_abs_error: float
    error_bound: float
    gradients: Gradients | None = None


def run_functional(
    plan: Plan,
    machine: Machine | str,
    *,
    switches: Switches | None = None,
    arithmetic: Precision | ExpApproximation = Precision.HALF,
    inputs: Sequence[ArrayLike] | int = 0,
    progress: Progress | None = None,
) -> FunctionalRun:
    """Compute a plan's program; ``inputs`` are q, k and v (and do of a gradient), or the seed of random ones.

    ``arithmetic`` is half precision, with another exponential if one is named, or exact.
    """
    check_size(plan)
    hardware = Hardware.of(machine)
    program = program_of(plan, hardware, switches)
    precision = arithmetic if isinstance(arithmetic, Precision) else Precision.HALF
    kind = arithmetic if isinstance(arithmetic, ExpApproximation) else ExpApproximation.TABLE
    numbers = Numbers(pe=hardware.pe, precision=precision, approximation=kind)
    workload, seed = plan.workload, inputs if isinstance(inputs, int) else 0
    if workload.direction is Direction.BACKWARD:
        given, d_output = given_or_random(workload, None if isinstance(inputs, int) else inputs, seed)
        return _gradient(plan, program, numbers, (given, d_output), progress)
    given = random_inputs(workload, inputs) if isinstance(inputs, int) else checked_inputs(workload, inputs)
    output = np.full((workload.batch, workload.heads, workload.queries, workload.value_dim), np.nan)
    engine_of_head = ThreeOperators if plan.dataflow is Dataflow.STANDARD else QueryTiles
    _compute(program, (engine_of_head(head, plan, numbers, given, output) for head in heads_of(plan)), progress)
    return FunctionalRun(
        plan=plan,
        precision=precision,
        output=output.astype(np.float32),
        max_abs_error=max_abs_error(output, given, workload),
        error_bound=error_bound(given, workload, kind),
    )


def _gradient(
    plan: Plan,
    program: Program,
    numbers: Numbers,
    inputs: tuple[Inputs, NDArray[np.float32]],
    progress: Progress | None,
) -> FunctionalRun:
    given, d_output = inputs
    saved = Saved(given, d_output, plan.workload)
    gradients = Gradients(*(np.full(array.shape, np.nan) for array in given))
    _compute(
        program, (GradientTiles(head, plan, numbers, given, saved, gradients) for head in heads_of(plan)), progress
    )
    return FunctionalRun(
        plan=plan,
        precision=numbers.precision,
        output=saved.output.astype(np.float32),
        max_abs_error=gradient_error(gradients, given, d_output, plan.workload),
        error_bound=math.inf,
        gradients=gradients,
    )


def _compute(
    program: Program, heads: Iterator[QueryTiles | ThreeOperators | GradientTiles], progress: Progress | None
) -> None:
    """Every step that has an operation does it, on the head that it belongs to."""
    work = next(heads)
    for number, step in enumerate(program):
        if step.operation is None:
            continue
        if work.is_done:
            work = next(heads)
        work.do(step)
        if step.operation is Operation.STORE_OUTPUTS and progress is not None:
            progress(number, program.steps)
    assert work.is_done and next(heads, None) is None, "the program ended before its heads did"


def check_size(plan: Plan) -> None:
    """Refuse what takes too long to compute, before any number is drawn."""
    checked_kind(plan, Plan, "plan", "a Plan, such as that of plan_for(workload, machine, 'attenio')")
    workload = plan.workload
    if workload.dtype is not ElementType.FP16:
        raise InvalidInput(f"the functional mode computes in fp16, the workload is in {workload.dtype.value}: use fp16")
    macs = workload.scores * (workload.d + workload.value_dim)
    if macs > _MOST_MACS:
        most = _MOST_MACS // (workload.d + workload.value_dim)
        raise InvalidInput(
            f"computing numbers for {workload.scores:,} scores takes long; use at most {most:,} of this width,"
            f" about a minute's work, such as one head with n={isqrt(most):,}"
        )
