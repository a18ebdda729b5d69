"""Every message of a layout in strips, stage by stage, as ranks and words: for levels of links and their simulation.

Keys come in two rounds, from their homes and from those that pass some on. Messages of a rank are in turns, to the
rank after it first, so that not all begin with the same one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.loads import Flows
from attenio.cluster.spans import Span, Tokens
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.words import STAGES, traffic
from attenio.cluster.words import Stage, stage_widths
from attenio.workload import Direction, Workload

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Round:
    """Messages that need nothing of each other; ``is_passed_on`` of keys that others than their homes send."""

    direction: Direction
    stage: Stage
    is_passed_on: bool
    flows: Flows


def rounds(workload: Workload, strips: Strips) -> tuple[Round, ...]:
    """The rounds of all passes of a workload, in order.

    >>> found = rounds(Workload(n=1024, d=64, heads=8, mask="causal"), Strips(counts=(3, 2, 2)))
    >>> [(each.stage.value, each.is_passed_on, int(each.flows.words.sum())) for each in found]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('gather-queries', False, 673280), ('gather-keys', False, 1753088), ('gather-keys', True, 166912),
     ('reduce-outputs', False, 683800)]
    """
    passes = (Direction.FORWARD, Direction.BACKWARD) if workload.is_training else (workload.direction,)
    return tuple(each for one in passes for each in _of_pass(workload.towards(one), strips))


def _of_pass(workload: Workload, strips: Strips) -> Iterable[Round]:
    messages = _Messages(workload, strips)
    rows, keys = messages.rows(), messages.keys()
    for stage in STAGES[workload.direction]:
        widths = stage_widths(workload, stage)
        row = workload.batch * (workload.heads // strips.heads) * widths.row
        key = workload.batch * (workload.kv_heads // strips.heads) * widths.key
        if stage is Stage.GATHER_KEYS:
            for is_passed_on, some in ((False, messages.first()), (True, messages.second())):
                if len(some.words):
                    flows = _in_turns(some, key, strips.devices)
                    yield Round(direction=workload.direction, stage=stage, is_passed_on=is_passed_on, flows=flows)
            continue
        some, width = (rows, row) if widths.row else (keys, key)
        if stage is not Stage.GATHER_QUERIES:
            some = Flows(some.targets, some.sources, some.words)
        flows = _in_turns(some, width, strips.devices)
        yield Round(direction=workload.direction, stage=stage, is_passed_on=False, flows=flows)


def _in_turns(some: Flows, width: int, ranks: int) -> Flows:
    order = np.lexsort((some.sources, (some.targets - some.sources) % ranks))
    return Flows(some.sources[order], some.targets[order], width * some.words[order])


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

    def first(self) -> Flows:
        """Keys that homes send: straight to all, or to the place that passes them on."""
        away: dict[int, list[Span]] = {}
        for each in self.relays:
            away.setdefault(each.home, []).append(each.span)
        kept = [home.without(Tokens.of(away.get(rank, ()))) for rank, home in enumerate(self.homes)]
        straight = self._to_groups(_Owned(kept).by_place([each.keys for each in self.products]))
        given = self._to_groups(
            Flows(*np.array([[r.home, r.place, r.span[1] - r.span[0]] for r in self.relays], np.int64).reshape(-1, 3).T)
        )
        return _summed(Flows(*(np.concatenate(both) for both in zip(straight, given, strict=True))), self.ranks)

    def second(self) -> Flows:
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
        return _summed(flows, self.ranks)

    def _to_groups(self, found: Flows) -> Flows:
        """From ranks to places, made messages to the ranks of each; nobody sends to itself."""
        group = np.arange(self.heads, dtype=np.int64)
        sources, words = (np.repeat(each, self.heads) for each in (found.sources, found.words))
        targets = (found.targets[:, None] * self.heads + group).reshape(-1)
        others = sources != targets
        return _summed(Flows(sources[others], targets[others], words[others]), self.ranks)


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


def _summed(flows: Flows, ranks: int) -> Flows:
    """One message from a rank to another."""
    both, at = np.unique(flows.sources * ranks + flows.targets, return_inverse=True)
    words = np.zeros(len(both), dtype=np.int64)
    np.add.at(words, at, flows.words)
    some = words > 0
    return Flows(both[some] // ranks, both[some] % ranks, words[some])
