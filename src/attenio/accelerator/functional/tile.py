"""Tiles of rows under way: what all have in common, and their two kinds of softmax."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.arithmetic import Numbers, Values
from attenio.accelerator.step import Operation

_LOWEST = -65504.0


class Tile:
    """Rows of queries, the keys and values that they need in order, and which scores are hidden."""

    def __init__(
        self, numbers: Numbers, queries: Values, keys_and_values: tuple[Values, Values], hidden: NDArray[np.bool_]
    ) -> None:
        self.numbers, self.queries, self.hidden = numbers, queries, hidden
        self.keys, self.values = keys_and_values
        self.outputs: Values = np.zeros((len(queries), self.values.shape[1]), dtype=numbers.dtype)
        self._scored = self._used = 0
        self._loaded = {Operation.LOAD_KEYS: 0, Operation.LOAD_VALUES: 0}

    def do(self, operation: Operation, keys: int) -> None:
        """One step on so many keys; here their arrival: queries and outputs are the head's to load and store."""
        if operation in self._loaded:
            self._loaded[operation] += keys

    def next_scores(self, keys: int) -> Values:
        """Scores of all rows with the keys that come next."""
        at = slice(self._scored, self._scored + keys)
        self._scored += keys
        assert self._scored <= self._loaded[Operation.LOAD_KEYS], "scores of keys that were not loaded"
        scores = self.numbers.scores(self.queries, self.keys[at])
        scores[self.hidden[:, at]] = -np.inf
        return scores

    def next_values(self, keys: int) -> Values:
        """The values that come next."""
        at = slice(self._used, self._used + keys)
        self._used += keys
        assert self._used <= self._loaded[Operation.LOAD_VALUES], "outputs of values that were not loaded"
        return self.values[at]


def finite(largest: Values) -> Values:
    """A maximum, made finite where a row has seen no score: -inf less it is then -inf, not NaN."""
    return np.asarray(np.maximum(largest, largest.dtype.type(_LOWEST)))


class RowSoftmax:
    """Softmax of one complete row after the other, in place: FLAT's and standard attention's."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers, self.row = numbers, 0

    def do(self, operation: Operation, scores: Values) -> bool:
        """One step on the row; False if it is a step of something else."""
        numbers, row = self._numbers, slice(self.row, self.row + 1)
        match operation:
            case Operation.MAXIMUM:
                largest = scores[row].max(axis=1, keepdims=True)
                scores[row] = numbers.less(scores[row], finite(largest))
            case Operation.EXPONENTIALS:
                scores[row] = numbers.exponentials(scores[row])
            case Operation.SUM:
                self._sum = numbers.row_sums(scores[row])
            case Operation.NORMALISE:
                scores[row] = numbers.divided(scores[row], self._sum)
                self.row += 1
            case _:
                return False
        return True


class CompleteRows(Tile):
    """FLAT's tiles: scores of complete rows, which become probabilities one row after the other."""

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
            case _:
                super().do(operation, keys)


class OnlineRows(Tile):
    """AttenIO's and FlashAttention-2's tiles: softmax follows the keys.

    Maximum and sum of every row so far, and the factor by which a step lowers what came before.
    """

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
            case _:
                super().do(operation, keys)
