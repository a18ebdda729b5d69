"""Every message of a patchwork, stage by stage, as ranks and words."""

import numpy as np

from attenio.cluster.flows import Round, rounds_of, summed
from attenio.cluster.layout import Counts
from attenio.cluster.loads import Flows
from attenio.cluster.patches.layout import Patchwork, holdings
from attenio.cluster.patches.words import traffic
from attenio.workload import Workload


def rounds(workload: Workload, patchwork: Patchwork) -> tuple[Round, ...]:
    """The rounds of all passes of a workload, in order."""
    return tuple(rounds_of(workload, patchwork.heads, patchwork.devices, lambda work: _Messages(work, patchwork)))


class _Messages:
    """Tokens from rank to rank, over all heads of the table."""

    def __init__(self, workload: Workload, patchwork: Patchwork) -> None:
        self.sizes, self.has = patchwork.sizes(workload.keys), holdings(patchwork)
        self.owners, self.ranks = np.array(patchwork.owners, dtype=np.int64), patchwork.devices
        found = traffic(workload, patchwork)
        self.row_sources, self.key_sources = found.row_sources, found.key_sources

    def rows(self) -> Flows:
        return self._from_owners(self.has.rows.sum(axis=1).T)

    def keys(self) -> Flows:
        return self._from_owners(self.has.keys.sum(axis=1).T)

    def rows_first(self) -> Flows:
        return self._first(self.row_sources)

    def rows_second(self) -> Flows:
        return self._second(self.row_sources)

    def keys_first(self) -> Flows:
        return self._first(self.key_sources)

    def keys_second(self) -> Flows:
        return self._second(self.key_sources)

    def _first(self, sources: Counts) -> Flows:
        return self._from_owners((sources == self.owners[None, :, None]).sum(axis=0))

    def _second(self, sources: Counts) -> Flows:
        passed = np.argwhere((sources >= 0) & (sources != self.owners[None, :, None]))
        return summed(Flows(sources[tuple(passed.T)], passed[:, 2], self.sizes[passed[:, 1]]), self.ranks)

    def _from_owners(self, copies: Counts) -> Flows:
        """From how often a rank has the tokens of a block [block, rank]."""
        block, rank = np.nonzero(copies)
        return summed(Flows(self.owners[block], rank, self.sizes[block] * copies[block, rank]), self.ranks)
