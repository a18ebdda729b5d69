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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.accelerator.controller import program_of
from attenio.accelerator.functional.arithmetic import Numbers, Precision
from attenio.accelerator.functional.complete_rows import CompleteRows
from attenio.accelerator.functional.error import error_bound
from attenio.accelerator.functional.exponential import ExpApproximation
from attenio.accelerator.functional.heads import Head, heads_of
from attenio.accelerator.functional.online_rows import OnlineRows
from attenio.accelerator.functional.tile import Tile
from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Operation, Program
from attenio.accelerator.switches import Switches
from attenio.dataflows.inputs import Inputs, checked_inputs, random_inputs
from attenio.dataflows.run import max_abs_error
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.planning import Dataflow, Plan

__all__ = ["FUNCTIONAL", "FunctionalRun", "run_functional"]

# Standard's outer products are timed, not computed.
FUNCTIONAL = (Dataflow.FLAT, Dataflow.FLASH_ATTENTION_2, Dataflow.ATTENIO, Dataflow.STACKED_GROUPS)
# As many products as take about a minute.
_MOST_MACS = 2**31

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionalRun:
    """The output of a program, its distance from the definition, and the distance that it cannot exceed."""

    plan: Plan
    precision: Precision
    output: NDArray[np.float32]
    max_abs_error: float
    error_bound: float


def run_functional(
    plan: Plan,
    machine: Machine,
    *,
    switches: Switches | None = None,
    arithmetic: Precision | ExpApproximation = Precision.HALF,
    inputs: Sequence[ArrayLike] | int = 0,
    progress: Progress | None = None,
) -> FunctionalRun:
    """Compute a plan's program; ``inputs`` are q, k and v, or the seed of random ones.

    ``arithmetic`` is half precision, with another exponential if one is named, or exact.
    """
    _check(plan)
    hardware = Hardware.of(machine)
    given = random_inputs(plan.workload, inputs) if isinstance(inputs, int) else checked_inputs(plan.workload, inputs)
    program = program_of(plan, hardware, switches)
    precision = arithmetic if isinstance(arithmetic, Precision) else Precision.HALF
    kind = arithmetic if isinstance(arithmetic, ExpApproximation) else ExpApproximation.TABLE
    numbers = Numbers(pe=hardware.pe, precision=precision, approximation=kind)
    output = _computed(plan, program, numbers, given, progress)
    return FunctionalRun(
        plan=plan,
        precision=precision,
        output=output.astype(np.float32),
        max_abs_error=max_abs_error(output, given, plan.workload),  # type: ignore[arg-type]
        error_bound=error_bound(given, plan.workload, kind),
    )


def _computed(
    plan: Plan, program: Program, numbers: Numbers, given: Inputs, progress: Progress | None
) -> NDArray[np.float64]:
    workload = plan.workload
    output = np.full((workload.batch, workload.heads, workload.queries, workload.value_dim), np.nan)
    heads = heads_of(plan)
    work = _Head(next(heads), plan, numbers, given, output)
    for number, step in enumerate(program):
        if step.operation is None:
            continue
        if work.is_done:
            work = _Head(next(heads), plan, numbers, given, output)
        if step.operation is Operation.LOAD_QUERIES:
            work.load(step.rows)  # of the tile under way, or ahead of the next one
            continue
        work.tile(step.rows).do(step.operation, step.keys)
        if step.operation is Operation.STORE_OUTPUTS:
            work.store()
            if progress is not None:
                progress(number, program.steps)
    assert work.is_done and next(heads, None) is None, "the program ended before its heads did"
    return output


class _Head:
    """A head under way: the rows that are done, and the tile that is not."""

    def __init__(self, head: Head, plan: Plan, numbers: Numbers, given: Inputs, output: NDArray[np.float64]) -> None:
        self._head, self._numbers, self._output = head, numbers, output
        self._kind: type[Tile] = CompleteRows if plan.dataflow is Dataflow.FLAT else OnlineRows
        queries = given.q[head.batch, list(head.heads), head.rows].astype(np.float64)
        self._q = numbers.keep(queries * plan.workload.softmax_scale)
        self._k = numbers.keep(given.k[head.batch, head.kv_head, head.keys].astype(np.float64))
        self._v = numbers.keep(given.v[head.batch, head.kv_head, head.keys].astype(np.float64))
        self._at = self._loaded_rows = 0
        self._tile: Tile | None = None

    @property
    def is_done(self) -> bool:
        return self._at == self._head.pattern.rows

    def load(self, rows: int) -> None:
        """Queries have arrived."""
        self._loaded_rows += rows

    def tile(self, rows: int) -> Tile:
        """The tile under way, or the next one with so many rows."""
        if self._tile is None:
            pattern, stacked = self._head.pattern, len(self._head.heads)
            stop = self._at + rows // stacked
            needed = pattern.needed_keys(self._at, stop)
            if len(needed):
                assert self._loaded_rows >= rows, "a tile of queries that were not loaded"
                self._loaded_rows -= rows
            hidden = ~np.tile(pattern.required(self._at, stop, needed), (stacked, 1))
            queries = self._q[:, self._at : stop].reshape(rows, -1)
            self._tile = self._kind(self._numbers, queries, (self._k[needed], self._v[needed]), hidden)
        return self._tile

    def store(self) -> None:
        assert self._tile is not None
        head, width = self._head, self._v.shape[1]
        outputs = self._tile.outputs.astype(np.float64).reshape(len(head.heads), -1, width)
        start = head.rows.start + self._at
        self._output[head.batch, list(head.heads), start : start + outputs.shape[1]] = outputs
        self._at += outputs.shape[1]
        self._tile = None


def _check(plan: Plan) -> None:
    workload = plan.workload
    if plan.dataflow not in FUNCTIONAL:
        known = ", ".join(each.value for each in FUNCTIONAL)
        raise InvalidInput(
            f"the functional mode computes {known}; {plan.dataflow.value} is only timed: choose one of these"
        )
    if workload.dtype is not ElementType.FP16:
        raise InvalidInput(f"the functional mode computes in fp16, the workload is in {workload.dtype.value}: use fp16")
    macs = workload.scores * (workload.d + workload.value_dim)
    if macs > _MOST_MACS:
        most = _MOST_MACS // (workload.d + workload.value_dim)
        raise InvalidInput(
            f"computing numbers for {workload.scores:,} scores takes long; use at most {most:,} of this width,"
            f" about a minute's work, such as one head with n={isqrt(most):,}"
        )
