"""The same program on real numbers: every step that has an operation is carried out, in fp16, by the engine it names.

The controller's address generators say which rows and keys a load brings: loads of queries go through the rows, tile
by tile, and loads of keys and of values each through the keys that the tile needs. Products are accumulated in fp32, as
MACs with a wide accumulator do, and rounded to fp16 when they are done; statistics and outputs are fp16.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.controller import program_of
from attenio.accelerator.exp_approximation import ExpApproximation, exponentials
from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Operation, Step
from attenio.accelerator.switches import Switches
from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.patterns import Pattern
from attenio.planning import Dataflow, Plan
from attenio.reference import attention

__all__ = ["FunctionalRun", "run_functionally"]

_Halves = NDArray[np.float16]
_DATAFLOWS = (Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_2, Dataflow.FLAT)
# The same steps run in Python, so this many scores take seconds.
MOST_SCORES = 2**22


@dataclass(frozen=True, kw_only=True)
class FunctionalRun:
    """What the engines computed, and how far it is from the definition."""

    output: _Halves
    max_abs_error: float
    steps: int


@dataclass
class Engines:
    """What the engines hold while a head is computed."""

    queries: _Halves
    keys: _Halves
    values: _Halves
    pattern: Pattern
    scale: float
    approximation: ExpApproximation
    complete_rows: bool  # whether the softmax sees whole rows of scores, as FLAT's does
    output: _Halves = field(init=False)
    row: int = 0

    def __post_init__(self) -> None:
        self.output = np.zeros((self.pattern.rows, self.values.shape[1]), dtype=np.float16)
        nothing = np.zeros((0, 1), dtype=np.float16)
        self._O: NDArray[np.float32] = np.zeros((0, self.values.shape[1]), dtype=np.float32)
        self._Q = self._S = self._P = self._all = self._total = self._maximum = nothing
        self._difference = self._older = self._rescale = nothing
        self._row_sum: NDArray[np.float32] = np.zeros((1, 1), dtype=np.float32)
        self._needed: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._required: NDArray[np.bool_] = np.zeros((0, 0), dtype=np.bool_)
        self._at = self._from = self._needed
        self._key = self._value = self._softmax_row = 0
        self._staged = 0  # rows of queries that are loaded, of a tile that has not begun

    def run(self, step: Step) -> None:
        """Carry out one step."""
        match step.operation:
            case Operation.LOAD_QUERIES:
                self._staged = step.rows
            case Operation.LOAD_KEYS:
                if self._staged:
                    self._begin(self._staged)
                self._at, self._key = self._needed[self._key : self._key + step.keys], self._key + step.keys
            case Operation.SCORES:
                self._scores()
            case Operation.LOAD_VALUES:
                self._from, self._value = self._needed[self._value : self._value + step.keys], self._value + step.keys
            case Operation.MAXIMUM:
                self._subtract()
            case Operation.EXPONENTIALS:
                self._P = exponentials(self.approximation, self._difference)
            case Operation.RESCALING:
                self._rescale = exponentials(self.approximation, self._older)
            case Operation.SUM:
                self._sum()
            case Operation.OUTPUTS:
                self._outputs()
            case Operation.NORMALISE:
                self._normalise(step)
            case Operation.STORE_OUTPUTS:
                self._store(step.rows)
            case None:
                pass

    def _begin(self, rows: int) -> None:
        stop = self.row + rows
        self._Q = self.queries[self.row : stop]
        self._needed = self.pattern.needed_keys(self.row, stop)
        self._required = self.pattern.required(self.row, stop, self._needed)
        self._key = self._value = self._softmax_row = self._staged = 0
        self._O = np.zeros((rows, self.values.shape[1]), dtype=np.float32)
        self._maximum = np.full((rows, 1), -np.inf, dtype=np.float16)
        self._total = np.zeros((rows, 1), dtype=np.float16)
        self._all = np.zeros((rows, len(self._needed)), dtype=np.float16)

    def _scores(self) -> None:
        products = self._Q.astype(np.float32) @ self.keys[self._at].astype(np.float32).T
        columns = slice(self._key - len(self._at), self._key)
        hidden = ~self._required[:, columns]
        self._S = np.where(hidden, -np.inf, products * np.float32(self.scale)).astype(np.float16)
        self._all[:, columns] = self._S

    def _subtract(self) -> None:
        if self.complete_rows:
            self._S = self._all[self._softmax_row : self._softmax_row + 1]
            newest = self._S.max(axis=1, keepdims=True)
        else:
            newest = np.maximum(self._maximum, self._S.max(axis=1, keepdims=True))
            self._older = _difference(self._maximum, newest)
            self._maximum = newest
        self._difference = _difference(self._S, newest)

    def _sum(self) -> None:
        sums = self._P.sum(axis=1, keepdims=True, dtype=np.float32)
        if self.complete_rows:
            self._row_sum = sums
        else:
            self._total = (self._total * self._rescale + sums).astype(np.float16)

    def _outputs(self) -> None:
        V = self.values[self._from].astype(np.float32)
        if self.complete_rows:
            columns = slice(self._value - len(self._from), self._value)
            self._O += self._all[:, columns].astype(np.float32) @ V
        else:
            self._O = (self._O * self._rescale + self._P.astype(np.float32) @ V).astype(np.float16).astype(np.float32)

    def _normalise(self, step: Step) -> None:
        if self.complete_rows:
            whole = np.divide(self._P, self._row_sum, out=np.zeros_like(self._P), where=self._row_sum != 0)
            self._all[self._softmax_row] = whole[0]
            self._softmax_row += step.rows
        elif len(self._O) == step.rows:
            self._O = np.divide(self._O, self._total, out=np.zeros_like(self._O), where=self._total != 0)

    def _store(self, rows: int) -> None:
        # a tile that needs no key has loaded nothing, and its outputs stay zero
        if len(self._O) == rows:
            self.output[self.row : self.row + rows] = self._O
            self._O = np.zeros_like(self._O)
        self.row += rows


def _difference(left: _Halves, right: _Halves) -> _Halves:
    """Left minus right; minus infinity where nothing was seen yet."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(left), np.float16(-np.inf), left - right).astype(np.float16)


def run_functionally(
    plan: Plan,
    machine: Machine,
    inputs: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    *,
    approximation: ExpApproximation = ExpApproximation.ROUNDED,
    switches: Switches | None = None,
) -> FunctionalRun:
    """Compute one head of one sequence through the engines, and compare with the definition in float64."""
    workload = plan.workload
    if plan.dataflow not in _DATAFLOWS or "resident_keys" in plan.tiles:
        known = ", ".join(each.value for each in _DATAFLOWS)
        raise InvalidInput(f"{plan.dataflow.value} with {plan.tiles} is only timed; numbers run through {known}")
    if workload.heads * workload.batch != 1 or len(workload.separate_patterns) != 1:
        raise InvalidInput("numbers run through the engines one head of one sequence at a time; use one of each")
    if workload.scores > MOST_SCORES:
        raise InvalidInput(f"{workload.scores:,} scores are too many to compute step by step; use {MOST_SCORES:,}")
    ((pattern, _),) = workload.separate_patterns
    q, k, v = (array.astype(np.float16) for array in inputs)
    engines = Engines(
        queries=q,
        keys=k,
        values=v,
        pattern=pattern,
        scale=workload.softmax_scale,
        approximation=approximation,
        complete_rows=plan.dataflow is Dataflow.FLAT,
    )
    program = program_of(plan, Hardware.of(machine), switches)
    for step in program:
        engines.run(step)
    whole = [array.astype(np.float64)[None, None] for array in (q, k, v)]
    exact = attention(whole[0], whole[1], whole[2], workload)[0, 0]
    error = float(np.max(np.abs(engines.output.astype(np.float64) - exact), initial=0.0))
    return FunctionalRun(output=engines.output, max_abs_error=error, steps=program.steps)
