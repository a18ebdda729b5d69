"""A game as the integer program sees it: items to compute, and phases of loads, computations and stores.

A schedule in which loads come as late and stores as early as they can falls into phases: loads, then a burst of
computations in which values are stored as soon as they are computed and nothing is loaded. An item is what a burst is
made of: a vertex with all its parents, or, in the partial game, one edge.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> Task.of(Game(graph=graph, red=3)).items
(Item(vertex=2, reads=(0, 1)),)
>>> Task.of(Game(graph=graph, red=2, variant=Variant.PARTIAL)).items
(Item(vertex=2, reads=(0,)), Item(vertex=2, reads=(1,)))
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attenio.pebbling.game import Game, Variant
from attenio.pebbling.schedule import Move, MoveKind, Schedule

# Called now and then during long work; raises when the time is up.
Tick = Callable[[], object]


def unlimited() -> None:
    """The tick of work without a time limit."""


class Item(NamedTuple):
    """One computation: ``vertex`` takes in ``reads``, which are all its parents or, in the partial game, one."""

    vertex: int
    reads: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Loads, a burst of computations, and what is red when it begins and ends; ``stores`` happen during the burst."""

    loads: tuple[int, ...]
    start: frozenset[int]
    items: tuple[Item, ...]
    end: frozenset[int]
    stores: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a game asks for: all items, and that ``needed`` inputs and ``outputs`` are moved."""

    game: Game
    weights: tuple[int, ...]
    vertices: tuple[int, ...]
    items: tuple[Item, ...]
    needed: tuple[int, ...]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, game: Game) -> "Task":
        """The task of a game, without whatever can only be in the way: vertices that no output depends on."""
        graph, parents = game.graph, game.graph.parents
        useful: list[bool] = graph.useful.tolist()
        computed = [v for v in range(len(graph)) if parents[v]]
        wanted = [v for v in computed if useful[v]]
        if game.variant is Variant.PARTIAL:
            items = tuple(Item(v, (u,)) for v in wanted for u in parents[v])
        else:
            items = tuple(Item(v, parents[v]) for v in wanted)
        touched = {v for item in items for v in (item.vertex, *item.reads)}
        return cls(
            game=game,
            weights=tuple(graph.weights.tolist()),
            vertices=tuple(sorted(touched)),
            items=items,
            needed=tuple(sorted({u for v in wanted for u in parents[v] if not parents[u]})),
            outputs=tuple(v for v in np.unique(graph.outputs).tolist() if parents[v]),
        )

    def words(self, vertices: Sequence[int]) -> int:
        """What these vertices weigh together."""
        return sum(self.weights[v] for v in vertices)

    def most_phases(self, budget_words: int) -> int:
        """No schedule with loads late and stores early that moves so many words has more phases.

        Every phase begins with a load, the first one with all that its first computation reads. Moves that are not
        the stores of outputs may all be loads; those beyond the compulsory ones weigh at least the lightest vertex. A
        game in which every item is computed once has no more bursts than items.
        """
        lightest = min(self.weights[v] for v in self.vertices)
        spare = budget_words - self.game.graph.compulsory_words
        loads = len(self.needed) + spare // lightest
        inputs = {u for u in self.vertices if not self.game.graph.parents[u]}
        first = min(len(item.reads) for item in self.items if inputs.issuperset(item.reads))
        most = max(1, loads - first + 1)
        return most if self.game.variant is Variant.STANDARD else min(most, len(self.items))


def moves_of(task: Task, phases: Sequence[Phase], orders: Sequence[Sequence[Item]]) -> Schedule:
    """The schedule that plays the phases, each burst in its order, and deletes what is no longer asked for."""
    moves: list[Move] = []
    red: set[int] = set()
    for phase, order in zip(phases, orders, strict=True):
        _keep_only(moves, red, phase.start)
        moves.extend(Move(MoveKind.LOAD, v) for v in phase.loads)
        red |= phase.start
        last = {item.vertex: at for at, item in enumerate(order)}
        for at, (item, before, after) in enumerate(_demands(task, phase, order)):
            _keep_only(moves, red, before)
            moves.append(_computation(task, red, item, after))
            if moves[-1].kind is MoveKind.COMPUTE and moves[-1].parent is not None:
                red.remove(moves[-1].parent)
            red.add(item.vertex)
            if item.vertex in phase.stores and last[item.vertex] == at:
                moves.append(Move(MoveKind.STORE, item.vertex))
        _keep_only(moves, red, phase.end)
    return Schedule.of(moves)


def _keep_only(moves: list[Move], red: set[int], wanted: frozenset[int]) -> None:
    for vertex in sorted(red - wanted):
        moves.append(Move(MoveKind.DELETE, vertex))
        red.remove(vertex)


def _demands(task: Task, phase: Phase, order: Sequence[Item]) -> list[tuple[Item, frozenset[int], frozenset[int]]]:
    """For every item in order, what has to be red before and after it, found backwards."""
    partial = task.game.variant is Variant.PARTIAL
    first = {item.vertex: at for at, item in reversed(list(enumerate(order)))}
    demands = []
    after = phase.end
    for at in range(len(order) - 1, -1, -1):
        item = order[at]
        goes_on = partial and (item.vertex in phase.start or first[item.vertex] < at)
        before = (after | {item.vertex} if goes_on else after - {item.vertex}) | frozenset(item.reads)
        demands.append((item, before, after | {item.vertex}))
        after = before
    return demands[::-1]


def _computation(task: Task, red: set[int], item: Item, after: frozenset[int]) -> Move:
    if task.game.variant is Variant.PARTIAL:
        return Move(MoveKind.ACCUMULATE, item.vertex, item.reads[0])
    words = task.words([*red, item.vertex])
    if item.vertex in red or words <= task.game.red:
        return Move(MoveKind.COMPUTE, item.vertex)
    free = [u for u in item.reads if u not in after]
    return Move(MoveKind.COMPUTE, item.vertex, max(free, key=lambda u: task.weights[u]))
