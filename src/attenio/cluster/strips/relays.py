"""Keys that a rank lets another one pass on, so that no rank sends much more than the mean.

A rank sends its tokens to all who compute with them, and the sums of its part home. The few places near the top have
larger parts. Such a rank sends some of its keys once for every head group, to one place that needs them, and the rank
of that place sends them to all others. No word is sent twice for that.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.layout import Product
from attenio.cluster.spans import Span, Tokens
from attenio.cluster.strips.layout import Strips

# For some and for many ranks: sent words over the mean that no rank need go below, the steps in which the limit comes
# down to that, at first and at last, and how often others make room at a step.
_SOME, _MANY, _FINE = (1.0005, 0.004, 0.0005, 3), (1.002, 0.01, 0.01, 4), 512


@dataclass(frozen=True, kw_only=True)
class Relay:
    """Keys [start, stop) that the rank ``home`` owns and the ranks of ``place`` pass on, each for its head group."""

    span: Span
    home: int
    place: int


class Copies:
    """How many places compute with the tokens of a range.

    >>> copies = Copies([Tokens.of([(0, 4)]), Tokens.of([(2, 6)])])
    >>> copies.within(1, 5)
    6
    """

    def __init__(self, sets: list[Tokens]) -> None:
        starts, stops = (
            np.array([span[side] for each in sets for span in each.spans], dtype=np.int64) for side in (0, 1)
        )
        self._edges: NDArray[np.int64] = np.unique(np.concatenate([starts, stops, [0]]))
        here = np.zeros(len(self._edges), dtype=np.int64)
        np.add.at(here, np.searchsorted(self._edges, starts), 1)
        np.add.at(here, np.searchsorted(self._edges, stops), -1)
        self._here = np.cumsum(here)
        self._before = np.concatenate([[0], np.cumsum(self._here[:-1] * np.diff(self._edges))])
        self._counts: list[int] = self._here.tolist()
        self._starts: list[int] = self._edges.tolist()

    def within(self, start: int, stop: int) -> int:
        """Tokens of [start, stop), each counted once for every place that has it."""
        first, last = (self._up_to(each) for each in (start, stop))
        return last - first

    def _up_to(self, position: int) -> int:
        at = bisect_right(self._starts, position) - 1
        return int(self._before[at]) + self._counts[at] * (position - self._starts[at])


class _Users:
    """Which places have a key; the same ones up to where a place's keys begin or end."""

    def __init__(self, strips: Strips, products: tuple[Product, ...]) -> None:
        self._top = [(products[place].keys.spans[-1][1], place) for place in range(strips.top)]
        self._strips, first = list[tuple[list[int], list[tuple[int, int]]]](), strips.top
        for count in strips.counts:
            spans = sorted(
                (*span, place) for place in range(first, first + count) for span in products[place].keys.spans
            )
            self._strips.append(([span[0] for span in spans], [(span[1], span[2]) for span in spans]))
            first += count
        self._edges = sorted({edge for each in products for span in each.keys.spans for edge in span})
        self._known: dict[int, tuple[list[int], int]] = {}

    def of(self, key: int) -> tuple[list[int], int]:
        """The places that have a key, and up to where they have those after it."""
        at = bisect_right(self._edges, key)
        if at not in self._known:
            self._known[at] = self._places(key), self._edges[at]
        return self._known[at]

    def _places(self, key: int) -> list[int]:
        found = [place for stop, place in self._top if key < stop]
        for starts, ends in self._strips:
            stop, place = ends[bisect_right(starts, key) - 1]
            if key < stop:
                found.append(place)
        return found


def relays(strips: Strips, tokens: int, sent: NDArray[np.int64], key_words: int) -> tuple[Relay, ...]:
    """What ranks that would send more than the mean let others pass on; ``sent`` are the words of each without that.

    The limit comes down to the mean step by step, so that those who pass on for others may give away keys in turn.
    Where nobody who has a rank's keys has room, these ranks are first brought further down themselves; where that does
    not do either, steps get smaller.
    """
    balance = _Balance(strips, tokens, sent, key_words)
    mean, limit = float(sent.mean()), float(sent.max())
    slack, step, least, tries = _SOME if strips.devices <= _FINE else _MANY
    while limit > mean * slack and step >= least:
        limit = max(mean * slack, limit - mean * step)
        lower = [limit - 2 * each * step * mean for each in range(1, tries + 1)]
        if not balance.lower(limit) and not any(balance.make_room(limit, each) for each in lower):
            limit, step = max(balance.most), step / 2
    return tuple(balance.found)


class _Balance:
    """Words of every rank [place, head group], and the keys that each still sends itself."""

    def __init__(self, strips: Strips, tokens: int, sent: NDArray[np.int64], key_words: int) -> None:
        self.heads, self.key_words = strips.heads, key_words
        self.load: list[list[float]] = sent.astype(np.float64).reshape(-1, strips.heads).tolist()
        self.most = [max(each) for each in self.load]  # by place
        self.users = _Users(strips, strips.products(tokens))
        self.left = [list(home.spans) for home in strips.homes(tokens)]
        self.found: list[Relay] = []

    def above(self, limit: float) -> list[tuple[int, int]]:
        """Ranks that send more than a limit, those with most first."""
        busy = [place for place, most in enumerate(self.most) if most > limit]
        ranks = [(place, group) for place in busy for group, sent in enumerate(self.load[place]) if sent > limit]
        return sorted(ranks, key=lambda each: -self.load[each[0]][each[1]])

    def make_room(self, limit: float, lower: float) -> bool:
        """Bring those who have keys of ranks above a limit further down first; whether all are below it then."""
        having = set[int]()
        for place, group in self.above(limit):
            for at, stop in self.left[place * self.heads + group]:
                while at < stop:
                    users, at = self.users.of(at)
                    having |= {each for each in users if each != place}
        self.lower(lower, having)
        return self.lower(limit)

    def lower(self, limit: float, places: set[int] | None = None) -> bool:
        """Bring every rank, or those of some places, below a limit; whether that worked."""
        worked = True
        for place, group in self.above(limit):
            if places is None or place in places:
                rank, kept = place * self.heads + group, list[Span]()
                for span in self.left[rank]:
                    kept += self._pass_on(place, group, span, limit)
                self.left[rank] = kept
                worked &= self.load[place][group] <= limit
        return worked

    def _pass_on(self, place: int, group: int, span: Span, limit: float) -> list[Span]:
        """Pass on keys of a span until the rank is below the limit; what it keeps."""
        at, kept = span[0], list[Span]()
        while at < span[1]:
            excess = self.load[place][group] - limit
            if excess <= 0:
                return [*kept, (at, span[1])]
            users, end = self.users.of(at)
            others = [(self.most[z], z) for z in users if z != place]
            times, mine = len(users), len(users) - len(others)
            saved, more = (self.heads * (times - 1) - mine) * self.key_words, (times - 1) * self.key_words
            stop = min(span[1], end)
            count = 0
            if saved > 0 and others:
                theirs, relay = min(others)
                count = min(stop - at, ceil(excess / saved), int((limit - theirs) / more))
            if count <= 0:  # nobody who has this key has room
                kept.append((at, stop))
                at = stop
                continue
            self.found.append(Relay(span=(at, at + count), home=place * self.heads + group, place=relay))
            self.load[place][group] -= saved * count
            self.load[relay] = [each + more * count for each in self.load[relay]]
            for each in (place, relay):
                self.most[each] = max(self.load[each])
            at += count
        return kept
