"""What layouts of causal work have in common: who owns which tokens, and what every rank computes of every head.

Ranks own tokens with all heads. A layout has head groups (``heads``); of each a rank has some rows and some keys, and
computes the cells that the layout gives it. Strips and patchworks are such layouts.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.spans import Span, Tokens

Counts = NDArray[np.int64]
NONE = Tokens(())
# By head group: some tokens.
ByHead = tuple[Tokens, ...]


@dataclass(frozen=True, kw_only=True)
class Product:
    """Rows and keys of one head group that a rank computes with."""

    rows: Tokens
    keys: Tokens


class Layout(Protocol):
    """Homes of tokens, and parts of the work."""

    @property
    def heads(self) -> int:
        """Into how many groups KV heads are cut."""

    @property
    def devices(self) -> int:
        """How many ranks there are."""

    def homes(self, tokens: int) -> tuple[Tokens, ...]:
        """The tokens that every rank owns."""

    def held(self, tokens: int, rank: int) -> tuple[Product, ...]:
        """By head group: rows and keys that a rank computes with."""

    def cells(self, tokens: int, rank: int, head: int) -> tuple[tuple[Span, Span], ...]:
        """Rows and keys that a rank computes of a head group, as rectangles of which the mask hides what is unseen."""

    def longest_messages(self, tokens: int) -> tuple[Counts, Counts]:
        """Own tokens, over all head groups, about which a rank hears from one other, at most: rows and keys."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Messages(ABC):
    """Which tokens travel between which ranks in one pass: the same on all ranks, and all that they need to know.

    Rows and keys travel in two rounds: from their homes to those that compute with them, and from those that pass
    some on.
    """

    tokens: int

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Whose messages these are."""

    @cached_property
    def homes(self) -> tuple[Tokens, ...]:
        """The tokens of every rank."""
        return self.layout.homes(self.tokens)

    @cached_property
    def _held(self) -> tuple[tuple[Product, ...], ...]:
        return tuple(self.layout.held(self.tokens, rank) for rank in range(self.layout.devices))

    def held(self, rank: int) -> tuple[Product, ...]:
        """By head group: rows and keys that a rank computes with."""
        return self._held[rank]

    def rows(self, source: int, target: int) -> ByHead:
        """Queries of a home that another rank computes with; their results come back."""
        return self._owned(source, target, tuple(each.rows for each in self._held[target]))

    def rows_first(self, source: int, target: int) -> ByHead:
        """Queries that go from their home to a rank in the first round."""
        return self.rows(source, target)

    def rows_second(self, source: int, target: int) -> ByHead:
        """Queries that a rank passes on to another one in the second round."""
        return (NONE,) * self.layout.heads

    @property
    def rows_are_passed_on(self) -> bool:
        """Whether queries have a second round."""
        return False

    def keys_home(self, source: int, target: int) -> ByHead:
        """Keys of a home that another rank computes with; their gradients come back."""
        return self._owned(source, target, tuple(each.keys for each in self._held[target]))

    @abstractmethod
    def keys_first(self, source: int, target: int) -> ByHead:
        """Keys that go from their home to a rank in the first round."""

    @abstractmethod
    def keys_second(self, source: int, target: int) -> ByHead:
        """Keys that a rank passes on to another one in the second round."""

    @property
    @abstractmethod
    def is_passed_on(self) -> bool:
        """Whether keys have a second round."""

    def _owned(self, source: int, target: int, held: ByHead) -> ByHead:
        home = self.homes[source]
        return tuple(home.both(each) if source != target and each.spans else NONE for each in held)
