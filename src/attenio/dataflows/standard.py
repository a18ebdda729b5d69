"""Standard attention: three operators one after the other, each tiled by itself, blind to the mask.

    S = scale Q K^T:   for each tile of score_rows x score_keys scores, resident:
                           for each depth t: load a column of Q; for each key load one element of K; add their products
                           store the tile
    P = softmax(S):    for each row: load its scores (the first resident_keys stay); max, sum
                           load the others again; store exp(S - max) / sum, 0 where the mask hides a score
    O = P V:           for each tile of output_rows x output_columns outputs, resident:
                           for each key: load a column of P; for each column load one element of V; add their products
                           store the tile

Products keep a tile of results and stream one column and one element past it, as near to optimal as a product comes
[COSMA]; the scores still cross the boundary four times.
"""

from attenio.dataflows.operators_apart import operators_apart
from attenio.dataflows.problem import Problem
from attenio.masks.patterns import Band
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def standard(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    operators_apart(problem, tiles, fast, Band.dense(problem.pattern.rows, problem.pattern.keys))
