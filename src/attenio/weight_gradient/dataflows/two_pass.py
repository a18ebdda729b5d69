"""Two passes over stored projections: no sum is kept that the other pass does not need.

Q = A1 X, B = dO Y^T with resident weights (see ``products``)
for each tile i of query_tile rows:
    load Q_i;  E_i, max, sum = 0, -inf, 0
    for each run j of key_tile keys that the tile needs:
        load A2_j;  S = scale Q_i A2_j^T;  P, max, sum, rescale = online softmax of S
        load A3_j over A2_j;  E_i = rescale E_i + P A3_j
    store E_i / sum, max, sum
for each tile i of gradient_rows rows:
    load Q_i, B_i, max, sum;  E_i streams past, D_i = B_i . E_i;  G_i = 0
    for each run j of gradient_keys keys that the tile needs:
        load A2_j, A3_j;  P = exp(scale Q_i A2_j^T - max) / sum
        for each key: dP = B_i A3_j^T;  dS = P (dP - D_i) in the place of P
        G_i += dS A2_j
    store G_i
dX = scale A1^T G, dY = E^T dO with resident tiles of them
"""

import numpy as np

from attenio.dataflows.online_softmax import ONE, OnlineSoftmax, add_scores, normalise
from attenio.dataflows.problem import key_runs
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import cuts
from attenio.planning.plan import Tiles
from attenio.weight_gradient.dataflows.problem import WeightProblem
from attenio.weight_gradient.dataflows.products import project, update_weights
from attenio.weight_gradient.dataflows.scores import probabilities, stream_delta, turn_into_gradient

Statistics = tuple[SlowArray, SlowArray]


def two_pass(problem: WeightProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one weight gradient."""
    n, m, d = problem.pattern.rows, problem.pattern.keys, problem.width
    Q, B, G, E = (problem.spilled(name, n, d) for name in ("Q", "B", "G", "E"))
    statistics = problem.spilled("max", n, 1), problem.spilled("sum", n, 1)
    project(problem, problem.queries, Q, tiles["projection_columns"], fast)
    project(problem, problem.outputs, B, tiles["projection_columns"], fast)
    _forward(problem, (Q, E), statistics, (min(tiles["query_tile"], n), min(tiles["key_tile"], m)), fast)
    gradient = min(tiles["gradient_rows"], n), min(tiles["gradient_keys"], m)
    _gradient(problem, (Q, B, E, G), statistics, gradient, fast)
    weights = tiles["weight_rows"], tiles["weight_columns"]
    update_weights(problem, problem.queries, G, weights, fast)
    update_weights(problem, problem.outputs, E, weights, fast)


def _forward(
    problem: WeightProblem,
    spilled: tuple[SlowArray, SlowArray],
    statistics: Statistics,
    tile: tuple[int, int],
    fast: FastMemory,
) -> None:
    (Q, E), (a, b), d, arithmetic = spilled, tile, problem.width, problem.arithmetic
    with (
        fast.scratch("Q", a, d) as Q_buffer,
        fast.scratch("E", a, d) as E_buffer,
        OnlineSoftmax(fast, arithmetic, a) as softmax,
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("A2 or A3", b, d) as key_buffer,
    ):
        for rows in cuts(problem.pattern.rows, a):
            softmax.begin(rows)
            E_i = E_buffer.zeros(rows, E.columns)
            with Q_buffer.holding(Q, rows) as Q_i:
                for keys, hidden in key_runs(problem.pattern, rows, b):
                    S = S_buffer.zeros(rows, keys)
                    with key_buffer.holding(problem.K, keys) as K_j:
                        add_scores(fast, arithmetic, S, Q_i, K_j)
                    P = softmax.absorb(S, hidden)
                    with key_buffer.holding(problem.V, keys) as V_j:
                        softmax.accumulate(E_i, P, V_j)
            normalise(fast, arithmetic, E_i, softmax.sum)
            fast.store(E_i, E)
            fast.store(softmax.max, statistics[0])
            fast.store(softmax.sum, statistics[1])


def _gradient(
    problem: WeightProblem,
    spilled: tuple[SlowArray, SlowArray, SlowArray, SlowArray],
    statistics: Statistics,
    tile: tuple[int, int],
    fast: FastMemory,
) -> None:
    (Q, B, E, G), (p, c), d, arithmetic = spilled, tile, problem.width, problem.arithmetic
    with (
        fast.scratch("Q", p, d) as Q_buffer,
        fast.scratch("B", p, d) as B_buffer,
        fast.scratch("G", p, d) as G_buffer,
        fast.scratch("max", p, 1) as max_buffer,
        fast.scratch("sum", p, 1) as sum_buffer,
        fast.scratch("D", p, 1) as D_buffer,
    ):
        for rows in cuts(problem.pattern.rows, p):
            with (
                Q_buffer.holding(Q, rows) as Q_i,
                B_buffer.holding(B, rows) as B_i,
                max_buffer.holding(statistics[0], rows) as largest,
                sum_buffer.holding(statistics[1], rows) as total,
            ):
                G_i, D_i = G_buffer.zeros(rows, G.columns), D_buffer.zeros(rows, ONE)
                with fast.scratch("E", 1, 1):
                    stream_delta(fast, problem, D_i, B_i, E)
                with (
                    fast.scratch("S", p, c) as S_buffer,
                    fast.scratch("dP", p, 1),
                    fast.buffer("A2", c, d) as K_buffer,
                    fast.buffer("A3", c, d) as V_buffer,
                ):
                    for keys, hidden in key_runs(problem.pattern, rows, c):
                        S = S_buffer.zeros(rows, keys)
                        with K_buffer.holding(problem.K, keys) as K_j, V_buffer.holding(problem.V, keys) as V_j:
                            add_scores(fast, arithmetic, S, Q_i, K_j)
                            P = probabilities(problem, S, (largest, total), hidden)
                            dP = np.zeros_like(P.values)
                            arithmetic.add_product(dP, B_i.values, V_j.values.T)
                            dS = turn_into_gradient(problem, P, dP, D_i)
                            arithmetic.add_product(G_i.values, dS.values, K_j.values)
                fast.store(G_i, G)
