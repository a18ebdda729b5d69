"""Sinks of a KV head's query heads, and the sums of their gradients, which stay while its sequences pass.

for each KV head:
    load its sinks;  sums = 0
    for each sequence: the dataflow's own loops; where D_i is made, sums -= exp(sink - L_i) D_i of its rows
    store the sums
"""

from dataclasses import replace

import numpy as np

from attenio.dataflows.backward.problem import BackwardProblem, BackwardSharing
from attenio.memory import FastMemory, SlowArray, Tile

_ONE = slice(0, 1)


class StandingSinks:
    """What stands of the KV head whose turn it is; the last one's gradients are stored by ``done``.

    ``gradients``: those that are stored, one a query head.
    """

    def __init__(self, shared: BackwardSharing, fast: FastMemory) -> None:
        self._shared, self._fast = shared, fast
        self.gradients = np.full(shared.workload.heads, np.nan, dtype=np.float32)
        self._first_head = -1
        self._sinks, self._sums = (np.zeros((0, 1), dtype=np.float32) for _ in range(2))

    def beside(self, problem: BackwardProblem) -> BackwardProblem:
        """The problem with what stands beside it: its KV head takes its turn if it has not had it."""
        if self._shared.sinks is None:
            return problem
        if problem.first_head != self._first_head:
            self.done()
            self._turn_to(problem.first_head)
        sinks = np.repeat(self._sinks, len(problem.Q.values) // len(self._sinks), axis=0)
        return replace(problem, sinks=sinks, d_sinks=self._sums)

    def done(self) -> None:
        """Store the gradients of the sinks that stand, and leave their room."""
        if self._first_head < 0:
            return
        workload, rows, group = self._shared.workload, self._rows, self._shared.workload.group
        target = SlowArray.unwritten("d sinks", (group, 1), workload.dtype)
        self._fast.store(Tile("d sinks", self._sums, rows, _ONE, workload.accumulator_words), target)
        self.gradients[self._first_head : self._first_head + group] = target.values[:, 0]
        for name, words in self._room.items():
            self._fast.release(name, words)
        self._first_head = -1

    @property
    def _rows(self) -> slice:
        return slice(0, self._shared.workload.group)

    @property
    def _room(self) -> dict[str, int]:
        group = self._shared.workload.group
        return {"sinks": group, "d sinks": group * self._shared.workload.accumulator_words}

    def _turn_to(self, first_head: int) -> None:
        shared, rows, group = self._shared, self._rows, self._shared.workload.group
        assert shared.sinks is not None
        self._first_head, self._fast.trace.problem = first_head, f"heads from {first_head}"
        for name, words in self._room.items():
            self._fast.reserve(name, words)
        source = SlowArray("sinks", shared.sinks[first_head : first_head + group, None], rows, _ONE, 1)
        held = Tile("sinks", np.full((group, 1), np.nan, dtype=np.float32), rows, _ONE, 1)
        self._fast.load(source, held)
        self._sinks, self._sums = held.values, np.zeros((group, 1), dtype=np.float32)
