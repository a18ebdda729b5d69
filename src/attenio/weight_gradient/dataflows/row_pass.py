"""A tile of rows and one pass over the keys it needs: the heart of the one-pass dataflows.

    W1, W2, E = 0;  max, sum = -inf, 0
    for each run j of key_tile keys that the rows need:
        load A2_j and A3_j;  S = scale Q A2_j^T
        P, max, sum, rescale = online softmax of S
        E = rescale E + P A3_j;  W2 = rescale W2 + P A2_j
        for each key: dP = B A3_j^T;  P dP takes the place of P
        W1 = rescale W1 + (P dP) A2_j
    E, W1, W2 /= sum;  D = B . E
    G = W1 - D W2, in the place of W1

As dS = P (dP - D) is linear in D, which is known only in the end, its two parts are summed side by side.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.online_softmax import OnlineSoftmax, add_scores
from attenio.dataflows.problem import key_runs
from attenio.dataflows.residency import Residency
from attenio.memory import Buffer, FastMemory, Tile
from attenio.weight_gradient.dataflows.problem import WeightProblem

Hidden = NDArray[np.bool_] | None


class RowPass(Residency):
    """Projections, sums and statistics of up to ``rows`` rows, resident for the length of a ``with`` block."""

    def __init__(self, problem: WeightProblem, fast: FastMemory, tile: tuple[int, int]) -> None:
        self._problem, self._fast = problem, fast
        self._tile = min(tile[0], problem.pattern.rows), min(tile[1], problem.pattern.keys)
        self._buffers = [fast.scratch(name, self._tile[0], problem.width) for name in ("Q", "B", "W1", "W2", "E")]
        self._softmax = OnlineSoftmax(fast, problem.arithmetic, self._tile[0])
        super().__init__(*self._buffers, self._softmax)

    def begin(self, rows: slice) -> None:
        """Turn to a tile of rows: projections and sums are zero."""
        self.rows = rows
        self.Q, self.B, self.G, self._W2, self.E = (b.zeros(rows, self._problem.K.columns) for b in self._buffers)
        self._softmax.begin(rows)

    def sweep(self) -> None:
        """Pass over the keys as they are loaded run by run; G and E are complete then."""
        problem, fast, (a, b) = self._problem, self._fast, self._tile
        with (
            fast.scratch("S", a, b) as S_buffer,
            fast.scratch("dP", a, 1),
            fast.buffer("A2", b, problem.width) as K_buffer,
            fast.buffer("A3", b, problem.width) as V_buffer,
        ):
            for keys, hidden in key_runs(problem.pattern, self.rows, b):
                with K_buffer.holding(problem.K, keys) as K_j, V_buffer.holding(problem.V, keys) as V_j:
                    self._absorb(S_buffer, hidden, K_j, V_j)
        self._finish()

    def sweep_held(self, K: Tile, V: Tile) -> None:
        """The same over keys that are all in fast memory."""
        with self._fast.scratch("S", *self._tile) as S_buffer, self._fast.scratch("dP", self._tile[0], 1):
            for keys, hidden in key_runs(self._problem.pattern, self.rows, self._tile[1]):
                K_j, V_j = (Tile(held.name, held.values[keys], keys, held.columns) for held in (K, V))
                self._absorb(S_buffer, hidden, K_j, V_j)
        self._finish()

    def _absorb(self, S_buffer: Buffer, hidden: Hidden, K_j: Tile, V_j: Tile) -> None:
        arithmetic = self._problem.arithmetic
        S = S_buffer.zeros(self.rows, K_j.rows)
        add_scores(self._fast, arithmetic, S, self.Q, K_j)
        P = self._softmax.absorb(S, hidden)
        self._take(self.E, P, V_j)
        self._take(self._W2, P, K_j)
        dP = np.zeros_like(P.values)
        arithmetic.add_product(dP, self.B.values, V_j.values.T)
        P.values *= dP
        arithmetic.keep(P.values)
        self._take(self.G, P, K_j)

    def _take(self, total: Tile, P: Tile, right: Tile) -> None:
        total.values *= self._softmax.rescale.values
        self._problem.arithmetic.add_product(total.values, P.values, right.values)

    def _finish(self) -> None:
        keep = self._problem.arithmetic.keep
        for total in (self.E, self._W2, self.G):
            total.values /= self._softmax.sum.values
            keep(total.values)
        D = self._softmax.rescale.values  # its words are free by now
        D[...] = (self.B.values * self.E.values).sum(axis=1, keepdims=True)
        keep(D)
        self.G.values -= D * self._W2.values
        keep(self.G.values)
