"""Every message of a patchwork, stage by stage, as ranks and words."""

import numpy as np

from attenio.cluster.flows import Round, rounds_of
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
        self.owners = np.array(patchwork.owners, dtype=np.int64)
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
        return self._summed(sources[tuple(passed.T)], passed[:, 2], self.sizes[passed[:, 1]])

    def _from_owners(self, copies: Counts) -> Flows:
        """From how often a rank has the tokens of a block [block, rank]."""
        block, rank = np.nonzero(copies)
        return self._summed(self.owners[block], rank, self.sizes[block] * copies[block, rank])

    def _summed(self, sources: Counts, targets: Counts, words: Counts) -> Flows:
        """One message from a rank to another; nobody sends to itself."""
        ranks = self.has.rows.shape[0]
        total = np.zeros((ranks, ranks), dtype=np.int64)
        np.add.at(total, (sources, targets), words)
        np.fill_diagonal(total, 0)
        source, target = np.nonzero(total)
        return Flows(source, target, total[source, target])
