"""Which tokens travel between which ranks of a patchwork."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attenio.cluster.layout import ByHead, Counts, Messages
from attenio.cluster.patches.layout import Choices, Patchwork


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchesMessages(Messages):
    """The messages of one pass; sources [head, block, rank] say from whom a rank has rows and keys."""

    patchwork: Patchwork
    row_sources: Counts
    key_sources: Counts

    @property
    def layout(self) -> Patchwork:
        """Whose messages these are."""
        return self.patchwork

    def rows_first(self, source: int, target: int) -> ByHead:
        """Queries that go from their owner to a rank in the first round."""
        return self._from(self.row_sources, source, target, self._is_owner(source))

    def rows_second(self, source: int, target: int) -> ByHead:
        """Queries that a rank passes on to another one in the second round."""
        return self._from(self.row_sources, source, target, ~self._is_owner(source))

    def keys_first(self, source: int, target: int) -> ByHead:
        """Keys that go from their owner to a rank in the first round."""
        return self._from(self.key_sources, source, target, self._is_owner(source))

    def keys_second(self, source: int, target: int) -> ByHead:
        """Keys that a rank passes on to another one in the second round."""
        return self._from(self.key_sources, source, target, ~self._is_owner(source))

    @cached_property
    def rows_are_passed_on(self) -> bool:
        """Whether queries have a second round."""
        return self._are_passed_on(self.row_sources)

    @cached_property
    def is_passed_on(self) -> bool:
        """Whether keys have a second round."""
        return self._are_passed_on(self.key_sources)

    def _are_passed_on(self, sources: Counts) -> bool:
        owners = np.array(self.patchwork.owners, dtype=np.int64)
        return bool(((sources >= 0) & (sources != owners[None, :, None])).any())

    def _is_owner(self, rank: int) -> Choices:
        return np.asarray(np.array(self.patchwork.owners, dtype=np.int64) == rank)

    def _from(self, sources: Counts, source: int, target: int, blocks: Choices) -> ByHead:
        chosen = (sources[:, :, target] == source) & blocks
        return tuple(self.patchwork.tokens_of(self.tokens, each) for each in chosen)
