"""The pieces of softmax that the dataflows share, on tiles in fast memory.

Scores are only ever exponentiated after the largest score of their row so far has been subtracted, so scores of any
size are safe. A row that has seen no required score has maximum -inf and sum 0; it stays zero.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.problem import Problem
from attenio.dataflows.residency import Residency
from attenio.memory import Buffer, FastMemory, Step, Tile
from attenio.memory.indices import Indices, as_array, singles
from attenio.memory.matrix import Values

ONE = slice(0, 1)
Hidden = NDArray[np.bool_] | None

_LOWEST = np.float32(np.finfo(np.float32).min)


def add_scores(fast: FastMemory, arithmetic: Arithmetic, S: Tile, Q: Tile, K: Tile) -> None:
    """S += scale * Q K^T over the depth that Q and K hold."""
    arithmetic.add_product(S.values, Q.values, K.values.T, arithmetic.scale)
    fast.computed(Step.SCORES, S.rows, S.columns, Q.columns)


def make_scores(fast: FastMemory, arithmetic: Arithmetic, S: Tile, Q: Tile, K: Tile) -> None:
    """S = scale * Q K^T over the whole depth, capped if there is a cap."""
    add_scores(fast, arithmetic, S, Q, K)
    arithmetic.cap(S.values)


def add_scores_by_depth(fast: FastMemory, problem: Problem, S: Tile, Q_column: Buffer, K_element: Buffer) -> None:
    """S = scale * Q K^T, capped: for each depth a column of Q is held while elements of K pass, one at a time."""
    for depth in singles(problem.depth):
        with (
            Q_column.holding(problem.Q, S.rows, depth) as Q_t,
            K_element.streaming(problem.K, S.columns, depth, along="rows") as K_t,
        ):
            add_scores(fast, problem.arithmetic, S, Q_t, K_t)
    problem.arithmetic.cap(S.values)


def hide(S: Tile, hidden: Hidden) -> None:
    """Scores that are not required become -inf."""
    if hidden is not None:
        S.values[hidden] = -np.inf


def first_maximum(buffer: Buffer, problem: Problem, rows: Indices) -> Tile:
    """The maximum of rows that have seen no score yet: their sinks, or -inf."""
    largest, sinks = buffer.filled(rows, ONE, -np.inf), problem.sinks_of(rows)
    if sinks is not None:
        largest.values[...] = sinks
    return largest


def first_sum(buffer: Buffer, problem: Problem, largest: Tile) -> Tile:
    """The sum of rows whose maximum is known, before any score: the weight of their sinks, or 0."""
    total, sinks = buffer.zeros(largest.rows, ONE), problem.sinks_of(largest.rows)
    if sinks is not None:
        total.values[...] = np.exp(sinks - largest.values)
    return total


def raise_maximum(fast: FastMemory, largest: Tile, S: Tile) -> None:
    """The running maximum of each row takes in the scores of a tile."""
    np.maximum(largest.values, S.values.max(axis=1, keepdims=True), out=largest.values)
    fast.computed(Step.MAXIMUM, S.rows, S.columns)


def weigh(fast: FastMemory, arithmetic: Arithmetic, S: Tile, largest: Tile) -> Tile:
    """Scores become exp(S - max) in place, by a maximum that is known to be the row's."""
    np.exp(S.values - finite(largest.values), out=S.values)
    arithmetic.keep(S.values)
    fast.computed(Step.EXPONENTIAL, S.rows, S.columns)
    return S


def exponentiate(fast: FastMemory, arithmetic: Arithmetic, S: Tile, largest: Tile, total: Tile) -> Tile:
    """Scores become exp(S - max) in place, and each row's sum takes them in."""
    weigh(fast, arithmetic, S, largest)
    total.values += S.values.sum(axis=1, keepdims=True)
    arithmetic.keep(total.values)
    fast.computed(Step.SUM, S.rows, S.columns)
    return S


def add_output(fast: FastMemory, arithmetic: Arithmetic, O_i: Tile, P: Tile, V: Tile) -> None:
    """O += P V."""
    arithmetic.add_product(O_i.values, P.values, V.values, arithmetic.value_scale)
    fast.computed(Step.OUTPUT, O_i.rows, O_i.columns, P.columns)


def normalise(fast: FastMemory, arithmetic: Arithmetic, O_i: Tile, total: Tile) -> None:
    """O becomes O / sum; rows with nothing to sum stay zero."""
    O_i.values /= np.where(total.values == 0, np.float32(1), total.values)
    arithmetic.keep(O_i.values)
    fast.computed(Step.NORMALISE, O_i.rows, O_i.columns)


def save_log_sum_exp(
    fast: FastMemory, problem: Problem, largest: Tile, total: Tile, at: NDArray[np.intp] | None = None
) -> None:
    """Store L = max + log(sum) of the rows ``at`` (all by default) that a key is required for, if L is to be kept.

    It takes the place of the maximum, which nothing needs any more.
    """
    if problem.L is None:
        return
    seen = ~np.isneginf(largest.values[:, 0])
    if problem.sinks is not None:  # a row has its sink, and so a maximum, without any key
        positions = as_array(largest.rows) % problem.pattern.rows
        first, stop = int(positions.min()), int(positions.max()) + 1
        every = np.arange(problem.pattern.keys, dtype=np.int64)
        needing = np.asarray(problem.pattern.required(first, stop, every).any(axis=1))
        seen &= needing[positions - first]
    rows = np.flatnonzero(seen) if at is None else at[seen[at]]
    if len(rows) == 0:
        return
    values = np.full_like(largest.values, -np.inf)
    values[rows] = largest.values[rows] + np.log(total.values[rows])
    problem.arithmetic.keep(values)
    fast.computed(Step.LOG_SUM_EXP, as_array(largest.rows)[rows], ONE)
    held = Tile("L", values, largest.rows, ONE, largest.words_each)
    fast.store(held, problem.L, as_array(largest.rows)[rows], at=rows)


class OnlineSoftmax(Residency):
    """Maximum, sum and rescaling factor of a tile of rows, resident for the length of a ``with`` block."""

    def __init__(self, fast: FastMemory, arithmetic: Arithmetic, rows: int) -> None:
        self._fast, self._arithmetic = fast, arithmetic
        self._buffers = [fast.scratch(name, rows, 1) for name in ("max", "sum", "rescale")]
        super().__init__(*self._buffers)

    def begin(self, rows: Indices, sinks: Values | None = None) -> None:
        """Turn to a tile of rows that has seen no score yet, but its sinks if there are any."""
        self.max, self.sum, self.rescale = (buffer.over(rows, ONE) for buffer in self._buffers)
        self.max.values[...] = -np.inf if sinks is None else sinks
        self.sum.values.fill(0 if sinks is None else 1)

    def absorb(self, S: Tile, hidden: Hidden) -> Tile:
        """Take in a tile of scores: it becomes exp(S - max) in place, and max, sum and rescale follow."""
        hide(S, hidden)
        old, total, rescale = self.max.values, self.sum.values, self.rescale.values
        largest = np.maximum(old, S.values.max(axis=1, keepdims=True))
        shift = finite(largest)
        np.exp(old - shift, out=rescale)
        self._arithmetic.keep(rescale)
        np.exp(S.values - shift, out=S.values)
        self._arithmetic.keep(S.values)
        total *= rescale
        total += S.values.sum(axis=1, keepdims=True)
        self._arithmetic.keep(total)
        old[...] = largest
        self._fast.computed(Step.SOFTMAX, S.rows, S.columns)
        return S

    def accumulate(self, O_i: Tile, P: Tile, V: Tile) -> None:
        """O = rescale * O + P V."""
        rescale = self.rescale.values
        if rescale.min() < 1:
            O_i.values *= rescale
        self._arithmetic.add_product(O_i.values, P.values, V.values, self._arithmetic.value_scale)
        self._fast.computed(Step.RESCALED_OUTPUT, O_i.rows, O_i.columns, P.columns)

    def save(self, problem: Problem, at: NDArray[np.intp] | None = None) -> None:
        """Store the log-sum-exp of rows that are done, if it is to be kept."""
        save_log_sum_exp(self._fast, problem, self.max, self.sum, at)

    def normalise(self, O_i: Tile) -> None:
        """O becomes O / sum."""
        normalise(self._fast, self._arithmetic, O_i, self.sum)


class RowStatistics(Residency):
    """Maximum and sum of one row at a time, resident for the length of a ``with`` block."""

    def __init__(self, fast: FastMemory, arithmetic: Arithmetic) -> None:
        self._fast, self._arithmetic = fast, arithmetic
        self._buffers = fast.scratch("max", 1, 1), fast.scratch("sum", 1, 1)
        super().__init__(*self._buffers)

    def begin(self, sink: Values | None = None) -> None:
        """Turn to a row that has seen no score yet, but its sink if there is one."""
        self._values = largest, total = [buffer.over(ONE, ONE).values for buffer in self._buffers]
        largest[...] = -np.inf if sink is None else sink
        total.fill(0 if sink is None else 1)

    def take(self, S: Tile) -> None:
        """Take in scores of the row."""
        largest, total = self._values
        raised = np.maximum(largest, S.values.max(axis=1, keepdims=True))
        shift = finite(raised)
        total *= np.exp(largest - shift)
        total += np.exp(S.values - shift).sum(axis=1, keepdims=True)
        self._arithmetic.keep(total)
        largest[...] = raised
        self._fast.computed(Step.STATISTICS, S.rows, S.columns)

    def save(self, problem: Problem, row: Indices) -> None:
        """Store the log-sum-exp of the row, if it is to be kept."""
        words = self._fast.intermediate_words
        largest, total = (Tile(name, x, row, ONE, words) for name, x in zip(("max", "sum"), self._values, strict=True))
        save_log_sum_exp(self._fast, problem, largest, total)

    def probabilities(self, S: Tile) -> Tile:
        """Scores of the row become exp(S - max) / sum in place."""
        largest, total = self._values
        np.exp(S.values - finite(largest), out=S.values)
        S.values /= np.where(total == 0, np.float32(1), total)
        self._arithmetic.keep(S.values)
        self._fast.computed(Step.PROBABILITIES, S.rows, S.columns)
        return S


def finite(largest: Values) -> Values:
    """The maximum, made finite where a row has seen no score: -inf minus it is then -inf, not NaN."""
    return np.maximum(largest, _LOWEST)
