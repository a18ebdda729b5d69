"""Value columns: blocks of columns of [1, V] take turns, each with the features of its own state in fast memory.

    for each block of value_columns columns of [1, V]:
        sweep keys and queries as feature-state does, for these columns
        the first block has the sums, and stores them; the others load them to divide by

See feature_sweep for the sweep itself.
"""

from attenio.approximation import Polynomial
from attenio.dataflows.feature_sweep import Sweeper, Turn, column_blocks
from attenio.dataflows.features import all_features
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def value_columns(problem: Problem, tiles: Tiles, fast: FastMemory, polynomial: Polynomial) -> None:
    """Run the heads of one group of one sequence."""
    depth, block = problem.depth, min(tiles["value_columns"], problem.width + 1)
    features = all_features(depth, polynomial, problem.arithmetic.scale)
    total = problem.spilled("sum", problem.group * problem.pattern.rows, 1) if block <= problem.width else None
    sizes = (len(features), tiles["key_tile"], tiles["degree"])
    with Sweeper(problem, fast, (depth, block), sizes) as sweeper:
        for columns in column_blocks(problem.width, block):
            known, stored = (None, total) if columns.ones else (total, None)
            sweeper.sweep(Turn(features=features, columns=columns, divisor=known, stored_divisor=stored))
