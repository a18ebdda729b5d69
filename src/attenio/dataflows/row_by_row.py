"""Online softmax with rows that take their turn: one score in hand, and two statistics a row.

A row takes in one key at a time: its score, the larger maximum beside the old one, the factor between them in the place
of the old one, the weight in the place of the score; then sum and outputs. So scores and factors of other rows need no
words, and a row has nothing but its maximum and its sum beside its query and its output.
"""

from typing import NamedTuple

import numpy as np

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.online_softmax import normalise
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory, Step, Tile
from attenio.memory.indices import Indices, size
from attenio.memory.matrix import Values

_ONE = slice(0, 1)


class Rows(NamedTuple):
    """What fast memory has of some rows."""

    Q: Tile
    O: Tile  # noqa: E741 - the paper's letter
    max: Tile
    sum: Tile

    def begin(self, at: Indices) -> None:
        """Rows that have seen no score yet."""
        self.O.values[at], self.max.values[at], self.sum.values[at] = 0, -np.inf, 0

    def row(self, place: int, row: int) -> "Rows":
        """One of the rows, which is this row of the problem."""
        at, named = slice(place, place + 1), slice(row, row + 1)
        return Rows(*(Tile(x.name, x.values[at], named, x.columns, x.words_each) for x in self))

    def take_in(self, arithmetic: Arithmetic, at: Indices, keys: Values, values: Values) -> None:
        """The rows ``at`` take in some keys and their values, one after the other."""
        largest, total, outputs = (x.values[at] for x in (self.max, self.sum, self.O))  # views of slices
        scores = np.zeros((size(at), len(keys)), dtype=np.float32)
        arithmetic.add_product(scores, self.Q.values[at], keys.T, arithmetic.scale)
        for place in range(len(keys)):
            score = scores[:, place : place + 1]
            raised = np.maximum(largest, score)
            rescale, weight = np.exp(largest - raised), np.exp(score - raised)
            arithmetic.keep(rescale)
            arithmetic.keep(weight)
            total = total * rescale + weight
            arithmetic.keep(total)
            outputs *= rescale
            arithmetic.add_product(outputs, weight, values[place : place + 1])
            largest = raised
        self.max.values[at], self.sum.values[at], self.O.values[at] = largest, total, outputs

    def normalise(self, fast: FastMemory, problem: Problem) -> None:
        """Outputs are divided by their sums."""
        normalise(fast, problem.arithmetic, self.O, self.sum)


def note(fast: FastMemory, rows: Indices, keys: Indices, columns: Indices) -> None:
    """Note that these rows, one after the other, have taken in these keys."""
    fast.computed(Step.ROW_BY_ROW, rows, keys, columns)
