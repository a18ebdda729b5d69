"""The moment at which one vertex is computed, and the network whose flows count what is alive then.

The nodes of the network are the steps, then two nodes for each value (numbered from ``count`` on, even and odd), then,
in the partial game, one hub for each vertex. A flow goes from steps that are done to steps that are not. It passes from
a step to the first node of a value that the step touches, to the second node within the value's capacity, and on to any
step that touches the value; and it may go from a step to one that must come before it. Whatever set of steps is done at
the moment, the flow leaves it through values that are alive.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.pebbling.certified.steps import Steps
from attenio.pebbling.game import Game, Variant

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Moment:
    """Steps that are surely done and surely not, values that are surely red, and the words left for the others."""

    vertex: int
    done: Flags
    undone: Flags
    red: tuple[int, ...]
    room_words: int


def moment_at(game: Game, steps: Steps, vertex: int) -> Moment:
    """When the vertex is computed: just after it, or just before where it may slide into the place of a parent."""
    graph = game.graph
    parents = graph.parents[vertex]
    before, after = _closure(graph.parents, vertex, len(graph)), _closure(graph.children, vertex, len(graph))
    if game.variant is Variant.PARTIAL:
        red: tuple[int, ...] = (vertex,)
        done, undone = before[steps.target], after[steps.source]
    elif game.sliding:
        red = parents
        before[vertex] = False
        done, undone = before[steps.target], after[steps.target]
    else:
        red = (*parents, vertex)
        after[vertex] = False
        done, undone = before[steps.target], after[steps.target]
    room = game.red - int(graph.weights[list(red)].sum())
    return Moment(vertex=vertex, done=done, undone=undone, red=red, room_words=room)


def _closure(neighbours: tuple[tuple[int, ...], ...], start: int, size: int) -> Flags:
    """What can be reached from a vertex, itself included."""
    reached = np.zeros(size, dtype=np.bool_)
    seen = {start}
    stack = [start]
    while stack:
        for each in neighbours[stack.pop()]:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    reached[list(seen)] = True
    return reached


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """The arcs that a flow may use, whatever the moment."""

    game: Game
    steps: Steps

    def entry(self, values: Numbers) -> Numbers:
        """The first node of each value; the second is the next number."""
        return self.steps.count + 2 * values

    @cached_property
    def orders(self) -> tuple[Numbers, Numbers]:
        """Arcs from a step towards a step that must come before it."""
        graph, steps = self.game.graph, self.steps
        if self.game.variant is Variant.PARTIAL:
            hub = steps.count + 2 * len(graph)
            each = np.arange(steps.count, dtype=np.int64)
            return np.concatenate([each, hub + steps.target]), np.concatenate([hub + steps.source, each])
        place = np.full(len(graph), -1, dtype=np.int64)
        place[steps.target] = np.arange(steps.count, dtype=np.int64)
        owners = np.repeat(np.arange(len(graph), dtype=np.int64), np.diff(graph.parent_starts))
        tails, heads = place[owners], place[graph.parent_numbers]
        both = (tails >= 0) & (heads >= 0)
        return tails[both], heads[both]

    def touches(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """The pairs (value, step that touches it) of these values."""
        starts = self.steps.starts
        lengths = starts[values + 1] - starts[values]
        offsets = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(values, lengths), self.steps.numbers[np.repeat(starts[values], lengths) + offsets]

    def orders_among(self, used: Numbers) -> tuple[Numbers, Numbers]:
        """Those order arcs that join the steps given, hubs included."""
        tails, heads = self.orders
        inside = np.zeros(self.steps.count + 3 * len(self.game.graph), dtype=np.bool_)
        inside[used] = True
        if self.game.variant is Variant.PARTIAL:
            inside[self.steps.count + 2 * len(self.game.graph) :] = True
        kept = inside[tails] & inside[heads]
        return tails[kept], heads[kept]
