"""Every message of a layout in strips, stage by stage, as ranks and words."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.flows import Round, rounds_of, summed
from attenio.cluster.loads import Flows
from attenio.cluster.spans import Span, Tokens
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.words import traffic
from attenio.workload import Workload

Counts = NDArray[np.int64]


def rounds(workload: Workload, strips: Strips) -> tuple[Round, ...]:
    """The rounds of all passes of a workload, in order.

    >>> found = rounds(Workload(n=1024, d=64, heads=8, mask="causal"), Strips(counts=(3, 2, 2)))
    >>> [(each.stage.value, each.is_passed_on, int(each.flows.words.sum())) for each in found]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('gather-queries', False, 673280), ('gather-keys', False, 1752064), ('gather-keys', True, 167936),
     ('reduce-outputs', False, 683800)]
    """
    return tuple(rounds_of(workload, strips.heads, strips.devices, lambda work: _Messages(work, strips)))


class _Messages:
    """Tokens from rank to rank."""

    def __init__(self, workload: Workload, strips: Strips) -> None:
        self.heads, self.ranks = strips.heads, strips.devices
        self.products = strips.products(workload.keys)
        self.homes = strips.homes(workload.keys)
        self.relays = traffic(workload, strips).relays

    def rows(self) -> Flows:
        """Rows from their homes to those that compute with them."""
        return self._to_groups(_Owned(self.homes).by_place([each.rows for each in self.products]))

    def keys(self) -> Flows:
        """Keys from their homes to those that compute with them, whoever passes them on."""
        return self._to_groups(_Owned(self.homes).by_place([each.keys for each in self.products]))

    def rows_first(self) -> Flows:
        """Rows that homes send: all."""
        return self.rows()

    def rows_second(self) -> Flows:
        """Rows that are passed on: none."""
        return Flows.none()

    def keys_first(self) -> Flows:
        """Keys that homes send: straight to all, or to the place that passes them on."""
        away: dict[int, list[Span]] = {}
        for each in self.relays:
            away.setdefault(each.home, []).append(each.span)
        kept = [home.without(Tokens.of(away.get(rank, ()))) for rank, home in enumerate(self.homes)]
        straight = self._to_groups(_Owned(kept).by_place([each.keys for each in self.products]))
        given = self._to_groups(
            Flows(*np.array([[r.home, r.place, r.span[1] - r.span[0]] for r in self.relays], np.int64).reshape(-1, 3).T)
        )
        return summed(Flows(*(np.concatenate(both) for both in zip(straight, given, strict=True))), self.ranks)

    def keys_second(self) -> Flows:
        """Keys that are passed on, within a head group."""
        found = _Owned([Tokens((each.span,)) for each in self.relays]).by_place([one.keys for one in self.products])
        home, place = (
            np.array([getattr(each, name) for each in self.relays], dtype=np.int64) for name in ("home", "place")
        )
        some = place[found.sources] != found.targets
        relay, target, words = (each[some] for each in found)
        group = np.arange(self.heads, dtype=np.int64)
        sources, targets = ((each[:, None] * self.heads + group).reshape(-1) for each in (place[relay], target))
        others = targets != np.repeat(home[relay], self.heads)
        flows = Flows(sources[others], targets[others], np.repeat(words, self.heads)[others])
        return summed(flows, self.ranks)

    def _to_groups(self, found: Flows) -> Flows:
        """From ranks to places, made messages to the ranks of each."""
        group = np.arange(self.heads, dtype=np.int64)
        sources, words = (np.repeat(each, self.heads) for each in (found.sources, found.words))
        targets = (found.targets[:, None] * self.heads + group).reshape(-1)
        return summed(Flows(sources, targets, words), self.ranks)


class _Owned:
    """Spans of tokens in order, and whose they are."""

    def __init__(self, owners: Iterable[Tokens]) -> None:
        spans = sorted((*span, owner) for owner, each in enumerate(owners) for span in each.spans)
        self.starts, self.stops, self.owners = np.array(spans, dtype=np.int64).reshape(-1, 3).T

    def by_place(self, held: list[Tokens]) -> Flows:
        """How many tokens of every owner a place holds: owners, places, tokens."""
        parts: list[Counts] = []
        for place, tokens in enumerate(held):
            for start, stop in tokens.spans:
                first = int(np.searchsorted(self.stops, start, side="right"))
                last = int(np.searchsorted(self.starts, stop, side="left"))
                some = slice(first, max(first, last))
                count = np.minimum(self.stops[some], stop) - np.maximum(self.starts[some], start)
                parts.append(np.stack([self.owners[some], np.full(len(count), place, dtype=np.int64), count]))
        whole = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), dtype=np.int64)
        return Flows(*whole)
