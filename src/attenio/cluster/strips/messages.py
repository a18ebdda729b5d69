"""Which tokens travel between which ranks of a layout in strips: a rank has rows and keys of one head group."""

from dataclasses import dataclass
from functools import cached_property

from attenio.cluster.layout import NONE, ByHead, Messages
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.relays import Relay


@dataclass(frozen=True, kw_only=True, eq=False)
class StripsMessages(Messages):
    """The messages of one pass."""

    strips: Strips
    relays: tuple[Relay, ...]

    @property
    def layout(self) -> Strips:
        """Whose messages these are."""
        return self.strips

    @property
    def is_passed_on(self) -> bool:
        """Whether there is a second round."""
        return bool(self.relays)

    def keys_first(self, source: int, target: int) -> ByHead:
        """Keys that go from their home to a rank in the first round."""
        mine = self._away.get(source, {})
        direct = self.keys_home(source, target)
        if not mine or source == target:
            return direct
        head, away = target % self.strips.heads, Tokens.union(mine.values())
        kept = direct[head].without(away)
        return self._of_head(head, Tokens.union([kept, mine.get(target // self.strips.heads, NONE)]))

    def keys_second(self, source: int, target: int) -> ByHead:
        """Keys that a rank passes on to another one of its head group in the second round."""
        h = self.strips.heads
        if source == target or source % h != target % h:
            return self._of_head(0, NONE)
        passed = (Tokens((each.span,)) for each in self._passing.get(source // h, ()) if each.home != target)
        return self._of_head(target % h, Tokens.union(passed).both(self.held(target)[target % h].keys))

    def _of_head(self, head: int, tokens: Tokens) -> ByHead:
        return tuple(tokens if each == head else NONE for each in range(self.strips.heads))

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
