"""Online softmax with rows that take their turn: two statistics a row, and one score in hand or one for each row.

A row takes in one key at a time: its score, the larger maximum beside the old one, the factor between them in the place
of the old one, the weight in the place of the score; then sum and outputs. So scores and factors of other rows need no
words, and a row has nothing but its maximum and its sum beside its query and its output.

Where keys and values pass an element at a time, every row has its scores, and its output is rescaled before the first
element of a value comes: the smaller of its maximum and a score becomes the gap between them, the factor that scales
the row down, or the weight of the score, in its place. So factors need no words at all.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.online_softmax import ONE, Hidden, finite, hide, normalise, save_log_sum_exp
from attenio.dataflows.problem import Problem
from attenio.dataflows.residency import Residency
from attenio.memory import FastMemory, SlowArray, Step, Tile
from attenio.memory.indices import Indices, singles, size
from attenio.memory.matrix import Values

Required = NDArray[np.bool_] | None


class Rows(NamedTuple):
    """What fast memory has of some rows."""

    Q: Tile
    O: Tile  # noqa: E741 - the paper's letter
    max: Tile
    sum: Tile

    def begin(self, at: Indices, sinks: Values | None = None) -> None:
        """Rows that have seen no score yet, but their sinks if there are any."""
        self.O.values[at], self.sum.values[at] = 0, 0 if sinks is None else 1
        self.max.values[at] = -np.inf if sinks is None else sinks

    def row(self, place: int, row: int) -> "Rows":
        """One of the rows, which is this row of the problem."""
        at, named = slice(place, place + 1), slice(row, row + 1)
        return Rows(*(Tile(x.name, x.values[at], named, x.columns, x.words_each) for x in self))

    def take_in(
        self, arithmetic: Arithmetic, at: Indices, keys: Values, values: Values, required: Required = None
    ) -> None:
        """The rows ``at`` take in some keys and their values, one after the other; of each, what is required."""
        largest, total, outputs = (x.values[at] for x in (self.max, self.sum, self.O))  # views of slices
        scores = np.zeros((size(at), len(keys)), dtype=np.float32)
        arithmetic.add_product(scores, self.Q.values[at], keys.T, arithmetic.scale)
        arithmetic.cap(scores)
        if required is not None:
            scores[~required] = -np.inf
        # in single precision the order changes the last digits alone, and one step takes in all keys
        for part in singles(len(keys)) if arithmetic.rounds else (slice(0, len(keys)),):
            some = scores[:, part]
            raised = np.maximum(largest, some.max(axis=1, keepdims=True))
            shift = finite(raised)
            rescale, weight = np.exp(largest - shift), np.exp(some - shift)
            arithmetic.keep(rescale)
            arithmetic.keep(weight)
            total = total * rescale + weight.sum(axis=1, keepdims=True)
            arithmetic.keep(total)
            outputs *= rescale
            arithmetic.add_product(outputs, weight, values[part], arithmetic.value_scale)
            largest = raised
        self.max.values[at], self.sum.values[at], self.O.values[at] = largest, total, outputs

    def normalise(self, fast: FastMemory, problem: Problem) -> None:
        """Outputs are divided by their sums."""
        normalise(fast, problem.arithmetic, self.O, self.sum)


def note(fast: FastMemory, rows: Indices, keys: Indices, columns: Indices) -> None:
    """Note that these rows, one after the other, have taken in these keys."""
    fast.computed(Step.ROW_BY_ROW, rows, keys, columns)


class RowStates(Residency):
    """Outputs, maxima and sums of a tile of rows that take in scores in turn, for the length of a ``with`` block."""

    def __init__(self, fast: FastMemory, arithmetic: Arithmetic, rows: int, columns: int) -> None:
        self._fast, self._arithmetic = fast, arithmetic
        self._buffers = fast.scratch("O", rows, columns), fast.scratch("max", rows, 1), fast.scratch("sum", rows, 1)
        super().__init__(*self._buffers)

    def begin(self, rows: Indices, columns: Indices, sinks: Values | None = None) -> None:
        """Turn to these columns of rows that have seen no score yet, but their sinks if there are any."""
        self.O = self._buffers[0].zeros(rows, columns)
        self.max, self.sum = (buffer.over(rows, ONE) for buffer in self._buffers[1:])
        self.max.values[...] = -np.inf if sinks is None else sinks
        self.sum.values.fill(0 if sinks is None else 1)

    def absorb(self, S: Tile, hidden: Hidden) -> Tile:
        """Take in a tile of scores: it becomes exp(S - max) in place; max and sum follow, and O is rescaled."""
        hide(S, hidden)
        keep = self._arithmetic.keep
        raised = np.maximum(self.max.values, S.values.max(axis=1, keepdims=True))
        shift = finite(raised)
        rescale = np.exp(self.max.values - shift)
        keep(rescale)
        np.exp(S.values - shift, out=S.values)
        keep(S.values)
        self.sum.values *= rescale
        self.sum.values += S.values.sum(axis=1, keepdims=True)
        keep(self.sum.values)
        self.O.values *= rescale
        keep(self.O.values)
        self.max.values[...] = raised
        self._fast.computed(Step.SOFTMAX_BY_ROW, S.rows, S.columns, self.O.columns)
        return S

    def save(self, problem: Problem) -> None:
        """Store the log-sum-exp of rows that are done, if it is to be kept."""
        save_log_sum_exp(self._fast, problem, self.max, self.sum)

    def settle(self, largest: SlowArray, total: SlowArray) -> None:
        """Store maxima and sums of rows that are done."""
        self._fast.store(self.max, largest)
        self._fast.store(self.sum, total)

    def finish(self, target: SlowArray) -> None:
        """Outputs are divided by their sums and stored."""
        normalise(self._fast, self._arithmetic, self.O, self.sum)
        self._fast.store(self.O, target)
