"""D = dO . O of rows that come back: made at the first visit of a row, loaded at the others."""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.backward.key_visits import load_partial
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import stream_delta
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import as_array


class StoredDelta:
    """D of the rows of a problem between two visits, in slow memory."""

    def __init__(self, problem: BackwardProblem) -> None:
        self._problem = problem
        self._stored = problem.spilled("D", problem.group * problem.pattern.rows, 1)

    def resume(self, fast: FastMemory, D_i: Tile, dO_i: Tile, O_element: Buffer, visited: NDArray[np.bool_]) -> None:
        """Load D of the rows that were visited before; make it for the others, and store it."""
        load_partial(fast, self._stored, D_i, np.flatnonzero(visited))
        fresh = np.flatnonzero(~visited)
        if len(fresh):
            stream_delta(fast, self._problem, D_i, dO_i, O_element, fresh)
            fast.store(D_i, self._stored, as_array(D_i.rows)[fresh], at=fresh)
