"""Softmax that follows the keys: AttenIO's and FlashAttention-2's tiles."""

from typing import Any

import numpy as np

from attenio.accelerator.functional.arithmetic import Values
from attenio.accelerator.functional.tile import Tile, finite
from attenio.accelerator.step import Operation


class OnlineRows(Tile):
    """Maximum and sum of every row so far, and the factor by which a step lowers what came before."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        rows, dtype = len(self.queries), self.numbers.dtype
        self._largest: Values = np.full((rows, 1), -np.inf, dtype=dtype)
        self._sum: Values = np.zeros((rows, 1), dtype=dtype)
        self._step: Values = np.zeros((rows, 1), dtype=dtype)
        self._rescale: Values = np.ones((rows, 1), dtype=dtype)
        self._scores: Values = np.zeros((rows, 0), dtype=dtype)

    def do(self, operation: Operation, keys: int) -> None:
        """One step on so many keys."""
        numbers = self.numbers
        match operation:
            case Operation.SCORES:
                self._scores = self.next_scores(keys)
            case Operation.MAXIMUM:
                before = self._largest
                self._largest = np.maximum(before, self._scores.max(axis=1, keepdims=True))
                self._step = numbers.less(before, finite(self._largest))
                self._scores = numbers.less(self._scores, finite(self._largest))
            case Operation.EXPONENTIALS:
                self._scores = numbers.exponentials(self._scores)
            case Operation.RESCALING:
                self._rescale = numbers.exponentials(self._step)
            case Operation.SUM:
                rescaled = numbers.times(self._sum, self._rescale)
                self._sum = numbers.add_product(rescaled, numbers.row_sums(self._scores), np.ones_like(rescaled))
            case Operation.OUTPUTS:
                scaled = numbers.times(self.outputs, self._rescale)
                self.outputs = numbers.add_outputs(scaled, self._scores, self.next_values(keys))
            case Operation.NORMALISE:
                self.outputs = numbers.divided(self.outputs, self._sum)
            case Operation.LOAD_KEYS | Operation.LOAD_VALUES:
                self.load(operation, keys)
            case _:
                # queries and outputs are the head's to load and store
                return
