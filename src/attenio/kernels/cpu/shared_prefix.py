"""Shared prefix: the rows of all requests are stacked under one another, so that the prefix is read once for all.

for each KV head, each tile i of requests:
    stack the rows of the requests of i;  (O, max, sum) over the prefix keys, by AttenIO's order
for each request: (O, max, sum) over its own keys
merge the two, row by row
"""

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Part
from attenio.kernels.cpu.attenio import attenio
from attenio.kernels.cpu.compiled_rows import can_compile, compiled_rows
from attenio.kernels.cpu.few_rows import MOST_ROWS
from attenio.kernels.cpu.fused import can_fuse_rows, fused_rows
from attenio.kernels.cpu.online_softmax import MOST_SCORE, Sums, are_short
from attenio.kernels.cpu.tiles import Keys, cuts


class SharedPrefix:
    """The prefix as all stacked rows meet it, by the kernel that is quickest for so many rows."""

    def __init__(self, together: KernelProblem, key_tile: int) -> None:
        self._together = together
        # More rows than the compiled kernel takes at once the fused one meets as fast, where it can.
        fuses = can_fuse_rows(together)
        self._compiles = can_compile(together, together.keys, in_tiles=not fuses)
        self._fuses = fuses and not self._compiles
        measures = not (self._compiles or self._fuses)
        self._subtracts = not (measures and are_short(together.query, together.key, together.scale))
        where = [(slice(0, 1), slice(h, h + 1)) for h in range(together.kv_heads)]
        self._keys = [Keys(together, unit, key_tile) for unit in where]

    def positions(self, most: int, threads: int) -> list[slice]:
        """Tiles of stacked positions, ``most`` of them or fewer, of equal size: no thread waits for a larger one."""
        together = self._together
        if self._compiles:
            most = min(most, MOST_ROWS // together.group)
        count = -(-together.queries // most)
        turns = -(-count * together.kv_heads // threads)
        if turns > 1:  # as many tiles as threads take in as many turns
            count = max(count, turns * threads // together.kv_heads)
        return cuts(together.queries, -(-together.queries // count))

    def sums(self, part: Part) -> Sums:
        """The sums of a tile of stacked positions over some keys of the prefix."""
        if self._compiles:
            return compiled_rows(self._together, part)
        if self._fuses:
            found = fused_rows(self._together, part)
            if float(found.largest.abs().max()) <= MOST_SCORE:  # its log-sum-exp would lose a sum next to large scores
                return found
        return attenio(self._together, part, self._keys[part.heads.start], subtracts=self._subtracts)
