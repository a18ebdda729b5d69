"""Softmax of complete rows: FLAT's tiles."""

from typing import Any

import numpy as np

from attenio.accelerator.functional.arithmetic import Values
from attenio.accelerator.functional.tile import Tile, finite
from attenio.accelerator.step import Operation


class CompleteRows(Tile):
    """Scores of complete rows, which become probabilities one row after the other."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        dtype = self.numbers.dtype
        self._scores: Values = np.zeros((len(self.queries), 0), dtype=dtype)
        self._row = 0
        self._sum: Values = np.zeros((1, 1), dtype=dtype)

    def do(self, operation: Operation, keys: int) -> None:
        """One step on so many keys."""
        numbers, row = self.numbers, slice(self._row, self._row + 1)
        match operation:
            case Operation.SCORES:
                self._scores = np.concatenate([self._scores, self.next_scores(keys)], axis=1)
            case Operation.MAXIMUM:
                largest = self._scores[row].max(axis=1, keepdims=True)
                self._scores[row] = numbers.less(self._scores[row], finite(largest))
            case Operation.EXPONENTIALS:
                self._scores[row] = numbers.exponentials(self._scores[row])
            case Operation.SUM:
                self._sum = numbers.row_sums(self._scores[row])
            case Operation.NORMALISE:
                self._scores[row] = numbers.divided(self._scores[row], self._sum)
                self._row += 1
            case Operation.OUTPUTS:
                weights = self._scores[:, self._used : self._used + keys]
                self.outputs = numbers.add_outputs(self.outputs, weights, self.next_values(keys))
            case Operation.LOAD_KEYS | Operation.LOAD_VALUES:
                self.load(operation, keys)
            case _:
                # queries and outputs are the head's to load and store
                return
