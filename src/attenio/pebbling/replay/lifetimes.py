"""Where each value leaves fast memory: as soon as nothing needs it any more, or it is loaded or computed again.

Whatever the order of loads, stores and computations, no other choice of deletions holds fewer words at any time. A
computed value takes the place of a parent that is needed for the last time, as accumulating in place does.
"""

from collections.abc import Sequence

from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Move, MoveKind


def with_deletions(graph: ComputationGraph, moves: Sequence[Move]) -> list[list[Move]]:
    """For each load, store or computation, the move itself (computations in place) and the deletions after it.

    >>> graph = ComputationGraph.from_edges([("a", "b"), ("a", "c"), ("b", "c")])
    >>> moves = [Move(MoveKind.LOAD, 0), Move(MoveKind.COMPUTE, 1), Move(MoveKind.COMPUTE, 2), Move(MoveKind.STORE, 2)]
    >>> [[move.describe(graph) for move in several] for several in with_deletions(graph, moves)]
    [['load a'], ['compute b'], ['compute c in place of a', 'delete b'], ['store c', 'delete c']]
    """
    weights = graph.weights.tolist()
    needed_later = bytearray(len(graph))
    played: list[list[Move]] = []
    for move in reversed(moves):
        vertex = move.vertex
        if move.kind is MoveKind.STORE:
            used: tuple[int, ...] = (vertex,)
        elif move.kind is MoveKind.COMPUTE:
            used = graph.parents[vertex]
        else:
            used = ()
        leaving = [each for each in used if not needed_later[each]]
        if move.kind is not MoveKind.STORE and not needed_later[vertex]:
            leaving.append(vertex)
        place = None
        if move.kind is MoveKind.COMPUTE and (free := [each for each in leaving if each != vertex]):
            place = max(free, key=lambda each: weights[each])
            leaving.remove(place)
        played.append([Move(move.kind, vertex, place), *(Move(MoveKind.DELETE, each) for each in leaving)])
        if move.kind is not MoveKind.STORE:
            needed_later[vertex] = 0
        for each in used:
            needed_later[each] = 1
    return played[::-1]
