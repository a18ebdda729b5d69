"""A first schedule: items in some order, and what is needed last makes room [Belady 1966].

>>> from attenio.pebbling.checking import check
>>> from attenio.pebbling.game import Game
>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> game = Game(graph=graph, red=3)
>>> check(game, greedy(Task.of(game), seed=0)).cost_words
3
"""

import math
import time
from collections.abc import Sequence
from random import Random

from attenio.pebbling.game import Variant
from attenio.pebbling.schedule import Move, MoveKind, Schedule
from attenio.pebbling.solving.cp_sat_phases import Item, Task

__all__ = ["greedy"]

_ORDERS = 100
_NEVER = 1 << 60


def greedy(task: Task, *, seed: int, deadline: float = math.inf) -> Schedule:
    """The best of several orders: as the vertices are numbered, and, until the deadline, depth first and shuffled."""
    random, graph = Random(seed), task.game.graph
    best = _FurthestLast(task, _numbered(task)).schedule()
    for _ in range(_ORDERS):
        if best.cost_words(graph) == task.compulsory_words or time.monotonic() > deadline:
            break
        other = _FurthestLast(task, _depth_first(task, random)).schedule()
        best = min(best, other, key=lambda schedule: schedule.cost_words(graph))
    return best


def _numbered(task: Task) -> list[Item]:
    return list(task.items)


def _depth_first(task: Task, random: Random) -> list[Item]:
    """Every value as soon as its parents are there; an edge of the partial game as soon as its parent is."""
    parents, partial = task.game.graph.parents, task.game.variant is Variant.PARTIAL
    edge_by_edge = partial and random.random() < 0.5
    order: list[Item] = []
    reached = set()
    for output in random.sample(task.outputs, len(task.outputs)):
        stack = [(output, random.sample(parents[output], len(parents[output])), 0)]
        reached.add(output)
        while stack:
            vertex, needs, at = stack.pop()
            if at and edge_by_edge:
                order.append(Item(vertex, (needs[at - 1],)))
            if at == len(needs):
                if not partial:
                    order.append(Item(vertex, parents[vertex]))
                elif not edge_by_edge:
                    order.extend(Item(vertex, (parent,)) for parent in needs)
                continue
            stack.append((vertex, needs, at + 1))
            parent = needs[at]
            if parents[parent] and parent not in reached:
                reached.add(parent)
                stack.append((parent, random.sample(parents[parent], len(parents[parent])), 0))
    return order


class _FurthestLast:
    """Plays items in a given order."""

    def __init__(self, task: Task, order: Sequence[Item]) -> None:
        self.task, self.order, self.weights = task, order, task.weights
        self.partial = task.game.variant is Variant.PARTIAL
        self.moves: list[Move] = []
        self.red: set[int] = set()
        self.words = 0
        self.blue = {v for v in task.vertices if not task.game.graph.parents[v]}
        self.uses: dict[int, list[int]] = {v: [] for v in task.vertices}
        self.unmarked = [len(needs) for needs in task.game.graph.parents]
        for at in range(len(order) - 1, -1, -1):
            for v in order[at].reads if not self.partial else (*order[at].reads, order[at].vertex):
                self.uses[v].append(at)

    def schedule(self) -> Schedule:
        """All moves."""
        for item in self.order:
            self._play(item)
        return Schedule.of(self.moves)

    def _next_use(self, vertex: int) -> int:
        return self.uses[vertex][-1] if self.uses[vertex] else _NEVER

    def _play(self, item: Item) -> None:
        vertex, pinned = item.vertex, {item.vertex, *item.reads}
        for parent in item.reads:
            self._bring(parent, pinned)
        slid = None
        if vertex not in self.red:
            if self.partial and self.unmarked[vertex] < len(self.task.game.graph.parents[vertex]):
                self._bring(vertex, pinned)
            else:
                slid = self._place(item, pinned)
        for touched in item.reads if not self.partial else (*item.reads, vertex):
            self.uses[touched].pop()
        if self.partial:
            self.moves.append(Move(MoveKind.ACCUMULATE, vertex, item.reads[0]))
            self.unmarked[vertex] -= 1
        else:
            self.moves.append(Move(MoveKind.COMPUTE, vertex, slid))
        self.blue.discard(vertex)
        if vertex in self.task.outputs and (not self.partial or not self.unmarked[vertex]):
            self._store(vertex)
        for touched in sorted(pinned & self.red):
            if not self.uses[touched]:
                self._delete(touched)

    def _place(self, item: Item, pinned: set[int]) -> int | None:
        """Make room for a new value; where that takes the place of a parent, which one."""
        vertex = item.vertex
        self._make_room(self.weights[vertex], pinned)
        slid = None
        if self.words + self.weights[vertex] > self.task.game.red:
            over = self.words + self.weights[vertex] - self.task.game.red
            enough = [u for u in item.reads if self.weights[u] >= over]
            slid = max(enough, key=lambda u: (len(self.uses[u]) == 1, u in self.blue, self.uses[u][0]))
            if slid not in self.blue and len(self.uses[slid]) > 1:
                self._store(slid)
            self.red.remove(slid)
            self.words -= self.weights[slid]
        self.red.add(vertex)
        self.words += self.weights[vertex]
        return slid

    def _bring(self, vertex: int, pinned: set[int]) -> None:
        if vertex not in self.red:
            self._make_room(self.weights[vertex], pinned)
            self.moves.append(Move(MoveKind.LOAD, vertex))
            self.red.add(vertex)
            self.words += self.weights[vertex]

    def _make_room(self, words: int, pinned: set[int]) -> None:
        while self.words + words > self.task.game.red:
            others = self.red - pinned
            if not others:
                return
            out = max(others, key=lambda v: (self._next_use(v), v in self.blue, v))
            if out not in self.blue and self.uses[out]:
                self._store(out)
            self._delete(out)

    def _store(self, vertex: int) -> None:
        self.moves.append(Move(MoveKind.STORE, vertex))
        self.blue.add(vertex)

    def _delete(self, vertex: int) -> None:
        self.moves.append(Move(MoveKind.DELETE, vertex))
        self.red.remove(vertex)
        self.words -= self.weights[vertex]
