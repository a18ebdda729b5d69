"""Which tokens travel between which ranks of a layout in strips. The same on all ranks, and all that they need to know.

Keys travel in two rounds: from their homes to those that compute with them, and from those that pass some on.
"""

from dataclasses import dataclass
from functools import cached_property

from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Product, Strips
from attenio.cluster.strips.relays import Relay

NONE = Tokens(())


@dataclass(frozen=True, kw_only=True, eq=False)
class Messages:
    """The messages of one pass."""

    strips: Strips
    tokens: int
    relays: tuple[Relay, ...]

    @cached_property
    def homes(self) -> tuple[Tokens, ...]:
        """The tokens of every rank."""
        return self.strips.homes(self.tokens)

    def product(self, rank: int) -> Product:
        """What a rank computes, for its heads."""
        return self.strips.products(self.tokens)[rank // self.strips.heads]

    def rows(self, source: int, target: int) -> Tokens:
        """Queries that go from their home to a rank that computes with them; their results come back."""
        return NONE if source == target else self.homes[source].both(self.product(target).rows)

    def keys_home(self, source: int, target: int) -> Tokens:
        """Keys of a home that another rank computes with; their gradients come back."""
        return NONE if source == target else self.homes[source].both(self.product(target).keys)

    def keys_first(self, source: int, target: int) -> Tokens:
        """Keys that go from their home to a rank in the first round."""
        mine = self._away.get(source, {})
        direct = self.keys_home(source, target)
        if not mine or source == target:
            return direct
        kept = direct.without(Tokens.union(mine.values()))
        return Tokens.union([kept, mine.get(target // self.strips.heads, NONE)])

    def keys_second(self, source: int, target: int) -> Tokens:
        """Keys that a rank passes on to another one of its head group in the second round."""
        h = self.strips.heads
        if source == target or source % h != target % h:
            return NONE
        passed = (Tokens((each.span,)) for each in self._passing.get(source // h, ()) if each.home != target)
        return Tokens.union(passed).both(self.product(target).keys)

    @cached_property
    def _away(self) -> dict[int, dict[int, Tokens]]:
        """By home and by the place that passes them on: keys that a home does not send to everyone itself."""
        spans: dict[int, dict[int, list[Tokens]]] = {}
        for each in self.relays:
            spans.setdefault(each.home, {}).setdefault(each.place, []).append(Tokens((each.span,)))
        return {home: {place: Tokens.union(some) for place, some in by.items()} for home, by in spans.items()}

    @cached_property
    def _passing(self) -> dict[int, list[Relay]]:
        found: dict[int, list[Relay]] = {}
        for each in self.relays:
            found.setdefault(each.place, []).append(each)
        return found
