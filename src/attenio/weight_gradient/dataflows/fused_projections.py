"""Fused projections: nothing of the rows is stored but G and E.

for each tile i of query_tile rows:
    for each depth t:  load a column of A1_i;  for each column load one element of X;  add their products to Q_i
    the same with dO_i and Y^T for B_i
    one pass over the keys (see ``row_pass``);  store G_i, E_i
dX = scale A1^T G, dY = E^T dO with resident tiles of them (see ``products``)
"""

from attenio.memory import FastMemory
from attenio.memory.indices import cuts
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.fused import project_rows
from attenio.weight_gradient.dataflows.problem import WeightProblem
from attenio.weight_gradient.dataflows.products import update_weights
from attenio.weight_gradient.dataflows.row_pass import RowPass


def fused_projections(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient."""
    n, d = problem.pattern.rows, problem.width
    a = min(tiles["query_tile"], n)
    G, E = problem.spilled("G", n, d), problem.spilled("E", n, d)
    with RowPass(problem, fast, (a, tiles["key_tile"])) as resident:
        for rows in cuts(n, a):
            resident.begin(rows)
            project_rows(problem, problem.queries, resident.Q, a, fast)
            project_rows(problem, problem.outputs, resident.B, a, fast)
            resident.sweep()
            fast.store(resident.G, G)
            fast.store(resident.E, E)
    weights = tiles["weight_rows"], tiles["weight_columns"]
    update_weights(problem, problem.queries, G, weights, fast)
    update_weights(problem, problem.outputs, E, weights, fast)
