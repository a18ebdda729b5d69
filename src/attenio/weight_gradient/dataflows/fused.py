"""Fused: nothing but weights and their gradients is read or written more than once for a tile of rows.

for each tile i of query_tile rows:
    for each depth t:  load a column of A1_i;  for each column load one element of X;  add their products to Q_i
    the same with dO_i and Y^T for B_i
    one pass over the keys (see ``row_pass``): G_i, E_i
    for each column s of A1_i:  load it;  for each element of row s of dX:
        load its partial sum unless this is the first tile;  add scale A1_i^T G_i;  store it
    the same with dO_i and E_i for dY^T
"""

import numpy as np

from attenio.memory import FastMemory, Tile
from attenio.memory.indices import cuts, singles, span
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.problem import Side, WeightProblem
from attenio.weight_gradient.dataflows.row_pass import RowPass


def fused(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient."""
    a = min(tiles["query_tile"], problem.pattern.rows)
    with RowPass(problem, fast, (a, tiles["key_tile"])) as resident:
        for rows in cuts(problem.pattern.rows, a):
            resident.begin(rows)
            project_rows(problem, problem.queries, resident.Q, a, fast)
            project_rows(problem, problem.outputs, resident.B, a, fast)
            resident.sweep()
            _update(problem, problem.queries, resident.G, a, fast)
            _update(problem, problem.outputs, resident.E, a, fast)


def project_rows(problem: WeightProblem, side: Side, into: Tile, height: int, fast: FastMemory) -> None:
    """Add A1_i X to Q_i, or dO_i Y^T to B_i, in a tile of up to ``height`` rows."""
    with (
        fast.buffer(side.rows.name, height, 1) as column_buffer,
        fast.buffer(side.weights.name, 1, 1) as weight,
    ):
        for depth in singles(problem.width):
            with (
                column_buffer.holding(side.rows, into.rows, depth) as column,
                weight.streaming(side.weights, depth, along="elements") as weights,
            ):
                problem.arithmetic.add_product(into.values, column.values, weights.values)


def _update(problem: WeightProblem, side: Side, factor: Tile, height: int, fast: FastMemory) -> None:
    with (
        fast.buffer(side.rows.name, height, 1) as column_buffer,
        fast.scratch(side.gradient.name, 1, 1),
    ):
        for depth in singles(problem.width):
            with column_buffer.holding(side.rows, factor.rows, depth) as column:
                add_to_gradient(problem, side, column, factor, fast)


def add_to_gradient(problem: WeightProblem, side: Side, left: Tile, factor: Tile, fast: FastMemory) -> None:
    """Add left^T made to rows of a weight gradient that pass through one word, as partial sums until the last tile."""
    assert isinstance(left.columns, slice) and isinstance(left.rows, slice)
    height = left.columns.stop - left.columns.start
    values = np.zeros((height, problem.width), dtype=np.float32)
    total = Tile(side.gradient.name, values, left.columns, span(problem.width), problem.intermediate_words)
    if left.rows.start > 0:
        fast.load(side.gradient, total)
    problem.arithmetic.add_product(total.values, left.values.T, factor.values, side.factor)
    last = left.rows.stop == problem.pattern.rows
    fast.store(total, side.gradient, element=problem.element if last else None)
