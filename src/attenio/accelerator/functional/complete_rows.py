"""Softmax of complete rows: FLAT's tiles."""

from typing import Any

import numpy as np

from attenio.accelerator.functional.arithmetic import Values
from attenio.accelerator.functional.row_softmax import RowSoftmax
from attenio.accelerator.functional.tile import Tile
from attenio.accelerator.step import Operation


class CompleteRows(Tile):
    """Scores of complete rows, which become probabilities one row after the other."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._scores: Values = np.zeros((len(self.queries), 0), dtype=self.numbers.dtype)
        self._softmax = RowSoftmax(self.numbers)

    def do(self, operation: Operation, keys: int) -> None:
        """One step on so many keys."""
        if self._softmax.do(operation, self._scores):
            return
        match operation:
            case Operation.SCORES:
                self._scores = np.concatenate([self._scores, self.next_scores(keys)], axis=1)
            case Operation.OUTPUTS:
                weights = self._scores[:, self._used : self._used + keys]
                self.outputs = self.numbers.add_outputs(self.outputs, weights, self.next_values(keys))
            case Operation.LOAD_KEYS | Operation.LOAD_VALUES:
                self.load(operation, keys)
            case _:
                # queries and outputs are the head's to load and store
                return
