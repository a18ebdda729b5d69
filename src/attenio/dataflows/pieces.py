"""Matrices in fast memory that come and leave piece by piece, so that values and outputs give way to each other."""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.online_softmax import ONE, save_log_sum_exp
from attenio.dataflows.problem import Problem
from attenio.dataflows.row_by_row import Rows, note
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import cuts, size

# Scores made together.
_AT_ONCE = 2**20


class Pieces:
    """Room for a matrix that is taken and given back piece by piece; NaN where nothing is held.

    ``names`` are the numbers of its rows, where these lie in another order.
    """

    def __init__(
        self,
        fast: FastMemory,
        name: str,
        shape: tuple[int, int],
        words_each: int = 1,
        per_word: int = 1,
        *,
        names: NDArray[np.intp] | None = None,
    ) -> None:
        self._fast, self._words_each, self._per_word, self._names = fast, words_each, per_word, names
        self.every = Tile(name, np.full(shape, np.nan, dtype=np.float32), slice(0, shape[0]), slice(0, shape[1]))

    def take(self, rows: slice, columns: slice) -> Tile:
        """Reserve room for these rows and columns."""
        self._fast.reserve(self.every.name, self._words(rows, columns))
        return self.over(rows, columns)

    def over(self, rows: slice, columns: slice) -> Tile:
        """The tile of these rows and columns."""
        values, named = self.every.values[rows, columns], rows if self._names is None else self._names[rows]
        return Tile(self.every.name, values, named, columns, self._words_each, per_word=self._per_word)

    def give_back(self, rows: slice, columns: slice) -> None:
        """Nothing of these rows and columns is there any more."""
        self.every.values[rows, columns] = np.nan
        self._fast.release(self.every.name, self._words(rows, columns))

    def _words(self, rows: slice, columns: slice) -> int:
        return -(-size(rows) * size(columns) * self._words_each // self._per_word)


class Here:
    """What fast memory has of a problem."""

    def __init__(self, problem: Problem, fast: FastMemory) -> None:
        (rows, keys), w = (problem.group * problem.pattern.rows, problem.pattern.keys), fast.intermediate_words
        self.problem, self.fast, self.more = problem, fast, keys - rows
        self.columns, self.depths = slice(0, problem.width), slice(0, problem.depth)
        self.K = Pieces(fast, "K", (keys, problem.depth), per_word=problem.per_word)
        self.V = Pieces(fast, "V", (keys, problem.width), per_word=problem.per_word)
        self.Q = Pieces(fast, "Q", (rows, problem.depth))
        self.outputs = Pieces(fast, "O", (rows, problem.width), w)
        self.statistics = [Pieces(fast, name, (rows, 1), w) for name in ("max", "sum")]
        self.stored = Pieces(fast, "O", (rows if problem.stays.rows else 0, problem.width))
        self._staying = slice(rows - problem.stays.rows, rows)

    def keys_come(self, keys: slice) -> None:
        """Keys and values are loaded."""
        for source, pieces in ((self.problem.K, self.K), (self.problem.V, self.V)):
            self.fast.load(source, pieces.take(keys, slice(0, pieces.every.values.shape[1])))

    def keys_leave(self, keys: slice) -> None:
        """Keys leave with their values."""
        self.K.give_back(keys, self.depths)
        self.V.give_back(keys, self.columns)

    def rows_come(self, rows: slice) -> None:
        """Queries are loaded, with room for the statistics."""
        self.fast.load(self.problem.Q, self.Q.take(rows, self.depths))
        for each in self.statistics:
            each.take(rows, ONE)

    def begin(self, rows: slice, columns: slice) -> None:
        """Outputs of these columns, which have seen no score yet."""
        self.outputs.take(rows, columns)
        self.rows(rows, columns).begin(slice(None), self.problem.sinks_of(rows))

    def take_in(self, rows: slice, keys: slice, columns: slice | None = None) -> None:
        """Rows take in keys that are there, with these columns of their values."""
        some = self.columns if columns is None else columns
        at_once = max(1, _AT_ONCE // size(rows))
        for part in cuts(size(keys), at_once):
            now = slice(keys.start + part.start, keys.start + part.stop)
            values = self.V.every.values[now, some]
            every = slice(0, size(rows))
            self.rows(rows, some).take_in(self.problem.arithmetic, every, self.K.every.values[now], values)
            note(self.fast, rows, now, some)

    def all_take_in(self, rows: slice, keys: slice) -> None:
        """Rows take in keys that pass one by one."""
        problem, fast = self.problem, self.fast
        at_once = 1 if fast.trace.record else max(1, _AT_ONCE // size(rows))
        with (
            problem.key_buffer(fast, "K", 1, problem.depth) as K_buffer,
            problem.key_buffer(fast, "V", 1, problem.width) as V_buffer,
        ):
            for part in cuts(size(keys), at_once):
                now = slice(keys.start + part.start, keys.start + part.stop)
                with (
                    K_buffer.streaming(problem.K, now, along="rows") as K_j,
                    V_buffer.streaming(problem.V, now, along="rows") as V_j,
                ):
                    every = slice(0, size(rows))
                    self.rows(rows, self.columns).take_in(problem.arithmetic, every, K_j.values, V_j.values)
                    note(fast, rows, now, self.columns)

    def exchange(self, rows: slice, kept: slice) -> None:
        """Rows come and take in what was kept for them; values give way in groups of columns that share a word."""
        self.rows_come(rows)
        for columns in cuts(self.problem.width, self.problem.per_word):
            self.begin(rows, columns)
            if size(kept):
                self.take_in(rows, kept, columns)
                self.V.give_back(slice(max(kept.start, self.problem.stays.values), kept.stop), columns)
        if size(kept):
            self.K.give_back(slice(max(kept.start, self.problem.stays.keys), kept.stop), self.depths)

    def leave(self, row: int) -> None:
        """A row has met all of its keys."""
        one = slice(row, row + 1)
        self.outputs_leave(one)
        self.queries_leave(one)
        self.problem.advance(1)

    def outputs_leave(self, rows: slice) -> None:
        """Outputs are done and stored."""
        done = self.rows(rows, self.columns)
        save_log_sum_exp(self.fast, self.problem, done.max, done.sum)
        done.normalise(self.fast, self.problem)
        self.fast.store(done.O, self.problem.O)
        self.outputs.give_back(rows, self.columns)
        if size(stay := self._that_stay(rows)):
            self.stored.take(stay, self.columns).values[:] = self.problem.O.values[stay]

    def queries_leave(self, rows: slice) -> None:
        """Queries leave, unless they stay, and what is known of their rows."""
        self.Q.give_back(slice(rows.start, self._that_stay(rows).start), self.depths)
        for each in self.statistics:
            each.give_back(rows, ONE)

    def staying_leaves(self) -> None:
        """The pass ends; what is to stay is there."""
        stays = self.problem.stays
        if stays.rows:
            self.Q.give_back(self._staying, self.depths)
            self.stored.give_back(self._staying, self.columns)
        self.K.give_back(slice(0, stays.keys), self.depths)
        self.V.give_back(slice(0, stays.values), self.columns)

    def _that_stay(self, rows: slice) -> slice:
        """Those of some rows that stay after the pass."""
        return slice(min(max(rows.start, self._staying.start), rows.stop), rows.stop)

    def rows(self, rows: slice, columns: slice) -> Rows:
        """What is there of some rows, with these columns of their outputs."""
        largest, total = (each.over(rows, ONE) for each in self.statistics)
        return Rows(self.Q.over(rows, self.depths), self.outputs.over(rows, columns), largest, total)
