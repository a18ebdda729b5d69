"""A tile of rows under way: what every dataflow's arithmetic has in common."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.arithmetic import Numbers, Values
from attenio.accelerator.step import Operation

_LOWEST = -65504.0


class Tile(ABC):
    """Rows of queries, the keys and values that they need in order, and which scores are hidden."""

    def __init__(
        self, numbers: Numbers, queries: Values, keys_and_values: tuple[Values, Values], hidden: NDArray[np.bool_]
    ) -> None:
        self.numbers, self.queries, self.hidden = numbers, queries, hidden
        self.keys, self.values = keys_and_values
        self.outputs: Values = np.zeros((len(queries), self.values.shape[1]), dtype=numbers.dtype)
        self._scored = self._used = 0
        self._loaded = {Operation.LOAD_KEYS: 0, Operation.LOAD_VALUES: 0}

    def load(self, operation: Operation, keys: int) -> None:
        """Keys or values have arrived."""
        self._loaded[operation] += keys

    @abstractmethod
    def do(self, operation: Operation, keys: int) -> None:
        """One step on so many keys."""

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
