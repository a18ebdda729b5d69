"""Feature gradient: Y = features(Q) Z, O = Y[1:] / Y[0] and Z = features(K)^T [1, V], differentiated as they stand.

With dY = [-dO.O, dO] / Y[0] and the state dZ = features(Q)^T dY:

    for each key j, in order, and the positions that need it but none after it:
        load K_j, V_j;  Z += features(K_j)^T [1, V_j]              (or load Z, if it was saved)
        load Q_i, dO_i;  Y = features(Q_i) Z;  dY;  store dQ_i, from dY Z^T
        with room for both states: dZ += features(Q_i)^T dY;  otherwise store Y[0] and dY[0]
    with room for one state only, for each position, last one first:
        load Q_i, dO_i, Y[0], dY[0];  dZ += features(Q_i)^T dY
    for each key, last one first, once no position before it is left that needs it:
        load K_j, V_j;  store dK_j, from [1, V_j] dZ^T, and dV_j, from features(K_j) dZ

Rows pass one by one; bunches of them are looked at together here, with the same result.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.approximation import Polynomial
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.zeros import store_zeros
from attenio.dataflows.feature_sweep import reaches
from attenio.dataflows.features import Features, all_features, with_ones
from attenio.dataflows.online_softmax import ONE
from attenio.memory import FastMemory, SlowArray, Step, Tile
from attenio.memory.fast_memory import Buffer
from attenio.memory.indices import Indices, size
from attenio.memory.matrix import Values
from attenio.planning.plan import Tiles

# Features held at once by this computer, not by the counted machine.
_AT_ONCE = 2**20


@dataclass(frozen=True, kw_only=True)
class _Bunch:
    """Keys that come one by one, and the positions that pass with them: position p needs keys up to reach[p]."""

    keys: slice
    positions: slice


@dataclass(frozen=True, kw_only=True)
class _RowBuffers:
    """The buffers that rows pass through, and where the sums of rows are kept between passes."""

    keys_or_queries: Buffer
    values_or_gradients: Buffer
    d_keys_or_queries: Buffer
    d_values_or_outputs: Buffer
    sums: SlowArray


def feature_gradient(problem: BackwardProblem, tiles: Tiles, fast: FastMemory, polynomial: Polynomial) -> None:
    """Run the heads of one group of one sequence."""
    depth, width = problem.depth, problem.width
    features = all_features(depth, polynomial, problem.arithmetic.scale)
    reach = reaches(problem)
    both = tiles["resident_states"] > 1
    with ExitStack() as stack:
        Z_buffer = stack.enter_context(fast.scratch("Z", len(features), width + 1))
        dZ_buffer = stack.enter_context(fast.scratch("dZ", len(features), width + 1)) if both else Z_buffer
        stack.enter_context(fast.scratch("products", 1, tiles["degree"] + 2))
        rows = _RowBuffers(
            keys_or_queries=stack.enter_context(fast.buffer("K or Q", 1, depth)),
            values_or_gradients=stack.enter_context(fast.buffer("V or dO", 1, width)),
            d_keys_or_queries=stack.enter_context(fast.scratch("dK or dQ", 1, depth)),
            d_values_or_outputs=stack.enter_context(fast.scratch("dV or Y", 1, width + 1)),
            sums=problem.spilled("sums", problem.group * problem.pattern.rows, 2),
        )
        shape = slice(0, len(features)), slice(0, width + 1)
        Z = Z_buffer.zeros(*shape)
        passes = _Passes(problem, fast, features, rows, reach)
        if tiles.get("saved_state", 0):
            fast.load(saved_state(problem, features), Z)
        dZ = dZ_buffer.zeros(*shape) if both else None
        passes.down(Z, dZ, saved=bool(tiles.get("saved_state", 0)))
        passes.up(dZ_buffer.zeros(*shape) if dZ is None else dZ, queries=dZ is None)
    problem.advance(int((reach == 0).sum()) * problem.group)
    written = np.repeat(reach[None, :] > 0, problem.group, axis=0).ravel()
    store_zeros(fast, problem.dQ, written)


def saved_state(problem: BackwardProblem, features: Features) -> SlowArray:
    """The state that a forward pass leaves in slow memory."""
    values = features.of(problem.K.values).T @ with_ones(problem.V.values)
    return SlowArray("Z", values, slice(0, len(features)), slice(0, problem.width + 1), problem.intermediate_words)


class _Passes:
    """The passes over keys and queries, down and up again."""

    def __init__(
        self, problem: BackwardProblem, fast: FastMemory, features: Features, rows: _RowBuffers, reach: NDArray[np.intp]
    ) -> None:
        self._problem, self._fast, self._features, self._rows, self._reach = problem, fast, features, rows, reach

    def bunches(self) -> Iterator[_Bunch]:
        """Keys and positions in the order in which they come: first keys alone, then keys with positions."""
        reach, keys = self._reach, self._problem.pattern.keys
        most = max(1, _AT_ONCE // len(self._features))
        first = int(np.searchsorted(reach, 0, side="right"))
        alone = int(reach[first]) - 1 if reach[-1] > reach[first] else keys
        for start in range(0, alone, most):
            yield _Bunch(keys=slice(start, min(start + most, alone)), positions=slice(first, first))
        with_keys = alone < keys
        for start in range(first, len(reach), most):
            stop = min(start + most, len(reach))
            at = (int(reach[start]) - 1, int(reach[stop - 1])) if with_keys else (keys, keys)
            yield _Bunch(keys=slice(*at), positions=slice(start, stop))

    def down(self, Z: Tile, dZ: Tile | None, *, saved: bool) -> None:
        """Keys make the state, queries read it and get their gradients."""
        problem, fast, features, rows = self._problem, self._fast, self._features, self._rows
        for bunch in self.bunches():
            features_of_keys = values = None
            if size(bunch.keys) and not saved:
                with (
                    rows.keys_or_queries.streaming(problem.K, bunch.keys, along="rows") as K_j,
                    rows.values_or_gradients.streaming(problem.V, bunch.keys, along="rows") as V_j,
                ):
                    features_of_keys, values = features.of(K_j.values), with_ones(V_j.values)
                    fast.computed(Step.FEATURE_STATE, Z.rows, Z.columns, K_j.rows)
            if size(bunch.positions):
                for head in range(problem.group):
                    self._query_gradients(
                        Z, dZ, self._named(head, bunch.positions), self._seen(bunch, features_of_keys, values)
                    )
            if features_of_keys is not None and values is not None:
                problem.arithmetic.add_product(Z.values, features_of_keys.T, values)
            problem.advance(size(bunch.positions) * problem.group)

    def up(self, dZ: Tile, *, queries: bool) -> None:
        """Queries make the other state, unless it is there; keys read it and get their gradients."""
        problem, features, rows = self._problem, self._features, self._rows
        for bunch in reversed(list(self.bunches())):
            read: list[tuple[Values, Values]] = []
            if size(bunch.positions) and queries:
                read = [self._outputs_again(self._named(head, bunch.positions)) for head in range(problem.group)]
            if size(bunch.keys):
                with (
                    rows.keys_or_queries.streaming(problem.K, bunch.keys, along="rows") as K_j,
                    rows.values_or_gradients.streaming(problem.V, bunch.keys, along="rows") as V_j,
                ):
                    features_of_keys, values = features.of(K_j.values), with_ones(V_j.values)
                    d_values, d_made = features_of_keys @ dZ.values, values @ dZ.values.T
                    seen = self._mask(bunch)
                    for weighted, dY in read:
                        d_values += np.where(seen, weighted @ features_of_keys.T, np.float32(0)).T @ dY
                        d_made += np.where(seen, dY @ values.T, np.float32(0)).T @ weighted
                    self._store(rows.d_keys_or_queries, features.derivative(K_j.values, d_made), K_j.rows, problem.dK)
                    self._store(rows.d_values_or_outputs, d_values[:, 1:], K_j.rows, problem.dV)
                problem.advance(size(bunch.keys))
            for weighted, dY in read:
                problem.arithmetic.add_product(dZ.values, weighted.T, dY)

    def _named(self, head: int, positions: slice) -> Indices:
        return self._problem.rows_of(range(head, head + 1), positions)

    def _mask(self, bunch: _Bunch) -> NDArray[np.bool_]:
        """Which keys of a bunch its positions need."""
        keys = np.arange(bunch.keys.start, bunch.keys.stop, dtype=np.int64)
        return np.asarray(keys < self._reach[bunch.positions, None])

    def _seen(
        self, bunch: _Bunch, features_of_keys: Values | None, values: Values | None
    ) -> tuple[Values, Values, NDArray[np.bool_]] | None:
        return None if features_of_keys is None or values is None else (features_of_keys, values, self._mask(bunch))

    def _query_gradients(
        self, Z: Tile, dZ: Tile | None, named: Indices, tile: tuple[Values, Values, NDArray[np.bool_]] | None
    ) -> None:
        problem, fast, features, rows = self._problem, self._fast, self._features, self._rows
        with (
            rows.keys_or_queries.streaming(problem.Q, named, along="rows") as Q_i,
            rows.values_or_gradients.streaming(problem.dO, named, along="rows") as dO_i,
        ):
            weighted = features.weighted(Q_i.values)
            Y = weighted @ Z.values
            if tile is not None:
                features_of_keys, values, seen = tile
                Y += np.where(seen, weighted @ features_of_keys.T, np.float32(0)) @ values
            dY = _output_gradient(Y, dO_i.values)
            along = dY @ Z.values.T
            if tile is not None:
                along += np.where(seen, dY @ values.T, np.float32(0)) @ features_of_keys
            fast.computed(Step.FEATURE_OUTPUT, Q_i.rows, Z.columns)
            self._store(
                rows.d_keys_or_queries, features.derivative(Q_i.values, along * features.weights), named, problem.dQ
            )
            if dZ is not None:
                problem.arithmetic.add_product(dZ.values, weighted.T, dY)
                fast.computed(Step.FEATURE_STATE_GRADIENT, dZ.rows, dZ.columns, Q_i.rows)
                return
            both = np.concatenate([Y[:, :1], dY[:, :1]], axis=1)
            fast.store(Tile("sums", both, named, slice(0, 2), problem.intermediate_words), rows.sums)

    def _outputs_again(self, named: Indices) -> tuple[Values, Values]:
        """Weighted features of queries, and the gradients of their sums from what was stored of them."""
        problem, rows = self._problem, self._rows
        with (
            rows.keys_or_queries.streaming(problem.Q, named, along="rows") as Q_i,
            rows.values_or_gradients.streaming(problem.dO, named, along="rows") as dO_i,
            rows.d_values_or_outputs.streaming(rows.sums, named, along="rows") as sums,
        ):
            dY = np.concatenate([sums.values[:, 1:], dO_i.values / sums.values[:, :1]], axis=1)
            return self._features.weighted(Q_i.values), dY

    def _store(self, buffer: Buffer, values: Values, named: Indices, target: SlowArray) -> None:
        buffer.over(ONE, target.columns)  # there is room for one row
        self._fast.store(Tile(target.name, values, named, target.columns), target)
        self._fast.computed(Step.FEATURE_GRADIENT, named, target.columns)


def _output_gradient(Y: Values, dO: Values) -> Values:
    """dY from dO: of the columns of values dO / Y[0], of the ones -dO.O / Y[0]."""
    total = Y[:, :1]
    of_values = dO / total
    return np.concatenate([-(of_values * Y[:, 1:]).sum(axis=1, keepdims=True) / total, of_values], axis=1)
