"""A schedule at once: vertices in a fixed order, and what is needed furthest in the future leaves first.

>>> from attenio.pebbling.checking import check
>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "s"), ("b", "s"), ("s", "t"), ("a", "t")])
>>> check(Game(graph=graph, red=3), first_schedule(Game(graph=graph, red=3))).cost_words
3
"""

from bisect import bisect_left

from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Move, MoveKind, Schedule

__all__ = ["first_schedule"]


def first_schedule(game: Game) -> Schedule:
    """The cheaper of two schedules: in the graph's order, and output by output with what each needs before it."""
    player = _PartialPlayer if game.variant is Variant.PARTIAL else _WholePlayer
    schedules = [Schedule.of(player(game, order).moves()) for order in _orders(game.graph)]
    return min(schedules, key=lambda schedule: schedule.cost_words(game.graph))


def _orders(graph: ComputationGraph) -> list[list[int]]:
    needed = [v for v in range(len(graph)) if graph.useful[v] and graph.parents[v]]
    deep: list[int] = []
    seen = bytearray(len(graph))
    for output in graph.outputs.tolist():
        stack = [(output, False)]
        while stack:
            vertex, ready = stack.pop()
            if ready:
                deep.append(vertex)
            elif not seen[vertex] and graph.parents[vertex]:
                seen[vertex] = 1
                stack.append((vertex, True))
                stack.extend((parent, False) for parent in reversed(graph.parents[vertex]))
    return [needed, deep]


class _WholePlayer:
    """Computes the vertices in the given order. Time is the place in that order."""

    def __init__(self, game: Game, order: list[int]) -> None:
        self.game, self.order = game, order
        self.weights = game.graph.weights.tolist()
        self.outputs = set(game.graph.outputs.tolist())
        self.blue = set(game.graph.inputs.tolist())
        self.red: set[int] = set()
        self.used = self.now = 0
        self.played: list[Move] = []
        self.uses: dict[int, list[int]] = {}
        for time, vertex in enumerate(order):
            self.note_uses(vertex, time)

    def note_uses(self, vertex: int, time: int) -> None:
        """When the parents of a vertex are needed."""
        for parent in self.game.graph.parents[vertex]:
            self.uses.setdefault(parent, []).append(time)

    def moves(self) -> list[Move]:
        """The whole schedule."""
        for time, vertex in enumerate(self.order):
            self.now = time
            self.compute(vertex)
        return self.played

    def next_use(self, vertex: int) -> float:
        """When the vertex is needed next, from now on."""
        times = self.uses.get(vertex, [])
        place = bisect_left(times, self.now)
        return times[place] if place < len(times) else float("inf")

    def compute(self, vertex: int) -> None:
        """Load the parents, compute the vertex, store it if it is an output."""
        needs = self.game.graph.parents[vertex]
        pinned = set(needs)
        for parent in needs:
            if parent not in self.red:
                self.make_room(self.weights[parent], pinned)
                self.load(parent)
        self.make_room(self.weights[vertex], pinned)
        place = None
        self.now += 1
        if self.used + self.weights[vertex] > self.game.red:
            place = max(needs, key=lambda parent: (self.weights[parent], self.next_use(parent)))
            self.save(place)
            self.red.remove(place)
            self.used -= self.weights[place]
        self.played.append(Move(MoveKind.COMPUTE, vertex, place))
        self.red.add(vertex)
        self.used += self.weights[vertex]
        if vertex in self.outputs:
            self.store(vertex)

    def make_room(self, words: int, pinned: set[int]) -> None:
        """Delete what is needed last until the words fit, or nothing is left that may go."""
        while self.used + words > self.game.red:
            loose = [vertex for vertex in self.red if vertex not in pinned]
            if not loose:
                return
            victim = max(loose, key=lambda vertex: (self.next_use(vertex), vertex in self.blue, vertex))
            self.save(victim)
            self.played.append(Move(MoveKind.DELETE, victim))
            self.red.remove(victim)
            self.used -= self.weights[victim]

    def load(self, vertex: int) -> None:
        """Bring a value into fast memory."""
        self.played.append(Move(MoveKind.LOAD, vertex))
        self.red.add(vertex)
        self.used += self.weights[vertex]

    def store(self, vertex: int) -> None:
        """Copy a value to slow memory."""
        self.played.append(Move(MoveKind.STORE, vertex))
        self.blue.add(vertex)

    def save(self, vertex: int) -> None:
        """Store what is still needed and not in slow memory."""
        if vertex not in self.blue and self.next_use(vertex) != float("inf"):
            self.store(vertex)


class _PartialPlayer(_WholePlayer):
    """Fills the vertices one after the other, each from its red parents first. Time is counted in edges."""

    def note_uses(self, vertex: int, time: int) -> None:
        """When the edges of a vertex are marked: one after the other."""
        for parent in self.game.graph.parents[vertex]:
            self.uses.setdefault(parent, []).append(self.now)
            self.now += 1

    def moves(self) -> list[Move]:
        """The whole schedule."""
        self.now = 0
        for vertex in self.order:
            needs = self.game.graph.parents[vertex]
            ending = self.now + len(needs)
            for parent in sorted(needs, key=lambda each: each not in self.red):
                self.accumulate(vertex, parent)
            self.now = ending
            if vertex in self.outputs:
                self.store(vertex)
        return self.played

    def accumulate(self, vertex: int, parent: int) -> None:
        """Mark one edge."""
        pinned = {vertex, parent}
        if parent not in self.red:
            self.make_room(self.weights[parent], pinned)
            self.load(parent)
        if vertex not in self.red:
            self.make_room(self.weights[vertex], pinned)
            self.red.add(vertex)
            self.used += self.weights[vertex]
        self.played.append(Move(MoveKind.ACCUMULATE, vertex, parent))
