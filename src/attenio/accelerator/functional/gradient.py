"""The gradient of a group of heads, keys stationary: rows pass with what they need and take their gradient along.

The log-sum-exp of rows and their outputs come from a forward pass, here the definition's, rounded. The scale of the
scores is multiplied into queries as they arrive, so into their gradient as it leaves.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.arithmetic import Numbers, Values
from attenio.accelerator.functional.heads import Head
from attenio.accelerator.step import Operation, Step
from attenio.dataflows.inputs import Inputs
from attenio.masks.patterns import Pattern
from attenio.planning import Plan
from attenio.reference import Gradients, attention_blocks
from attenio.workload import Workload


class Saved:
    """What the forward pass leaves: outputs and the log-sum-exp of rows; and the gradient of the outputs."""

    def __init__(self, given: Inputs, d_output: NDArray[np.float32], workload: Workload) -> None:
        self.d_output = d_output
        self.output = np.zeros(d_output.shape)
        self.log_sum_exp = np.full((*d_output.shape[:3], 1), -np.inf)
        for block in attention_blocks(*given, workload):
            self.output[block.batch, block.head, block.rows] = block.values
            self.log_sum_exp[block.batch, block.head, block.rows, 0] = block.log_sum_exp


class GradientTiles:
    """A group under way: a tile of keys with its gradients, and the rows that pass it."""

    def __init__(
        self, head: Head, plan: Plan, numbers: Numbers, given: Inputs, saved: Saved, gradients: Gradients
    ) -> None:
        self._head, self._numbers, self._found = head, numbers, gradients
        self._scale = plan.workload.softmax_scale
        self._across: Pattern = head.pattern.transposed
        self._q = numbers.keep(head.queries(given.q) * self._scale)
        self._k, self._v = (numbers.keep(head.keys(each)) for each in (given.k, given.v))
        self._do, self._o, self._lse = (
            numbers.keep(head.queries(each)) for each in (saved.d_output, saved.output, saved.log_sum_exp)
        )
        self._dots: Values = np.full(self._lse.shape, np.nan, dtype=numbers.dtype)
        self._dq: Values = np.zeros_like(self._q)
        self._key = 0
        self._tile = slice(0, 0)

    @property
    def is_done(self) -> bool:
        """Whether all keys are."""
        return self._key == self._head.pattern.keys

    def do(self, step: Step) -> None:
        """One step of the program."""
        match step.operation:
            case Operation.LOAD_KEYS:
                self._tile = slice(self._key, self._key + step.keys)
                self._needed = self._across.needed_keys(self._tile.start, self._tile.stop)
                self._hidden = ~self._across.required(self._tile.start, self._tile.stop, self._needed)
                self._dk, self._dv = np.zeros_like(self._k[self._tile]), np.zeros_like(self._v[self._tile])
                self._member = self._passed = 0
            case Operation.LOAD_QUERIES:
                self._at = slice(self._passed, self._passed + step.rows)
                self._rows = self._needed[self._at]
            case Operation.STORE_OUTPUTS:
                self._passed = self._at.stop % len(self._needed)
                self._member += self._passed == 0
            case Operation.STORE_KEY_GRADIENTS:
                self._store()
            case _:
                assert step.operation is not None
                self._compute(step.operation)

    def _compute(self, operation: Operation) -> None:
        numbers, here = self._numbers, (self._member, self._rows)
        keys, values = self._k[self._tile], self._v[self._tile]
        match operation:
            case Operation.ROW_DOTS:
                self._dots[here] = numbers.row_sums(numbers.times(self._do[here], self._o[here]))
            case Operation.SCORES:
                self._scores = numbers.scores(keys, self._q[here])
                self._scores[self._hidden[:, self._at]] = -np.inf
            case Operation.MAXIMUM:
                # a row that needs no key has a log-sum-exp of -inf, and only hidden scores
                saved = np.where(np.isneginf(self._lse[here]), 0, self._lse[here])
                self._scores = numbers.less(self._scores, saved.T)
            case Operation.EXPONENTIALS:
                self._scores = numbers.exponentials(self._scores)
            case Operation.VALUE_GRADIENT:
                self._dv = numbers.add_outputs(self._dv, self._scores, self._do[here])
            case Operation.PROBABILITY_GRADIENT:
                self._dp = numbers.scores(values, self._do[here])
            case Operation.SCORE_GRADIENT:
                assert not np.isnan(self._dots[here]).any(), "rows whose dO.O was not computed"
                self._scores = numbers.times(self._scores, numbers.less(self._dp, self._dots[here].T))
            case Operation.KEY_GRADIENT:
                self._dk = numbers.add_outputs(self._dk, self._scores, self._q[here])
            case _:
                assert operation is Operation.QUERY_GRADIENT
                self._dq[here] = numbers.add_outputs(self._dq[here], self._scores.T, keys)

    def _store(self) -> None:
        head = self._head
        for gradient, values in ((self._found.dk, self._dk), (self._found.dv, self._dv)):
            gradient[head.key_batches[self._tile], head.kv_head, head.key_positions[self._tile]] = values
        self._key = self._tile.stop
        if self.is_done:
            scaled = self._numbers.keep(self._dq.astype(np.float64) * self._scale)
            head.store(self._found.dq, slice(0, head.pattern.rows), scaled.astype(np.float64))
