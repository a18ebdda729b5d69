"""Window and features: the last keys keep their exact weights; those that leave the window join a feature state.

Z = 0
for each position i, in order:
    for each key j that it needs and none before it did:
        if the window is full: Z += features(K)^T [1, V] of its oldest key_tile keys, which leave it
        load K_j and V_j into the window
    for each head:
        load Q_i;  Y = features(Q_i) Z
        for each key of the window: Y += s exp(scale q.k) [1, v], where the polynomial is near s exp
        store Y divided by its first column
"""

import numpy as np

from attenio.approximation import Polynomial
from attenio.dataflows.feature_sweep import reaches
from attenio.dataflows.features import all_features, with_ones
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory, Step, Tile
from attenio.planning.plan import Tiles


def window_and_features(problem: Problem, tiles: Tiles, fast: FastMemory, polynomial: Polynomial) -> None:
    """Run the heads of one group of one sequence."""
    depth, width, arithmetic = problem.depth, problem.width, problem.arithmetic
    features = all_features(depth, polynomial, arithmetic.scale)
    window = min(tiles["window"], problem.pattern.keys)
    leaving = min(tiles["key_tile"], window)
    with (
        fast.scratch("Z", len(features), width + 1) as Z_buffer,
        fast.buffer("K", window, depth) as K_buffer,
        fast.buffer("V", window, width) as V_buffer,
        fast.buffer("Q", 1, depth) as Q_buffer,
        fast.scratch("Y", 1, width + 1) as Y_buffer,
        fast.scratch("products", 1, tiles["degree"] + 1),
        fast.scratch("S", 1, 1),
    ):
        Z = Z_buffer.zeros(slice(0, len(features)), slice(0, width + 1))
        K, V = K_buffer.over(slice(0, window), problem.K.columns), V_buffer.over(slice(0, window), problem.V.columns)
        oldest = loaded = 0
        for position, reach in enumerate(reaches(problem).tolist()):
            for key in range(loaded, reach):
                if key - oldest == window:
                    places = np.arange(oldest, oldest + leaving, dtype=np.int64) % window
                    features_of_keys = features.of(K.values[places])
                    arithmetic.add_product(Z.values, features_of_keys.T, with_ones(V.values[places]))
                    fast.computed(
                        Step.FEATURE_STATE, Z.rows, Z.columns, np.arange(oldest, oldest + leaving, dtype=np.int64)
                    )
                    oldest += leaving
                fast.load(problem.K, K.row(key % window), slice(key, key + 1))
                fast.load(problem.V, V.row(key % window), slice(key, key + 1))
            loaded = max(loaded, reach)
            inside = np.arange(oldest, loaded, dtype=np.int64) % window
            for head in range(problem.group):
                row = problem.rows_of(range(head, head + 1), slice(position, position + 1))
                Y = Y_buffer.zeros(row, slice(0, width + 1))
                if reach:
                    with Q_buffer.holding(problem.Q, row) as Q_i:
                        Y.values += features.weighted(Q_i.values) @ Z.values
                        weights = np.exp((Q_i.values @ K.values[inside].T) * np.float32(arithmetic.scale))
                        weights *= np.float32(polynomial.scale)
                        Y.values += weights @ with_ones(V.values[inside])
                        fast.computed(Step.FEATURE_OUTPUT, Y.rows, Y.columns)
                    Y.values[:, 1:] /= Y.values[:, :1]
                    fast.computed(Step.NORMALISE, Y.rows, problem.V.columns)
                fast.store(Tile("O", Y.values[:, 1:], Y.rows, problem.V.columns), problem.O)
            problem.advance(1)
