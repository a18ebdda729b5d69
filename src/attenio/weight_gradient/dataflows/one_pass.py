"""One pass over the keys for every tile of rows, with projections that were stored or that are computed there.

Q = A1 X, B = dO Y^T with resident weights (see ``products``), in one pass; fused projections store neither
for each tile i of query_tile rows:
    one pass:           load Q_i, B_i
    fused projections:  for each depth t:  load a column of A1_i;  for each column load one element of X;  add their
                        products to Q_i;  the same with dO_i and Y^T for B_i
    one pass over the keys (see ``row_pass``);  store G_i, E_i
dX = scale A1^T G, dY = E^T dO with resident tiles of them
"""

from collections.abc import Callable

from attenio.memory import FastMemory
from attenio.memory.indices import cuts
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.fused import project_rows
from attenio.weight_gradient.dataflows.problem import WeightProblem
from attenio.weight_gradient.dataflows.products import project, update_weights
from attenio.weight_gradient.dataflows.row_pass import RowPass


def one_pass(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient with stored projections."""
    Q, B = (problem.spilled(name, problem.pattern.rows, problem.width) for name in ("Q", "B"))
    project(problem, problem.queries, Q, tiles["projection_columns"], fast)
    project(problem, problem.outputs, B, tiles["projection_columns"], fast)

    def load(resident: RowPass) -> None:
        fast.load(Q, resident.Q)
        fast.load(B, resident.B)

    _gradient(problem, tiles, fast, load)


def fused_projections(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient of which only G and E are stored."""
    a = min(tiles["query_tile"], problem.pattern.rows)

    def compute(resident: RowPass) -> None:
        project_rows(problem, problem.queries, resident.Q, a, fast)
        project_rows(problem, problem.outputs, resident.B, a, fast)

    _gradient(problem, tiles, fast, compute)


def _gradient(
    problem: WeightProblem, tiles: Tiles, fast: FastMemory, get_projections: Callable[[RowPass], None]
) -> None:
    n, d = problem.pattern.rows, problem.width
    a = min(tiles["query_tile"], n)
    G, E = problem.spilled("G", n, d), problem.spilled("E", n, d)
    with RowPass(problem, fast, (a, tiles["key_tile"])) as resident:
        for rows in cuts(n, a):
            resident.begin(rows)
            get_projections(resident)
            resident.sweep()
            fast.store(resident.G, G)
            fast.store(resident.E, E)
    weights = tiles["weight_rows"], tiles["weight_columns"]
    update_weights(problem, problem.queries, G, weights, fast)
    update_weights(problem, problem.outputs, E, weights, fast)
