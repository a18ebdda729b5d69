"""Resident keys: when keys and weights fit, rows pass by once and nothing else moves.

load A2, A3, X, Y;  dX, dY = 0
for each tile i of query_tile rows:
    load A1_i, dO_i;  Q_i = A1_i X, B_i = dO_i Y^T
    one pass over the keys, key_tile of them at a time (see ``row_pass``): G_i, E_i
    dX += scale A1_i^T G_i, dY^T += dO_i^T E_i
store dX, dY
"""

from attenio.memory import FastMemory
from attenio.memory.indices import cuts, span
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.problem import WeightProblem
from attenio.weight_gradient.dataflows.row_pass import RowPass


def resident_keys(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient."""
    n, m, d, add_product = problem.pattern.rows, problem.pattern.keys, problem.width, problem.arithmetic.add_product
    a, queries, outputs = min(tiles["query_tile"], n), problem.queries, problem.outputs
    with (
        fast.buffer("A2", m, d) as K_buffer,
        fast.buffer("A3", m, d) as V_buffer,
        fast.buffer("X", d, d) as X_buffer,
        fast.buffer("Y", d, d) as Y_buffer,
        fast.scratch("dX", d, d) as dX_buffer,
        fast.scratch("dY", d, d) as dY_buffer,
        fast.buffer("A1", a, d) as A1_buffer,
        fast.buffer("dO", a, d) as dO_buffer,
        RowPass(problem, fast, (a, tiles["key_tile"])) as resident,
        K_buffer.holding(problem.K, span(m)) as K,
        V_buffer.holding(problem.V, span(m)) as V,
        X_buffer.holding(queries.weights, span(d)) as X,
        Y_buffer.holding(outputs.weights, span(d)) as Y,
    ):
        dX, dY = dX_buffer.zeros(span(d), span(d)), dY_buffer.zeros(span(d), span(d))
        for rows in cuts(n, a):
            resident.begin(rows)
            with A1_buffer.holding(queries.rows, rows) as A1_i, dO_buffer.holding(outputs.rows, rows) as dO_i:
                add_product(resident.Q.values, A1_i.values, X.values)
                add_product(resident.B.values, dO_i.values, Y.values)
                resident.sweep_held(K, V)
                add_product(dX.values, A1_i.values.T, resident.G.values, queries.factor)
                add_product(dY.values, dO_i.values.T, resident.E.values, outputs.factor)
        fast.store(dX, queries.gradient, element=problem.element)
        fast.store(dY, outputs.gradient, element=problem.element)
