"""One pass over stored projections.

Q = A1 X, B = dO Y^T with resident weights (see ``products``)
for each tile i of query_tile rows:  load Q_i, B_i;  one pass over the keys (see ``row_pass``);  store G_i, E_i
dX = scale A1^T G, dY = E^T dO with resident tiles of them
"""

from attenio.memory import FastMemory
from attenio.memory.indices import cuts
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.problem import WeightProblem
from attenio.weight_gradient.dataflows.products import project, update_weights
from attenio.weight_gradient.dataflows.row_pass import RowPass


def one_pass(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient."""
    n, d = problem.pattern.rows, problem.width
    Q, B, G, E = (problem.spilled(name, n, d) for name in ("Q", "B", "G", "E"))
    project(problem, problem.queries, Q, tiles["projection_columns"], fast)
    project(problem, problem.outputs, B, tiles["projection_columns"], fast)
    with RowPass(problem, fast, (tiles["query_tile"], tiles["key_tile"])) as resident:
        for rows in cuts(n, tiles["query_tile"]):
            resident.begin(rows)
            fast.load(Q, resident.Q)
            fast.load(B, resident.B)
            resident.sweep()
            fast.store(resident.G, G)
            fast.store(resident.E, E)
    weights = tiles["weight_rows"], tiles["weight_columns"]
    update_weights(problem, problem.queries, G, weights, fast)
    update_weights(problem, problem.outputs, E, weights, fast)
