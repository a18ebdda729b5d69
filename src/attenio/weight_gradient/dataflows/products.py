"""Products with weights as phases of their own.

project, weights stay, for each tile c of projection_columns columns:
    load the weights of c
    for each row:  for each of its elements load it and add its products with the weights;  store c of the row
project, rows stay, for each tile i of projection_rows rows, each tile c of projection_columns columns:
    for each depth t:  load a column of the rows;  for each column of c load one weight;  add their products
    store the tile
update weights, for each tile of weight_rows x weight_columns of the gradient:
    for each row:  load weight_rows of its elements;  for each column load one intermediate;  add their products
    store the tile
"""

import numpy as np

from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import cuts, singles, span
from attenio.weight_gradient.dataflows.problem import Side, WeightProblem, passing


def project(problem: WeightProblem, side: Side, into: SlowArray, columns: int, fast: FastMemory) -> None:
    """Q = A1 X or B = dO Y^T with resident weights."""
    d, n, c = problem.width, problem.pattern.rows, min(columns, problem.width)
    with (
        fast.buffer(side.weights.name, d, c) as weights_buffer,
        fast.scratch(into.name, 1, c),
        fast.buffer(side.rows.name, 1, 1) as element,
    ):
        for chosen in cuts(d, c):
            with (
                weights_buffer.holding(side.weights, span(d), chosen) as weights,
                element.streaming(side.rows, span(n), along="elements") as rows,
            ):
                values = np.zeros((n, chosen.stop - chosen.start), dtype=np.float32)
                problem.arithmetic.add_product(values, rows.values, weights.values)
                fast.store(Tile(into.name, values, span(n), chosen), into)


def project_in_tiles(
    problem: WeightProblem, side: Side, into: SlowArray, tile: tuple[int, int], fast: FastMemory
) -> None:
    """Q = A1 X or B = dO Y^T with a resident tile of the result."""
    d, n = problem.width, problem.pattern.rows
    p, c = min(tile[0], n), min(tile[1], d)
    with (
        fast.scratch(into.name, p, c) as result_buffer,
        fast.buffer(side.rows.name, p, 1) as column_buffer,
        fast.buffer(side.weights.name, 1, 1) as weight,
    ):
        for rows in cuts(n, p):
            for chosen in cuts(d, c):
                result = result_buffer.zeros(rows, chosen)
                for depth in singles(d):
                    with (
                        column_buffer.holding(side.rows, rows, depth) as column,
                        weight.streaming(side.weights, depth, chosen, along="elements") as weights,
                    ):
                        problem.arithmetic.add_product(result.values, column.values, weights.values)
                fast.store(result, into)


def update_weights(
    problem: WeightProblem, side: Side, factor: SlowArray, tile: tuple[int, int], fast: FastMemory
) -> None:
    """dX = scale A1^T G or dY^T = dO^T E."""
    d, n = problem.width, problem.pattern.rows
    p, c = min(tile[0], d), min(tile[1], d)
    with (
        fast.scratch(side.gradient.name, p, c) as gradient_buffer,
        fast.buffer(side.rows.name, 1, p) as part_buffer,
        fast.scratch(factor.name, 1, 1),
    ):
        for chosen in cuts(d, p):
            for columns in cuts(d, c):
                gradient = gradient_buffer.zeros(chosen, columns)
                with part_buffer.streaming(side.rows, span(n), chosen, along="rows") as rows:
                    right = passing(fast, factor, span(n), columns)
                    problem.arithmetic.add_product(gradient.values, rows.values.T, right.values, side.factor)
                fast.store(gradient, side.gradient, element=problem.element)
