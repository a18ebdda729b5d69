"""Bursts that may compute a value again and again: which red sets can become which without any move.

A set of vertices that is to be red is a demand; it may also ask for values to be stored on the way. If v is the last
computed, then just before, the demand was the same without v (red or to be stored, as it is stored at once) and with
v's parents, and all that has to be red was red together with v (or, sliding, v took the place of a parent that the
demand does not ask for). Going backwards like this from a demand gives all demands that lead to it; there are finitely
many, however often values are computed. A red set can become the demand exactly if it contains one of them that has
nothing left to be stored.

>>> from attenio.pebbling.game import Game
>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "x"), ("a", "y"), ("x", "z"), ("y", "z")])
>>> task = Task.of(Game(graph=graph, red=3))
>>> [graph.names[v] for v in order_again(task, Change.of({0}, {3}))]
['y', 'x', 'z']
>>> order_again(task, Change.of({0}, {0, 3})) is None
True
>>> why_not_again(task, Change.of({0}, {0, 3}))
Obstacle(end=frozenset({0, 3}), stores=frozenset(), start=frozenset({3}))
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attenio.pebbling.solving.cp_sat.phases import Task, Tick, unlimited


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is red before a burst, what is to be red after it, and what is to be stored during it."""

    start: frozenset[int]
    end: frozenset[int]
    stores: frozenset[int]

    @classmethod
    def of(cls, start: Iterable[int], end: Iterable[int], stores: Iterable[int] = ()) -> "Change":
        """The change between these sets."""
        return cls(start=frozenset(start), end=frozenset(end), stores=frozenset(stores))


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """``end`` red and ``stores`` stored is possible only from red sets with one of ``start``."""

    end: frozenset[int]
    stores: frozenset[int]
    start: frozenset[int]


def _bits(vertices: Iterable[int]) -> int:
    return sum(1 << v for v in vertices)


def _members(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Demands:
    """Every demand from which the wanted one follows, found backwards; stops at one that the start satisfies.

    A demand is a bit for every vertex to be red and, further up, one for every vertex to be stored. One that contains
    another is dropped: whatever satisfies it satisfies the smaller one. One that asks for an input outside the start is
    not followed further: all that leads to it asks for that input too.
    """

    def __init__(self, task: Task, start: int, wanted: int, tick: Tick) -> None:
        self.task, self.size = task, len(task.weights)
        self.parents = [_bits(needs) for needs in task.game.graph.parents]
        self.inputs = _bits(v for v, needs in enumerate(task.game.graph.parents) if not needs)
        self.vertices = (1 << self.size) - 1
        self.came_from: dict[int, tuple[int, int] | None] = {wanted: None}
        self.dead_ends: list[int] = []
        self.met: int | None = None
        queue = [wanted]
        smallest: list[int] = []
        for demand in queue:
            tick()
            if not demand & ~start:
                self.met = demand
                return
            if any(other & demand == other for other in smallest):
                continue
            smallest.append(demand)
            if demand & self.inputs & ~start:
                self.dead_ends.append(demand)
                continue
            asked = demand & self.vertices | demand >> self.size
            for vertex in _members(asked & ~self.inputs):
                before = demand & ~(1 << vertex | 1 << vertex + self.size) | self.parents[vertex]
                if before not in self.came_from and self._fits(demand, before, vertex):
                    self.came_from[before] = (demand, vertex)
                    queue.append(before)

    def _words(self, mask: int) -> int:
        weights = self.task.weights
        return sum(weights[v] for v in _members(mask & self.vertices))

    def _fits(self, demand: int, before: int, vertex: int) -> bool:
        words, red = self._words(before), self.task.game.red
        grown = words + self.task.weights[vertex]
        if grown <= red:
            return True
        if not self.task.game.sliding or words > red:
            return False
        free = self.parents[vertex] & ~demand
        return grown - max((self.task.weights[u] for u in _members(free)), default=0) <= red


def order_again(task: Task, change: Change, tick: Tick = unlimited) -> list[int] | None:
    """Vertices to compute, in order and perhaps more than once, so that the change comes about; None if it cannot."""
    wanted = _bits(change.end) | _bits(change.stores) << len(task.weights)
    demands = _Demands(task, _bits(change.start), wanted, tick)
    if demands.met is None:
        return None
    order = []
    step = demands.came_from[demands.met]
    while step is not None:
        demand, vertex = step
        order.append(vertex)
        step = demands.came_from[demand]
    return order


def why_not_again(task: Task, change: Change, tick: Tick = unlimited) -> Obstacle:
    """Why an impossible change is impossible: a part of what it asks for, and what else would have to be red first.

    The vertices named meet every demand that leads to the part and has nothing left to be stored, so no red set
    without any of them satisfies one.
    """
    begin, size = _bits(change.start), len(task.weights)
    wanted = _bits(change.end) | _bits(change.stores) << size
    for bit in [*sorted(change.end), *(size + v for v in sorted(change.stores))]:
        fewer = wanted & ~(1 << bit)
        if fewer and _Demands(task, begin, fewer, tick).met is None:
            wanted = fewer
    demands = _Demands(task, begin, wanted, tick)
    missing = [demand & ~begin for demand in demands.came_from if not demand >> size]
    # through a dead end everything that leads there asks for the same missing input, so that is what has to be met
    missing += [demand & ~begin & demands.inputs for demand in demands.dead_ends]
    return Obstacle(
        end=frozenset(_members(wanted & demands.vertices)),
        stores=frozenset(_members(wanted >> size)),
        start=frozenset(_hitting(missing)),
    )


def _hitting(families: list[int]) -> list[int]:
    """Few vertices that meet every set: the most frequent first, then without those that turn out superfluous."""
    chosen: list[int] = []
    open_sets = sorted(set(families))
    while open_sets:
        counts: dict[int, int] = {}
        for each in open_sets:
            for vertex in _members(each):
                counts[vertex] = counts.get(vertex, 0) + 1
        best = max(counts, key=lambda vertex: (counts[vertex], -vertex))
        chosen.append(best)
        open_sets = [each for each in open_sets if not each >> best & 1]
    for vertex in list(chosen):
        rest = _bits(chosen) & ~(1 << vertex)
        if all(each & rest for each in families):
            chosen.remove(vertex)
    return chosen
