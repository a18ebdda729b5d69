"""What the warps of a block share besides memory: barriers in it, and named ones."""

import numpy as np
from tests.kernels.hopper.ptx.shared import FIRST, Fault, Shared

__all__ = ["Block", "MemoryBarrier"]

# Agents of a block: warps, products of warps, copies that warps begun, and barriers of what is loaded.
MOST_BARRIERS = 96


class MemoryBarrier:
    """An mbarrier: ``completed`` phases, and what those knew who arrived in each."""

    def __init__(self, count, agent, agents):
        self.count, self.agent, self._agents = count, agent, agents
        self.pending, self.bytes, self.completed = count, 0, 0
        self.is_fenced = False
        self._known = np.zeros(agents, "i4")
        self.released = {}

    def arrive(self, clock, arrivals, expected=0):
        """So many threads arrive, and expect so many bytes."""
        np.maximum(self._known, clock, out=self._known)
        self.pending -= arrivals
        self.bytes += expected
        if self.pending < 0:
            raise Fault(f"more threads arrive at a barrier than the {self.count} that it counts")
        self._flip()

    def loaded(self, clock, count):
        """So many bytes are there, maybe before they are expected: another block of a cluster may load them."""
        np.maximum(self._known, clock, out=self._known)
        self.bytes -= count
        if self.bytes <= -(2**20):
            raise Fault("more bytes come to a barrier than it counts")
        self._flip()

    def _flip(self):
        if self.pending == 0 and self.bytes == 0:
            self._known[self.agent] = self.completed + 1
            self.released[self.completed] = self._known
            self._known = np.zeros(self._agents, "i4")
            self.completed += 1
            self.pending = self.count


class _Named:
    def __init__(self, agents):
        self.arrived, self.turn, self.known = 0, 0, np.zeros(agents, "i4")
        self.released = {}


class Block:
    """Of a grid; the first agent of it is number ``base`` of all ``agents``."""

    def __init__(self, number, threads, shared_bytes, blocks, names):
        self.number, self.threads, self.warps = number, threads, threads // 32
        of_block = 3 * self.warps + MOST_BARRIERS
        self.agents, self.base = blocks * of_block, number * of_block
        self.shared = Shared(shared_bytes, self.agents)
        self.barriers, self._named = {}, {}
        self._names = names

    def init_barrier(self, at, count):
        """An mbarrier at an address."""
        self.shared.check(at, at + 8, 8)
        if at in self.barriers:
            raise Fault(f"{self.name_of(at)} is initialised again")
        self.barriers[at] = MemoryBarrier(count, self.base + 3 * self.warps + len(self.barriers), self.agents)

    def barrier(self, at):
        """The mbarrier at an address."""
        if at not in self.barriers:
            raise Fault(f"there is no barrier at {at - FIRST}")
        return self.barriers[at]

    def name_of(self, at):
        """As the kernel's constants call it."""
        begun = [(place, name) for name, place in self._names.items() if name.endswith(("FULL", "FREE"))]
        place, name = max((each for each in begun if each[0] <= at - FIRST), default=(0, "shared"))
        return f"{name}[{(at - FIRST - place) // 8}]"

    def named(self, number):
        """A named barrier."""
        if number not in self._named:
            if not 0 <= number < 16:
                raise Fault(f"there is no barrier {number}")
            self._named[number] = _Named(self.agents)
        return self._named[number]

    def meet(self, number, count, clock):
        """A warp arrives at a named barrier; the turn that it is part of."""
        barrier = self.named(number)
        turn = barrier.turn
        np.maximum(barrier.known, clock, out=barrier.known)
        barrier.arrived += 32
        if barrier.arrived > count:
            raise Fault(f"more threads arrive at barrier {number} than {count}")
        if barrier.arrived == count:
            barrier.released[turn] = barrier.known
            barrier.arrived, barrier.turn, barrier.known = 0, turn + 1, np.zeros(self.agents, "i4")
        return turn
