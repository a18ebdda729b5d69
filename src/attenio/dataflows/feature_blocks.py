"""Feature blocks: the features of one multiset of coordinate groups take turns, and so do blocks of columns.

    for each block of value_columns columns of [1, V]:
        for each multiset of degree groups of coordinate_group coordinates, the constant among them:
            sweep keys and queries as feature-state does, for these columns and the features of the multiset,
            reading only its coordinates; sums of outputs are stored and loaded between multisets
        the first block has the sums to divide by, and stores them; the others load them

See feature_sweep for the sweep itself.
"""

from attenio.approximation import Polynomial
from attenio.dataflows.feature_sweep import Sweeper, Turn, column_blocks
from attenio.dataflows.features import features_by_group
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory
from attenio.memory.indices import size
from attenio.planning.plan import Tiles


def feature_blocks(problem: Problem, tiles: Tiles, fast: FastMemory, polynomial: Polynomial) -> None:
    """Run the heads of one group of one sequence."""
    rows, block = problem.group * problem.pattern.rows, min(tiles["value_columns"], problem.width + 1)
    turns = list(features_by_group(problem.depth, polynomial, problem.arithmetic.scale, tiles["coordinate_group"]))
    total = problem.spilled("sum", rows, 1) if block <= problem.width else None
    sums = problem.spilled("Y", rows, problem.width + 1) if len(turns) > 1 else None
    most = (max(size(features.coordinates) for features in turns), block)
    with Sweeper(
        problem, fast, most, (max(len(features) for features in turns), tiles["key_tile"], tiles["degree"])
    ) as sweeper:
        for columns in column_blocks(problem.width, block):
            known, stored = (None, total) if columns.ones else (total, None)
            for number, features in enumerate(turns):
                sweeper.sweep(
                    Turn(
                        features=features,
                        columns=columns,
                        sums=sums,
                        is_first=number == 0,
                        is_last=number == len(turns) - 1,
                        divisor=known,
                        stored_divisor=stored,
                    )
                )
