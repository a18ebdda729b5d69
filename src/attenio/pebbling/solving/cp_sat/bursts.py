"""Bursts whose items are computed exactly once: is there an order that fits in fast memory, and if not, why not.

Nothing is loaded during a burst and nothing is computed twice, so a vertex is red without a break from the start of the
burst, or from the first item that touches it, until its last item or, if it is kept, to the end. What is to be stored
is stored as soon as it is computed. Whether some order fits is therefore a question about sets of items already done.

The reason why none fits is monotone: a phase that does all of ``items``, begins with all of ``start`` red and ends with
all of ``end`` red has at every moment at least the vertices red that the order restricted to ``items`` implies. So if
no order of the parts fits, none of the whole does, and one reason excludes many phases at once.

>>> from attenio.pebbling.game import Game, Variant
>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "x"), ("b", "y"), ("x", "z"), ("y", "z")])
>>> task = Task.of(Game(graph=graph, red=3, variant=Variant.ONE_SHOT))
>>> [graph.names[item.vertex] for item in order_once(task, Burst.of(task.items, {0, 2}, {4}))]
['x', 'y', 'z']
>>> order_once(task, Burst.of(task.items[:2], {0, 2}, {0, 1, 2, 3})) is None
True
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from attenio.pebbling.solving.cp_sat.phases import Item, Task, Tick, unlimited


@dataclass(frozen=True, kw_only=True)
class Burst:
    """Items to compute, what is red before and what stays red after."""

    items: tuple[Item, ...]
    start: frozenset[int]
    end: frozenset[int]

    @classmethod
    def of(cls, items: Iterable[Item], start: Iterable[int], end: Iterable[int]) -> "Burst":
        """The burst of these items and sets."""
        return cls(items=tuple(items), start=frozenset(start), end=frozenset(end))

    def without_one(self) -> Iterator["Burst"]:
        """Every burst that asks for one thing less."""
        for item in self.items:
            yield replace(self, items=tuple(each for each in self.items if each != item))
        for vertex in sorted(self.end):
            yield replace(self, end=self.end - {vertex})
        for vertex in sorted(self.start):
            yield replace(self, start=self.start - {vertex})


class _Places:
    """Red words as a function of the set of items done, kept as bits of an integer."""

    def __init__(self, task: Task, burst: Burst) -> None:
        self.red, self.sliding, self.weights = task.game.red, task.game.sliding, task.weights
        self.items, self.end = burst.items, burst.end
        self.touches: dict[int, int] = {}
        writes: dict[int, int] = {}
        for bit, item in enumerate(burst.items):
            writes[item.vertex] = writes.get(item.vertex, 0) | 1 << bit
            for vertex in (item.vertex, *item.reads):
                self.touches[vertex] = self.touches.get(vertex, 0) | 1 << bit
        self.always = sum(task.weights[v] for v in burst.start & burst.end if v not in self.touches)
        self.from_start = {v for v in burst.start if v in self.touches}
        # whatever fills a value comes before whatever reads it
        self.before = [self._any(writes.get(u, 0) for u in item.reads) for item in burst.items]

    @staticmethod
    def _any(masks: Iterable[int]) -> int:
        together = 0
        for mask in masks:
            together |= mask
        return together

    def is_red(self, vertex: int, done: int) -> bool:
        touched = self.touches[vertex]
        begun = vertex in self.from_start or bool(touched & done)
        return begun and (vertex in self.end or bool(touched & ~done))

    def red_words(self, done: int) -> int:
        return self.always + sum(self.weights[v] for v in self.touches if self.is_red(v, done))

    def fits(self, bit: int, done: int, words: int) -> bool:
        item = self.items[bit]
        words += sum(self.weights[u] for u in item.reads if not self.is_red(u, done))
        grown = words + (0 if self.is_red(item.vertex, done) else self.weights[item.vertex])
        if grown <= self.red:
            return True
        if not self.sliding or words > self.red:
            return False
        last = [u for u in item.reads if u not in self.end and not self.touches[u] & ~(done | 1 << bit)]
        return grown - max((self.weights[u] for u in last), default=0) <= self.red


def order_once(task: Task, burst: Burst, tick: Tick = unlimited) -> list[Item] | None:
    """An order of the burst's items that fits, or None if there is none.

    An item that leaves no more red than before is taken at once: done earlier, it frees the same places or more at
    every later moment, so any order that works without it in front also works with it in front.
    """
    places = _Places(task, burst)
    everything = (1 << len(burst.items)) - 1
    path: list[int] = []
    tried = {0}
    stack = [_choices(places, 0)]
    done = 0
    while done != everything:
        tick()
        bit = next(stack[-1], None)
        if bit is None:
            stack.pop()
            if not path:
                return None
            done ^= 1 << path.pop()
        elif done | 1 << bit not in tried:
            done |= 1 << bit
            tried.add(done)
            path.append(bit)
            stack.append(_choices(places, done))
    return [burst.items[bit] for bit in path]


def _choices(places: _Places, done: int) -> Iterator[int]:
    words = places.red_words(done)
    options = []
    for bit in range(len(places.items)):
        if done >> bit & 1 or places.before[bit] & ~done or not places.fits(bit, done, words):
            continue
        after = places.red_words(done | 1 << bit)
        if after <= words:
            return iter((bit,))
        options.append((after, bit))
    return iter([bit for _, bit in sorted(options)])


def why_not_once(task: Task, burst: Burst, tick: Tick = unlimited) -> Burst:
    """A smallest part (nothing can be left out) of a burst without order that has no order either."""
    reason = burst
    smaller: Burst | None = burst
    while smaller is not None:
        reason = smaller
        smaller = next((each for each in reason.without_one() if order_once(task, each, tick) is None), None)
    return reason
