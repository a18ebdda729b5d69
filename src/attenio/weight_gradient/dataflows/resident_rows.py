"""Resident rows: as fused, but A1_i and dO_i are loaded once and stay until the weight gradients have been updated.

for each tile i of query_tile rows:
    load A1_i, dO_i;  every element of X and of Y passes by:  Q_i = A1_i X, B_i = dO_i Y^T
    one pass over the keys (see ``row_pass``): G_i, E_i
    every element of dX and of dY passes by:  dX += scale A1_i^T G_i, dY^T += dO_i^T E_i
"""

from attenio.memory import FastMemory
from attenio.memory.indices import cuts, span
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.fused import add_to_gradient
from attenio.weight_gradient.dataflows.problem import WeightProblem
from attenio.weight_gradient.dataflows.row_pass import RowPass


def resident_rows(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient."""
    a, d, sides = min(tiles["query_tile"], problem.pattern.rows), problem.width, (problem.queries, problem.outputs)
    with (
        fast.buffer("A1", a, d) as A1_buffer,
        fast.buffer("dO", a, d) as dO_buffer,
        RowPass(problem, fast, (a, tiles["key_tile"])) as resident,
    ):
        for rows in cuts(problem.pattern.rows, a):
            resident.begin(rows)
            with (
                A1_buffer.holding(problem.queries.rows, rows) as A1_i,
                dO_buffer.holding(problem.outputs.rows, rows) as dO_i,
            ):
                for side, held, projection in zip(sides, (A1_i, dO_i), (resident.Q, resident.B), strict=True):
                    with (
                        fast.buffer(side.weights.name, 1, 1) as weight,
                        weight.streaming(side.weights, span(d), along="elements") as weights,
                    ):
                        problem.arithmetic.add_product(projection.values, held.values, weights.values)
                resident.sweep()
                for side, held, made in zip(sides, (A1_i, dO_i), (resident.G, resident.E), strict=True):
                    with fast.scratch(side.gradient.name, 1, 1):
                        add_to_gradient(problem, side, held, made, fast)
