"""Which tokens of which heads travel between which ranks of a patchwork. The same on all ranks.

Keys travel in two rounds: from their owners, and from those that pass some on.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from attenio.cluster.patches.layout import Choices, Counts, Patchwork, holdings
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Product


@dataclass(frozen=True, kw_only=True, eq=False)
class Messages:
    """The messages of one pass; ``sources`` [head, block, rank] say from whom a rank has keys."""

    patchwork: Patchwork
    tokens: int
    sources: Counts

    @cached_property
    def homes(self) -> tuple[Tokens, ...]:
        """The tokens of every rank."""
        return self.patchwork.homes(self.tokens)

    def held(self, rank: int) -> tuple[Product, ...]:
        """Rows and keys of every head that a rank computes with."""
        return _held(self.patchwork, self.tokens, rank)

    def rows(self, source: int, target: int) -> tuple[Tokens, ...]:
        """By head: queries that go from their owner to a rank that computes with them; their results come back."""
        return self._owned(source, target, holdings(self.patchwork).rows)

    def keys_home(self, source: int, target: int) -> tuple[Tokens, ...]:
        """By head: keys of an owner that another rank computes with; their gradients come back."""
        return self._owned(source, target, holdings(self.patchwork).keys)

    def keys_first(self, source: int, target: int) -> tuple[Tokens, ...]:
        """By head: keys that go from their owner to a rank in the first round."""
        return self._of_heads((self.sources[:, :, target] == source) & self._is_owner(source))

    def keys_second(self, source: int, target: int) -> tuple[Tokens, ...]:
        """By head: keys that a rank passes on to another one in the second round."""
        return self._of_heads((self.sources[:, :, target] == source) & ~self._is_owner(source))

    @cached_property
    def is_passed_on(self) -> bool:
        """Whether there is a second round."""
        owners = np.array(self.patchwork.owners, dtype=np.int64)
        return bool(((self.sources >= 0) & (self.sources != owners[None, :, None])).any())

    def _is_owner(self, rank: int) -> Choices:
        return np.asarray(np.array(self.patchwork.owners, dtype=np.int64) == rank)

    def _owned(self, source: int, target: int, has: Choices) -> tuple[Tokens, ...]:
        some = has[target] & self._is_owner(source)
        return self._of_heads(some & (source != target))

    def _of_heads(self, chosen: Choices) -> tuple[Tokens, ...]:
        return tuple(self.patchwork.tokens_of(self.tokens, each) for each in chosen)


@lru_cache(maxsize=1024)
def _held(patchwork: Patchwork, tokens: int, rank: int) -> tuple[Product, ...]:
    return patchwork.held(tokens, rank)
