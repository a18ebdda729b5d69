"""Blocks of a launch, interpreted: warps and what they begin run in an order that a seed gives."""

import numpy as np
from tests.kernels.hopper.ptx.blocks import Block
from tests.kernels.hopper.ptx.memory import GlobalMemory
from tests.kernels.hopper.ptx.program import program_of
from tests.kernels.hopper.ptx.shared import Fault
from tests.kernels.hopper.ptx.tasks import Order
from tests.kernels.hopper.ptx.warp import Warp

__all__ = ["Launch"]

# Shared memory of blocks of a cluster: which one an address is of, counted from 1, is above its own bits.
_BLOCK_BIT = 24


class Launch:
    """A kernel with its parameters: tensor maps by their place, and the bytes of all others."""

    def __init__(self, ptx, blocks, threads, shared_bytes, maps, parameters, *, seed, cluster=1):
        self.program, self.blocks, self.cluster = program_of(ptx), blocks, cluster
        self.maps, self.parameters = maps, parameters
        self.memory, self.writes, self.issued = GlobalMemory(), [], {}
        self._order = Order(seed)
        self.rng = self._order.random
        self._tasks, self._arrived = [], {}
        self._blocks = [
            Block(number, threads, shared_bytes, blocks, self.program.text.constants) for number in range(blocks)
        ]
        self._warps = [Warp(block, index, self) for block in self._blocks for index in range(block.warps)]

    def place(self, block, address):
        """The block that an address in shared memory is of, and where it is there."""
        rank, at = address >> _BLOCK_BIT, address & (1 << _BLOCK_BIT) - 1
        return (self._blocks[block.number // self.cluster * self.cluster + rank - 1] if rank else block), at

    @staticmethod
    def address(address, rank):
        """The same address in the block of a cluster with such a rank."""
        return address | (rank + np.uint32(1)) << np.uint32(_BLOCK_BIT)

    def arrive_cluster(self, block):
        """A warp arrives at the barrier of its cluster; the turn that it is part of."""
        number = block.number // self.cluster
        count = self._arrived[number] = self._arrived.get(number, 0) + 1
        return (count - 1) // (block.warps * self.cluster)

    def cluster_turn(self, block):
        """Turns of the barrier of a cluster that are complete."""
        return self._arrived.get(block.number // self.cluster, 0) // (block.warps * self.cluster)

    def begin(self, task):
        """Something asynchronous is begun."""
        task.priority = self.rng.random()
        self._tasks.append(task)

    def run(self):
        """Run all blocks to their ends."""
        with np.errstate(all="ignore"):
            warps = list(self._warps)
            while warps or self._tasks:
                ready = [each for each in warps if each.waits is None or each.waits()]
                chosen = self._order.next(ready, self._tasks)
                if chosen is None:
                    raise Fault("nothing can go on:\n" + "\n".join(map(_told, warps)))
                if isinstance(chosen, Warp):
                    self._step(chosen)
                    if chosen.is_done and chosen.waits is None:
                        warps.remove(chosen)
                        chosen.end_products()
                        chosen.end_copies()
                else:
                    self._tasks.remove(chosen)
                    chosen.run()

    def _step(self, warp):
        at = min((each[0] for each in warp.lanes), default=0)
        try:
            warp.step()
        except Fault as fault:
            said = [each.said for each in self.program.stretches[at].instructions[-3:]]
            raise Fault(f"{fault}\n{_told(warp)}, after {said}") from fault


def _told(warp):
    doing = f"waits for {warp.doing}" if warp.waits is not None else "runs"
    return f"warp {warp.index} of block {warp.block.number} {doing}"
