"""One sweep of an approximation: tiles of keys are added to a state of features, and queries read it.

    for each tile of key_tile keys, in order:
        load the needed coordinates of K_j, and columns of V_j
        for each query i that needs a key of the tile but none after it, and each head:
            load the needed coordinates of Q_i;  Y = features(Q_i) (Z + the keys of the tile that it needs)
            Y += sums stored by the features before;  store Y, or Y / sum where these are the last features
        Z += features(K_j)^T [1, V_j]

Where every query needs every key, all keys come first. Queries pass one by one; what is done with one does not depend
on the others.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.features import Features
from attenio.dataflows.online_softmax import ONE
from attenio.dataflows.problem import Problem
from attenio.dataflows.residency import Residency
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, SlowArray, Step, Tile
from attenio.memory.fast_memory import Buffer
from attenio.memory.indices import Indices, size
from attenio.memory.matrix import Values

# Features held at once by this computer, not by the counted machine: queries that pass are looked at in such bunches.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Columns:
    """Some columns of [1, V]: whether the ones are among them, and which columns of V."""

    ones: bool
    values: slice

    @property
    def count(self) -> int:
        """How many columns there are."""
        return int(self.ones) + size(self.values)

    @property
    def places(self) -> slice:
        """Where they stand in [1, V]."""
        return slice(self.values.start + (0 if self.ones else 1), self.values.stop + 1)


def column_blocks(width: int, block: int) -> Iterator[Columns]:
    """The columns of [1, V] in blocks; the ones come first."""
    for start in range(0, width + 1, block):
        stop = min(start + block, width + 1)
        yield Columns(start == 0, slice(max(0, start - 1), stop - 1))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Which features and columns a sweep is about, what it finds in slow memory, and whether others follow.

    ``sums`` are partial sums over the features of earlier turns; ``divisor`` is what outputs are divided by, if it is
    not among the columns; ``stored_divisor`` is where to store it, if later turns need it.
    """

    features: Features
    columns: Columns
    sums: SlowArray | None = None
    is_first: bool = True
    is_last: bool = True
    divisor: SlowArray | None = None
    stored_divisor: SlowArray | None = None


def reaches(problem: Problem) -> NDArray[np.intp]:
    """How many keys each position needs: all up to there, since masks are dense or causal."""
    pattern = problem.pattern
    assert isinstance(pattern, Band)
    return np.asarray(pattern.end_key(np.arange(pattern.rows, dtype=np.int64)), dtype=np.intp)


class Sweeper(Residency):
    """Buffers of fast memory that sweeps share, for as long as its ``with`` block lasts."""

    def __init__(
        self, problem: Problem, fast: FastMemory, widths: tuple[int, int], sizes: tuple[int, int, int]
    ) -> None:
        """Widths are coordinates and columns; sizes are features, key tile and degree."""
        (depth, block), (features, key_tile, degree) = widths, sizes
        self._problem, self._fast = problem, fast
        self.key_tile = min(key_tile, problem.pattern.keys)
        self._reach = reaches(problem)
        self._Z = fast.scratch("Z", features, block)
        self._K = fast.buffer("K", self.key_tile, depth)
        self._V = fast.buffer("V", self.key_tile, min(block, problem.width))
        self._Q = fast.buffer("Q", 1, depth)
        self._Y = fast.scratch("Y", 1, block)
        products = fast.scratch("products", 1, degree + 1)
        self._divisor: Buffer | None = fast.scratch("sum", 1, 1) if block <= problem.width else None
        divisor = () if self._divisor is None else (self._divisor,)
        super().__init__(self._Z, self._K, self._V, self._Q, self._Y, products, *divisor)

    def sweep(self, turn: Turn) -> None:
        """Run one sweep over the keys and queries of the problem."""
        problem, reach = self._problem, self._reach
        Z = self._Z.zeros(slice(0, len(turn.features)), slice(0, turn.columns.count))
        done = int(np.searchsorted(reach, 0, side="right"))  # positions before it need no key
        if turn.is_last:
            self._store_zeros(turn.columns, done)
        problem.advance(done)
        for start in range(0, problem.pattern.keys, self.key_tile):
            stop = min(start + self.key_tile, problem.pattern.keys)
            # a dense position has the reach of the last tile, and reads the state when that is complete
            last = int(np.searchsorted(reach, stop, side="left")) if stop < problem.pattern.keys else len(reach)
            keys = slice(start, stop)
            with (
                self._K.holding(problem.K, keys, turn.features.coordinates) as K_j,
                self._holding_values(keys, turn.columns) as V_j,
            ):
                features_of_keys, values = turn.features.of(K_j.values), _with_ones(V_j, turn.columns, stop - start)
                inside = slice(done, last)
                if size(inside) and not (reach[inside] >= stop).all():
                    self._read(turn, Z, inside, (features_of_keys, values, start))
                    done = last
                problem.arithmetic.add_product(Z.values, features_of_keys.T, values)
                self._fast.computed(Step.FEATURE_STATE, Z.rows, Z.columns, K_j.rows)
            if done < last:
                self._read(turn, Z, slice(done, last), None)
                done = last

    def _holding_values(self, keys: slice, columns: Columns) -> AbstractContextManager[Tile | None]:
        if size(columns.values) == 0:
            return nullcontext()
        return self._V.holding(self._problem.V, keys, columns.values)

    def _read(self, turn: Turn, Z: Tile, inside: slice, tile: tuple[Values, Values, int] | None) -> None:
        """Queries of these positions pass, head by head, in bunches that this computer can hold."""
        bunch = max(1, _AT_ONCE // len(turn.features))
        for start in range(inside.start, inside.stop, bunch):
            positions = slice(start, min(start + bunch, inside.stop))
            for head in range(self._problem.group):
                self._read_bunch(turn, Z, (head, positions), tile)
            self._problem.advance(size(positions))

    def _read_bunch(
        self, turn: Turn, Z: Tile, where: tuple[int, slice], tile: tuple[Values, Values, int] | None
    ) -> None:
        problem, (head, positions) = self._problem, where
        rows = problem.rows_of(range(head, head + 1), positions)
        with self._Q.streaming(problem.Q, rows, turn.features.coordinates, along="rows") as Q_i:
            features = turn.features.weighted(Q_i.values)
            sums = features @ Z.values
            if tile is not None:
                features_of_keys, values, start = tile
                seen = start + np.arange(len(features_of_keys), dtype=np.int64) < self._reach[positions, None]
                sums += np.where(seen, features @ features_of_keys.T, np.float32(0)) @ values
            places = turn.columns.places
            if turn.is_first:
                self._Y.over(ONE, slice(0, turn.columns.count))  # there is room for one row of them
                Y = self._Y.passing(rows, places, name="Y")
                Y.values += sums
                self._finish(turn, Y)
                return
            assert turn.sums is not None
            with self._Y.streaming(turn.sums, rows, places, along="rows") as Y:
                Y.values += sums
                self._finish(turn, Y)

    def _finish(self, turn: Turn, Y: Tile) -> None:
        """Store sums for the next features, or outputs."""
        fast, problem = self._fast, self._problem
        fast.computed(Step.FEATURE_OUTPUT, Y.rows, Y.columns)
        if not turn.is_last:
            assert turn.sums is not None
            fast.store(Y, turn.sums)
            return
        if turn.divisor is not None:
            assert self._divisor is not None
            with self._divisor.streaming(turn.divisor, Y.rows, along="rows") as total:
                self._store_output(turn, Y, total.values)
            return
        total_values = Y.values[:, :1]
        if turn.stored_divisor is not None:
            fast.store(Tile("sum", total_values, Y.rows, ONE, problem.intermediate_words), turn.stored_divisor)
        self._store_output(turn, Y, total_values)

    def _store_output(self, turn: Turn, Y: Tile, total: Values) -> None:
        if size(turn.columns.values) == 0:
            return
        outputs = Y.values[:, int(turn.columns.ones) :] / total
        self._fast.computed(Step.NORMALISE, Y.rows, turn.columns.values)
        self._fast.store(Tile("O", outputs, Y.rows, turn.columns.values), self._problem.O)

    def _store_zeros(self, columns: Columns, count: int) -> None:
        """Outputs of positions that need no key."""
        problem = self._problem
        if count == 0 or size(columns.values) == 0:
            return
        for head in range(problem.group):
            rows: Indices = problem.rows_of(range(head, head + 1), slice(0, count))
            values = np.zeros((count, size(columns.values)), dtype=np.float32)
            self._fast.store(Tile("O", values, rows, columns.values), problem.O)


def _with_ones(V: Tile | None, columns: Columns, count: int) -> Values:
    parts = [np.ones((count, 1), dtype=np.float32)] if columns.ones else []
    return np.concatenate([*parts, V.values] if V is not None else parts, axis=1)
