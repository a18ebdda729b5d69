"""Fused values with held scores: where values are wide, a tile of score gradients stays while columns of values pass.

    for each row that needs a key:  dO and O stream past;  store D = dO . O
    for each head, each tile i of query_tile rows that needs any key:  load Q_i, L_i, D_i;  dQ_i = 0
        for each run j of key_tile keys it needs:
            dP = 0
            for each value column:
                load the column of dO_i;  for each key:  load an element of V_j, add to dP
            for each key:  load k
                for each row:  p = exp(scale q . k - L);  dS = p (dP - D), in the place of dP;  dq += scale dS k
            for each depth t:  for each key:  load its partial dK (0 at first), add scale dS^T q[t], store it
        store dQ_i
    dV a group of value_columns columns at a time (see ``values_apart``)

Queries are narrow beside values: they stay beside the tile with dQ, and probabilities are made anew where they are
used. D is that of rows that need a key.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.backward.key_visits import KeyVisits, load_partial, store_gradient
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import (
    add_key_gradient,
    add_query_gradient,
    add_value_scores,
    exponentiate_with,
    score_gradient,
)
from attenio.dataflows.backward.tiled_products import deltas
from attenio.dataflows.backward.values_apart import value_gradients
from attenio.dataflows.backward.zeros import store_key_zeros, store_zeros
from attenio.dataflows.key_tiles import visits_of
from attenio.dataflows.online_softmax import ONE, make_scores
from attenio.dataflows.problem import Hidden, key_runs
from attenio.memory import Buffer, FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices, as_array, singles, size
from attenio.planning.plan import Tiles

# Q, L and D of a tile of rows, and its dQ.
_Rows = tuple[Tile, Tile, Tile, Tile]


def held_scores(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    pattern = problem.pattern
    D = problem.spilled("D", problem.group * pattern.rows, 1)
    deltas(problem, D, fast)
    tile = min(tiles["query_tile"], pattern.rows), min(tiles["key_tile"], pattern.keys)
    store_zeros(fast, problem.dQ, _ScoreTiles(problem, fast, tile).run(D))
    value_gradients(problem, tiles, fast)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)


class _ScoreTiles:
    """dQ and dK from tiles of scores."""

    def __init__(self, problem: BackwardProblem, fast: FastMemory, tile: tuple[int, int]) -> None:
        self._problem, self._fast, self._tile = problem, fast, tile
        self._visits = KeyVisits(problem, tile[0])
        self._partial = problem.spilled("partial dK", problem.pattern.keys, problem.depth)
        self._needing = visits_of(problem.pattern, problem.pattern.keys)[:, 0].astype(np.bool_)

    def run(self, delta: SlowArray) -> NDArray[np.bool_]:
        """Tile after tile; the rows whose dQ has been stored."""
        problem, fast, (a, b) = self._problem, self._fast, self._tile
        written = np.zeros(len(problem.Q.values), dtype=np.bool_)
        with (
            fast.buffer("Q", a, problem.depth) as Q_buffer,
            fast.scratch("dQ", a, problem.depth) as dQ_buffer,
            fast.scratch("L", a, 1) as L_buffer,
            fast.scratch("D", a, 1) as D_buffer,
            fast.buffer("K", 1, problem.depth) as K_buffer,
            fast.scratch("dP", a, b) as dP_buffer,
            fast.scratch("P", 1, 1),
            fast.buffer("dO", a, 1) as column_buffer,
            fast.buffer("V", 1, 1) as element_buffer,
            fast.scratch("dK", 1, 1),
        ):
            for heads in problem.head_tiles(1):
                for positions in problem.query_tiles(a):
                    needed = problem.pattern.needed_keys(positions.start, positions.stop)
                    if len(needed) == 0:
                        continue
                    rows = problem.rows_of(heads, positions)
                    dQ = dQ_buffer.zeros(rows, problem.K.columns)
                    with (
                        Q_buffer.holding(problem.Q, rows) as Q,
                        L_buffer.holding(problem.L, rows) as L,
                    ):
                        D = D_buffer.zeros(rows, ONE)
                        load_partial(fast, delta, D, np.flatnonzero(self._needing[positions]))
                        for keys, hidden in key_runs(problem.pattern, positions, b, needed):
                            dP = dP_buffer.zeros(rows, keys)
                            self._make_value_scores(dP, column_buffer, element_buffer)
                            with K_buffer.streaming(problem.K, keys, along="rows") as K:
                                dS = self._make_score_gradients((Q, L, D, dQ), K, dP, hidden)
                            self._give_to_keys(Q, dS)
                        fast.store(dQ, problem.dQ)
                    written[rows] = True
        return written

    def _make_value_scores(self, dP: Tile, column_buffer: Buffer, element_buffer: Buffer) -> None:
        """Column by column of dO and V."""
        problem, fast = self._problem, self._fast
        for column in singles(problem.width):
            with (
                column_buffer.holding(problem.dO, dP.rows, column) as dO_c,
                element_buffer.streaming(problem.V, dP.columns, column, along="rows") as V_c,
            ):
                add_value_scores(fast, problem.arithmetic, dP, dO_c, V_c)

    def _make_score_gradients(self, rows: _Rows, K: Tile, dP: Tile, hidden: Hidden) -> Tile:
        """Gradients of scores, one in hand at a time, and what they give to dQ."""
        (Q, L, D, dQ), fast, arithmetic = rows, self._fast, self._problem.arithmetic
        S = Tile("P", np.zeros_like(dP.values), Q.rows, K.rows)
        make_scores(fast, arithmetic, S, Q, K)
        P = exponentiate_with(fast, arithmetic, S, L, hidden)
        dS = score_gradient(fast, arithmetic, P, dP, (D, L))
        add_query_gradient(fast, arithmetic, dQ, dS, K)
        return dS

    def _give_to_keys(self, Q: Tile, dS: Tile) -> None:
        """What gradients of scores give to dK."""
        again, done = self._visits.turn(as_array(dS.columns))
        for column in singles(self._problem.depth):
            dK = self._zeros(dS.columns, column)
            load_partial(self._fast, self._partial, dK, again)
            Q_c = Tile("Q", Q.values[:, column], Q.rows, column)
            add_key_gradient(self._fast, self._problem.arithmetic, dK, dS, Q_c)
            store_gradient(self._fast, dK, (self._partial, self._problem.dK), done)

    def _zeros(self, keys: Indices, column: slice) -> Tile:
        """A column of dK for these keys, as its elements pass through one word."""
        values = np.zeros((size(keys), 1), dtype=np.float32)
        return Tile("dK", values, keys, column, self._partial.words_each)
