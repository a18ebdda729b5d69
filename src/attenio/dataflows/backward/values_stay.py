"""Probabilities of whole rows, and from these dS and dV together, while values stay and elements of dO pass.

The steps of ``tiled_products`` with stationary_keys and passing_queries; its docstring has them. A row of dO is met by
its values and by its probabilities at once, so that nothing reads a probability a second time.
"""

from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.spilled_scores import live_tiles, loaded, store_required
from attenio.dataflows.backward.steps import (
    add_value_gradient,
    add_value_scores,
    exponentiate_with,
    score_gradient,
)
from attenio.dataflows.backward.zeros import store_key_zeros
from attenio.dataflows.key_tiles import KeyTiles, required_scores, row_tiles
from attenio.dataflows.online_softmax import make_scores
from attenio.dataflows.problem import key_runs, visible
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import compact

Tile = tuple[int, int]


def values_stay(
    problem: BackwardProblem,
    spilled: tuple[SlowArray, SlowArray, SlowArray],
    tiles: tuple[Tile, Tile],
    fast: FastMemory,
) -> None:
    """Spill P and dS, which D is given for, and store dV; tiles are of rows and keys, one for each of both steps."""
    D, P, dS = spilled
    (a, b), (r, c) = ((min(rows, problem.pattern.rows), min(keys, problem.pattern.keys)) for rows, keys in tiles)
    _probabilities(problem, P, (a, b), fast)
    _score_and_value_gradients(problem, (D, P, dS), (r, c), fast)


def _probabilities(problem: BackwardProblem, P: SlowArray, tile: Tile, fast: FastMemory) -> None:
    a, b = tile
    with (
        fast.scratch("L", a, 1) as L_buffer,
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("Q", a, problem.depth) as Q_buffer,
        fast.buffer("K", 1, 1) as K_element,
    ):
        for rows, positions in live_tiles(problem, a):
            with L_buffer.holding(problem.L, rows) as L_i, Q_buffer.holding(problem.Q, rows) as Q_i:
                for keys, hidden in key_runs(problem.pattern, positions, b):
                    S = S_buffer.zeros(rows, keys)
                    with K_element.streaming(problem.K, keys, along="elements") as K_j:
                        make_scores(fast, problem.arithmetic, S, Q_i, K_j)
                    exponentiate_with(fast, problem.arithmetic, S, L_i, hidden)
                    fast.store(S, P, cells=visible(hidden))


def _score_and_value_gradients(
    problem: BackwardProblem, spilled: tuple[SlowArray, SlowArray, SlowArray], tile: Tile, fast: FastMemory
) -> None:
    (D, P, dS), (r, c), arithmetic = spilled, tile, problem.arithmetic
    with (
        fast.buffer("V", c, problem.width) as V_buffer,
        fast.scratch("dV", c, problem.width) as dV_buffer,
        fast.scratch("P", r, c),
        fast.scratch("dP", r, c) as dP_buffer,
        fast.scratch("D", r, 1) as D_buffer,
        fast.buffer("dO", 1, 1) as dO_element,
    ):
        for j in KeyTiles(problem, c):
            touched = compact(j.keys)
            dV_j = dV_buffer.zeros(touched, problem.V.columns)
            with V_buffer.holding(problem.V, touched) as V_j:
                for rows, positions in row_tiles(problem, j.positions, r):
                    required = required_scores(problem.pattern, positions, j.keys)
                    dP = dP_buffer.zeros(rows, touched)
                    with D_buffer.holding(D, rows) as D_i:
                        P_ij = loaded(fast, P, rows, touched, required)
                        with dO_element.streaming(problem.dO, rows, along="elements") as dO_i:
                            add_value_scores(fast, arithmetic, dP, dO_i, V_j)
                            add_value_gradient(fast, arithmetic, dV_j, P_ij, dO_i)
                        gradient = score_gradient(fast, arithmetic, P_ij, dP, (D_i, None))
                        store_required(fast, gradient, dS, j.span, required)
            fast.store(dV_j, problem.dV)
    store_key_zeros(fast, problem.pattern, problem.dV)
