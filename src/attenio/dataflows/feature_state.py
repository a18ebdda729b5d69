"""Feature state: the features of all columns stay in fast memory; keys, values, queries and outputs pass once.

    Z = 0
    for each tile of key_tile keys:
        for each query that needs a key of the tile but none after it, and each head: O = features(Q_i) Z, divided by
            its first column, with the keys of the tile that it needs
        Z += features(K_j)^T [1, V_j]

The heads of a group share the state. See feature_sweep for the sweep itself.
"""

from attenio.approximation import Polynomial
from attenio.dataflows.feature_sweep import Columns, Sweeper, Turn
from attenio.dataflows.features import all_features
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def feature_state(problem: Problem, tiles: Tiles, fast: FastMemory, polynomial: Polynomial) -> None:
    """Run the heads of one group of one sequence."""
    depth, width = problem.depth, problem.width
    features = all_features(depth, polynomial, problem.arithmetic.scale)
    sizes = (len(features), tiles["key_tile"], tiles["degree"])
    with Sweeper(problem, fast, (depth, width + 1), sizes) as sweeper:
        sweeper.sweep(Turn(features=features, columns=Columns(True, slice(0, width))))
