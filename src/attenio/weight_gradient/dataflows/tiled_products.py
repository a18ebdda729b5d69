"""Tiled products for small fast memories: scores and their gradients travel, every product is tiled alone.

Q = A1 X, B = dO Y^T with resident tiles of them (see ``products``)
for each tile i of score_rows rows:  max, sum = -inf, 0
    for each run j of score_keys keys it needs:
        S = 0;  for each depth t:  load a column of Q_i;  for each key load one element of A2_j;  add their products
        max and sum take in S;  store the required scores
    store max, sum
for each tile i of output_rows rows:  load max, sum
    for each tile c of output_columns columns:  E_ic = 0
        for each key that the rows need:  load its required scores, P = exp(S - max) / sum
            for each column load one element of A3;  add their products
        store E_ic
for each tile i of gradient_rows rows:  load max, sum;  B_i and E_i stream past, D_i = B_i . E_i
    for each run j of gradient_keys keys it needs:
        dP from B_i and A3_j as S above
        for each required score:  load S;  store dS = P (dP - D_i)
for each tile i of query_rows rows, each tile c of query_columns columns:  G_ic = 0
    for each key that the rows need:  load its required dS;  for each column load one element of A2
    store G_ic
dX = scale A1^T G, dY = E^T dO with resident tiles of them
"""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.online_softmax import ONE
from attenio.dataflows.problem import key_runs, visible
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices, compact, cuts, singles, size
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.problem import WeightProblem, passing
from attenio.weight_gradient.dataflows.products import project_in_tiles, update_weights
from attenio.weight_gradient.dataflows.scores import probabilities, stream_delta, turn_into_gradient

Arrays = tuple[SlowArray, ...]
Cells = NDArray[np.bool_] | None


def tiled_products(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient."""
    n, m, d = problem.pattern.rows, problem.pattern.keys, problem.width
    Q, B, G, E = (problem.spilled(name, n, d) for name in ("Q", "B", "G", "E"))
    S, dS = problem.spilled("S", n, m), problem.spilled("dS", n, m)
    statistics = problem.spilled("max", n, 1), problem.spilled("sum", n, 1)
    for side, projection in ((problem.queries, Q), (problem.outputs, B)):
        project_in_tiles(problem, side, projection, (tiles["projection_rows"], tiles["projection_columns"]), fast)
    _scores(problem, (Q, S, *statistics), (min(tiles["score_rows"], n), min(tiles["score_keys"], m)), fast)
    _outputs(problem, (S, E, *statistics), (min(tiles["output_rows"], n), min(tiles["output_columns"], d)), fast)
    gradient = min(tiles["gradient_rows"], n), min(tiles["gradient_keys"], m)
    _score_gradients(problem, (B, E, S, dS, *statistics), gradient, fast)
    _query_gradients(problem, (dS, G), (min(tiles["query_rows"], n), min(tiles["query_columns"], d)), fast)
    for side, made in ((problem.queries, G), (problem.outputs, E)):
        update_weights(problem, side, made, (tiles["weight_rows"], tiles["weight_columns"]), fast)


def _scores(problem: WeightProblem, spilled: Arrays, tile: tuple[int, int], fast: FastMemory) -> None:
    (Q, S, largest_of, total_of), (a, b), arithmetic = spilled, tile, problem.arithmetic
    with (
        fast.scratch("max", a, 1) as max_buffer,
        fast.scratch("sum", a, 1) as sum_buffer,
        fast.scratch("S", a, b) as S_buffer,
        fast.scratch("Q", a, 1) as Q_column,
        fast.buffer("A2", 1, 1) as K_element,
    ):
        for rows in cuts(problem.pattern.rows, a):
            largest, total = max_buffer.filled(rows, ONE, -np.inf), sum_buffer.zeros(rows, ONE)
            for keys, hidden in key_runs(problem.pattern, rows, b):
                S_ij = S_buffer.zeros(rows, keys)
                for depth in singles(problem.width):
                    with (
                        Q_column.holding(Q, rows, depth) as Q_t,
                        K_element.streaming(problem.K, keys, depth, along="elements") as K_t,
                    ):
                        arithmetic.add_product(S_ij.values, Q_t.values, K_t.values.T, arithmetic.scale)
                _absorb(problem, S_ij, (largest, total), hidden)
                fast.store(S_ij, S, cells=visible(hidden))
            fast.store(largest, largest_of)
            fast.store(total, total_of)


def _absorb(problem: WeightProblem, S: Tile, statistics: tuple[Tile, Tile], hidden: Cells) -> None:
    """Maximum and sum of each row take in a tile of scores; a row that has seen none keeps -inf and 0."""
    if hidden is not None:
        S.values[hidden] = -np.inf
    largest, total = (statistic.values for statistic in statistics)
    raised = np.maximum(largest, S.values.max(axis=1, keepdims=True))
    shift = np.where(np.isneginf(raised), np.float32(0), raised)
    total *= np.exp(largest - shift)
    total += np.exp(S.values - shift).sum(axis=1, keepdims=True)
    problem.arithmetic.keep(total)
    largest[...] = raised


def _outputs(problem: WeightProblem, spilled: Arrays, tile: tuple[int, int], fast: FastMemory) -> None:
    (S, E, largest_of, total_of), (p, c) = spilled, tile
    with (
        fast.scratch("max", p, 1) as max_buffer,
        fast.scratch("sum", p, 1) as sum_buffer,
        fast.scratch("E", p, c) as E_buffer,
        fast.scratch("S", p, 1),
        fast.buffer("A3", 1, 1) as V_element,
    ):
        for rows in cuts(problem.pattern.rows, p):
            keys, cells = _needed(problem, rows)
            with (
                max_buffer.holding(largest_of, rows) as largest,
                sum_buffer.holding(total_of, rows) as total,
            ):
                for columns in cuts(problem.width, c):
                    E_ic = E_buffer.zeros(rows, columns)
                    P = probabilities(problem, _required(fast, S, rows, keys, cells), (largest, total), ~cells)
                    with V_element.streaming(problem.V, keys, columns, along="elements") as V:
                        problem.arithmetic.add_product(E_ic.values, P.values, V.values)
                    fast.store(E_ic, E)


def _score_gradients(problem: WeightProblem, spilled: Arrays, tile: tuple[int, int], fast: FastMemory) -> None:
    (B, E, S, dS, largest_of, total_of), (a, b) = spilled, tile
    with (
        fast.scratch("max", a, 1) as max_buffer,
        fast.scratch("sum", a, 1) as sum_buffer,
        fast.scratch("D", a, 1) as D_buffer,
    ):
        for rows in cuts(problem.pattern.rows, a):
            with (
                max_buffer.holding(largest_of, rows) as largest,
                sum_buffer.holding(total_of, rows) as total,
            ):
                D_i = D_buffer.zeros(rows, ONE)
                with fast.scratch("B", 1, 1), fast.scratch("E", 1, 1):
                    stream_delta(fast, problem, D_i, passing(fast, B, rows, B.columns), E)
                with (
                    fast.scratch("dP", a, b) as dP_buffer,
                    fast.scratch("B", a, 1) as B_column,
                    fast.buffer("A3", 1, 1) as V_element,
                    fast.scratch("S", 1, 1),
                ):
                    for keys, hidden in key_runs(problem.pattern, rows, b):
                        dP = dP_buffer.zeros(rows, keys)
                        for depth in singles(problem.width):
                            with (
                                B_column.holding(B, rows, depth) as B_t,
                                V_element.streaming(problem.V, keys, depth, along="elements") as V_t,
                            ):
                                problem.arithmetic.add_product(dP.values, B_t.values, V_t.values.T)
                        scores = _required(fast, S, rows, keys, visible(hidden))
                        P = probabilities(problem, scores, (largest, total), hidden)
                        dS_tile = turn_into_gradient(problem, P, dP.values, D_i)
                        fast.store(dS_tile, dS, cells=visible(hidden))


def _query_gradients(problem: WeightProblem, spilled: Arrays, tile: tuple[int, int], fast: FastMemory) -> None:
    (dS, G), (p, c) = spilled, tile
    with fast.scratch("G", p, c) as G_buffer, fast.scratch("dS", p, 1), fast.buffer("A2", 1, 1) as K_element:
        for rows in cuts(problem.pattern.rows, p):
            keys, cells = _needed(problem, rows)
            for columns in cuts(problem.width, c):
                G_ic = G_buffer.zeros(rows, columns)
                gradients = _required(fast, dS, rows, keys, cells)
                gradients.values[~cells] = 0
                with K_element.streaming(problem.K, keys, columns, along="elements") as K:
                    problem.arithmetic.add_product(G_ic.values, gradients.values, K.values)
                fast.store(G_ic, G)


def _needed(problem: WeightProblem, rows: slice) -> tuple[Indices, NDArray[np.bool_]]:
    """The keys that the rows need, and which of the scores are required."""
    keys = problem.pattern.needed_keys(rows.start, rows.stop)
    return compact(keys), problem.pattern.required(rows.start, rows.stop, keys)


def _required(fast: FastMemory, source: SlowArray, rows: Indices, keys: Indices, cells: Cells) -> Tile:
    """Spilled scores as they pass through fast memory; -inf where they are not required."""
    tile = Tile(source.name, np.empty((size(rows), size(keys)), dtype=np.float32), rows, keys, source.words_each)
    fast.load(source, tile, cells=cells)
    return tile
