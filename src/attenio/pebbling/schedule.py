"""How a game is played: a sequence of moves, as a value.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> schedule = Schedule.of([Move(MoveKind.LOAD, 0), Move(MoveKind.LOAD, 1), Move(MoveKind.COMPUTE, 2),
...                         Move(MoveKind.STORE, 2)])
>>> len(schedule), schedule.cost_words(graph), schedule[2].describe(graph)
(4, 3, 'compute sum')
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.pebbling.graph import ComputationGraph


class MoveKind(Enum):
    """What one move does."""

    LOAD = "load"  # blue -> red beside it, costs the vertex's words
    STORE = "store"  # red -> blue beside it, costs the vertex's words
    COMPUTE = "compute"  # all parents red -> red, in a place of its own or in that of one parent
    ACCUMULATE = "accumulate"  # one parent red -> its edge is marked and the vertex is red and unsaved
    DELETE = "delete"  # red -> nothing


# How a schedule stores its kinds.
KINDS = tuple(MoveKind)
CODES = {kind: code for code, kind in enumerate(KINDS)}
_NO_PARENT = -1


class Move(NamedTuple):
    """One move. ``parent`` is the place that a computed value takes (sliding), or the source of an accumulated edge."""

    kind: MoveKind
    vertex: int
    parent: int | None = None

    def describe(self, graph: ComputationGraph) -> str:
        """The move in words."""
        name = _name(graph, self.vertex)
        if self.parent is None:
            return f"{self.kind.value} {name}"
        joined = "in place of" if self.kind is MoveKind.COMPUTE else "from"
        return f"{self.kind.value} {name} {joined} {_name(graph, self.parent)}"


def _name(graph: ComputationGraph, vertex: int) -> str:
    return graph.names[vertex] if 0 <= vertex < len(graph) else f"vertex {vertex}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """Moves as three arrays of equal length, so that millions of them take little room."""

    kinds: NDArray[np.uint8]
    vertices: NDArray[np.int64]
    parents: NDArray[np.int64]

    @classmethod
    def of(cls, moves: Iterable[Move]) -> "Schedule":
        """The schedule of these moves, in order."""
        listed = list(moves)
        return cls(
            np.fromiter((CODES[move.kind] for move in listed), dtype=np.uint8, count=len(listed)),
            np.fromiter((move.vertex for move in listed), dtype=np.int64, count=len(listed)),
            np.fromiter(
                (_NO_PARENT if move.parent is None else move.parent for move in listed),
                dtype=np.int64,
                count=len(listed),
            ),
        )

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, step: int) -> Move:
        parent = int(self.parents[step])
        return Move(KINDS[self.kinds[step]], int(self.vertices[step]), None if parent == _NO_PARENT else parent)

    def __iter__(self) -> Iterator[Move]:
        for kind, vertex, parent in zip(
            self.kinds.tolist(), self.vertices.tolist(), self.parents.tolist(), strict=True
        ):
            yield Move(KINDS[kind], vertex, None if parent == _NO_PARENT else parent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        pairs = ((self.kinds, other.kinds), (self.vertices, other.vertices), (self.parents, other.parents))
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]

    def cost_words(self, graph: ComputationGraph) -> int:
        """Words loaded and stored, whether the moves are legal or not."""
        moved = (self.kinds == CODES[MoveKind.LOAD]) | (self.kinds == CODES[MoveKind.STORE])
        return int(graph.weights[self.vertices[moved]].sum())
