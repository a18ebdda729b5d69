"""Shared prefix: the rows of all requests are stacked under one another, so that the prefix is read once for all.

for each KV head, each tile i of requests:
    stack the rows of the requests of i;  (O, max, sum) over the prefix keys, by AttenIO's order
for each request: (O, max, sum) over its own keys
merge the two, row by row
"""

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Part
from attenio.kernels.cpu.attenio import attenio
from attenio.kernels.cpu.compiled_rows import compiled_rows
from attenio.kernels.cpu.fused import fused_rows
from attenio.kernels.cpu.online_softmax import MOST_SCORE, Sums
from attenio.kernels.cpu.tiles import Keys


class SharedPrefix:
    """The prefix as all stacked rows meet it, by the nest that was chosen."""

    def __init__(self, together: KernelProblem, choice: Choice) -> None:
        self._together, self._name, self._subtracts = together, choice.name, choice.kernel.subtracts
        where = [(slice(0, 1), slice(h, h + 1)) for h in range(together.kv_heads)]
        self._keys = [Keys(together, unit, choice.kernel.key_tile) for unit in where]

    def sums(self, part: Part) -> Sums:
        """The sums of a tile of stacked positions over some keys of the prefix."""
        if self._name == "compiled_rows":
            return compiled_rows(self._together, part)
        if self._name == "fused_rows":
            found = fused_rows(self._together, part)
            if float(found.largest.abs().max()) <= MOST_SCORE:  # its log-sum-exp would lose a sum next to large scores
                return found
        return attenio(self._together, part, self._keys[part.heads.start], subtracts=self._subtracts)
