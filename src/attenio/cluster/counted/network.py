"""A network that counts every word from each rank to each other."""

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.grid import Grid
from attenio.cluster.loads import Flows, Load, loads_of_flows
from attenio.cluster.placement import Placement
from attenio.cluster.topology import Topology
from attenio.cluster.words import Stage

Values = NDArray[np.float32]


class Network:
    """Copies values from the memory of one rank to that of another, and counts their words by stage, source and target.

    >>> network, there = Network(2), np.zeros((2, 3), dtype=np.float32)
    >>> network.send(Stage.GATHER_KEYS, (0, 1), np.ones((2, 3), dtype=np.float32), there)
    >>> int(network.words[Stage.GATHER_KEYS][0, 1]), there.sum()
    (6, np.float32(6.0))
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self.words: dict[Stage, NDArray[np.int64]] = {}

    def send(self, stage: Stage, ends: tuple[int, int], values: Values, into: Values, *, words_each: int = 1) -> None:
        """Copy values into room of the same shape; between a rank and itself nothing is sent."""
        assert into.shape == values.shape, f"room for {into.shape} cannot take {values.shape}"
        into[...] = values
        if ends[0] != ends[1]:
            counted = self.words.setdefault(stage, np.zeros((self._ranks, self._ranks), dtype=np.int64))
            counted[ends] += values.size * words_each

    @property
    def sent(self) -> NDArray[np.int64]:
        """Words that every rank has sent."""
        total = np.zeros(self._ranks, dtype=np.int64)
        for counted in self.words.values():
            total += counted.sum(axis=1)
        return total

    def level_words(self, grid: Grid, placement: Placement, topology: Topology) -> tuple[Load, ...]:
        """What crossed every level of links, for ranks that sit so."""
        every = sum(self.words.values(), start=np.zeros((self._ranks, self._ranks), dtype=np.int64))
        sources, targets = np.nonzero(every)
        flows = Flows(sources.astype(np.int64), targets.astype(np.int64), every[sources, targets])
        return loads_of_flows(flows, placement.devices(grid), topology)
