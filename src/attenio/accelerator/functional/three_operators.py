"""A head in three operators: standard attention, with its scores and probabilities in memory."""

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.arithmetic import Numbers, Values
from attenio.accelerator.functional.heads import Head
from attenio.accelerator.functional.tile import RowSoftmax
from attenio.accelerator.step import Operation, Step
from attenio.dataflows.inputs import Inputs
from attenio.planning import Plan


class ThreeOperators:
    """Scores as outer products of columns, softmax row by row, outputs as outer products again."""

    def __init__(self, head: Head, plan: Plan, numbers: Numbers, given: Inputs, output: NDArray[np.float64]) -> None:
        self._head, self._numbers, self._output = head, numbers, output
        (queries,) = head.queries(given.q)
        self._q = numbers.keep(queries * plan.workload.softmax_scale)
        self._k, self._v = (numbers.keep(head.keys(each)) for each in (given.k, given.v))
        rows, keys = head.pattern.rows, head.pattern.keys
        every = np.arange(keys, dtype=np.int64)
        self._hidden = ~head.pattern.required(0, rows, every)
        self._scores: Values = np.full((rows, keys), np.nan, dtype=numbers.dtype)
        self._outputs: Values = np.full((rows, self._v.shape[1]), np.nan, dtype=numbers.dtype)
        self._softmax = RowSoftmax(numbers)
        self._product = _Product(numbers, self._q, self._k, self._scores)
        self.is_done = False

    def do(self, step: Step) -> None:
        """One step of the program."""
        match step.operation:
            case Operation.LOAD_COLUMNS | Operation.OUTER_PRODUCT | Operation.STORE_TILE:
                self._product.do(step)
            case Operation.LOAD_SCORES:
                row = slice(self._softmax.row, self._softmax.row + 1)
                assert not np.isnan(self._scores[row]).any(), "scores that were not stored"
                self._scores[row] = np.where(self._hidden[row], -np.inf, self._scores[row])
            case Operation.STORE_OUTPUTS:
                if self._softmax.row == len(self._scores):
                    self._product = _Product(self._numbers, self._scores, self._v.T, self._outputs)
            case _:
                assert step.operation is not None and self._softmax.do(step.operation, self._scores)
        if self._product.result is self._outputs and self._product.is_done:
            self._head.store(self._output, slice(0, len(self._outputs)), self._outputs[None].astype(np.float64))
            self.is_done = True


class _Product:
    """A product of rows of ``left`` with rows of ``right``, tile by tile, a column of both at a time."""

    def __init__(self, numbers: Numbers, left: Values, right: Values, result: Values) -> None:
        self._numbers, self._left, self._right, self.result = numbers, left, right, result
        self._row = self._column = self._depth = self._loaded = 0
        self._sums: Values | None = None

    @property
    def is_done(self) -> bool:
        """Whether every tile is stored."""
        return self._row == len(self._left)

    def do(self, step: Step) -> None:
        """Load columns, add their outer product, or store the tile and go on to the next."""
        rows, columns = slice(self._row, self._row + step.rows), slice(self._column, self._column + step.keys)
        match step.operation:
            case Operation.LOAD_COLUMNS:
                self._loaded += 1
            case Operation.OUTER_PRODUCT:
                assert self._loaded > self._depth, "a product of columns that were not loaded"
                if self._sums is None:
                    self._sums = np.zeros((step.rows, step.keys), dtype=self._numbers.dtype)
                left, right = self._left[rows, self._depth], self._right[columns, self._depth]
                self._sums = self._numbers.add_product(self._sums, left[:, None], right[None])
                self._depth += 1
            case _:
                assert self._sums is not None and self._depth == self._left.shape[1], "a tile that is not complete"
                self.result[rows, columns] = self._sums
                self._sums, self._depth, self._loaded = None, 0, 0
                self._column = columns.stop % len(self._right)
                self._row += step.rows if self._column == 0 else 0
