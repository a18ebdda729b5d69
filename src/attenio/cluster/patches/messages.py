"""Which tokens travel between which ranks of a patchwork."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attenio.cluster.layout import ByHead, Counts, Messages
from attenio.cluster.patches.layout import Choices, Patchwork


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchesMessages(Messages):
    """The messages of one pass; ``sources`` [head, block, rank] say from whom a rank has keys."""

    patchwork: Patchwork
    sources: Counts

    @property
    def layout(self) -> Patchwork:
        """Whose messages these are."""
        return self.patchwork

    def keys_first(self, source: int, target: int) -> ByHead:
        """Keys that go from their owner to a rank in the first round."""
        return self._of_heads((self.sources[:, :, target] == source) & self._is_owner(source))

    def keys_second(self, source: int, target: int) -> ByHead:
        """Keys that a rank passes on to another one in the second round."""
        return self._of_heads((self.sources[:, :, target] == source) & ~self._is_owner(source))

    @cached_property
    def is_passed_on(self) -> bool:
        """Whether there is a second round."""
        owners = np.array(self.patchwork.owners, dtype=np.int64)
        return bool(((self.sources >= 0) & (self.sources != owners[None, :, None])).any())

    def _is_owner(self, rank: int) -> Choices:
        return np.asarray(np.array(self.patchwork.owners, dtype=np.int64) == rank)

    def _of_heads(self, chosen: Choices) -> ByHead:
        return tuple(self.patchwork.tokens_of(self.tokens, each) for each in chosen)
