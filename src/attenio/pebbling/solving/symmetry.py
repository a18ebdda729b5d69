"""Symmetries of a graph: renumberings that keep its edges, weights and outputs.

Two positions of a game that a symmetry carries into each other cost the same to finish, so a search need keep only one.

>>> from attenio.pebbling.graph import ComputationGraph
>>> addition = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> [list(map(int, each)) for each in automorphisms(addition)]
[[0, 1, 2], [1, 0, 2]]
"""

from collections.abc import Sequence

from attenio.pebbling.graph import ComputationGraph

__all__ = ["automorphisms"]

# Every position is compared under every symmetry, so that more of them cost more than they save.
_MOST = 240
# Steps of the backtracking search; a graph that needs more keeps the symmetries found so far.
_MOST_STEPS = 200_000


def automorphisms(graph: ComputationGraph, *, most: int = _MOST) -> list[tuple[int, ...]]:
    """Symmetries as tuples of images, the identity first; at most ``most``, so not always the whole group.

    Any set of symmetries may be used to identify positions: each one maps games to games of the same cost. A part of
    the group only identifies fewer.
    """
    colours = _stable_colours(graph)
    order = _connected_order(graph, colours)
    classes: dict[int, list[int]] = {}
    for vertex, colour in enumerate(colours):
        classes.setdefault(colour, []).append(vertex)
    parents = [set(needs) for needs in graph.parents]
    found: list[tuple[int, ...]] = []
    image = [-1] * len(graph)
    taken = [False] * len(graph)
    placed_before = _placed_neighbours(graph, order)
    choices = [_candidates(order[0], colours, classes)] if order else []
    steps = 0
    while choices and len(found) < most and steps < _MOST_STEPS:
        depth = len(choices) - 1
        vertex = order[depth]
        if image[vertex] >= 0:
            taken[image[vertex]] = False
            image[vertex] = -1
        if not choices[-1]:
            choices.pop()
            continue
        steps += 1
        target = choices[-1].pop()
        above, below = placed_before[depth]
        if taken[target] or not (
            all(image[u] in parents[target] for u in above) and all(target in parents[image[w]] for w in below)
        ):
            continue
        image[vertex], taken[target] = target, True
        if depth + 1 == len(order):
            found.append(tuple(image))
        else:
            choices.append(_candidates(order[depth + 1], colours, classes))
    return found


def _candidates(vertex: int, colours: Sequence[int], classes: dict[int, list[int]]) -> list[int]:
    """What a vertex may map to, in the order in which they are popped: itself first."""
    others = [each for each in reversed(classes[colours[vertex]]) if each != vertex]
    return [*others, vertex]


def _stable_colours(graph: ComputationGraph) -> list[int]:
    """Colours that symmetric vertices share: refined by the colours of parents and children until nothing changes."""
    outputs = set(graph.outputs.tolist())
    signatures: list[object] = [
        (int(graph.weights[v]), v in outputs, len(graph.parents[v]), len(graph.children[v])) for v in range(len(graph))
    ]
    colours, count = _numbered(signatures)
    while True:
        signatures = [
            (
                colours[v],
                tuple(sorted(colours[u] for u in graph.parents[v])),
                tuple(sorted(colours[w] for w in graph.children[v])),
            )
            for v in range(len(graph))
        ]
        colours, refined = _numbered(signatures)
        if refined == count:
            return colours
        count = refined


def _numbered(signatures: Sequence[object]) -> tuple[list[int], int]:
    number: dict[object, int] = {}
    return [number.setdefault(each, len(number)) for each in signatures], len(number)


def _connected_order(graph: ComputationGraph, colours: Sequence[int]) -> list[int]:
    """Vertices so that each is next to an earlier one where possible: its images are then few."""
    sizes = {colour: colours.count(colour) for colour in set(colours)}
    order: list[int] = []
    seen = [False] * len(graph)
    for root in sorted(range(len(graph)), key=lambda v: (sizes[colours[v]], -v)):
        if seen[root]:
            continue
        seen[root] = True
        stack = [root]
        while stack:
            vertex = stack.pop()
            order.append(vertex)
            for each in (*graph.parents[vertex], *graph.children[vertex]):
                if not seen[each]:
                    seen[each] = True
                    stack.append(each)
    return order


def _placed_neighbours(graph: ComputationGraph, order: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """For each place in the order, the parents and the children that come earlier in it."""
    place = {vertex: position for position, vertex in enumerate(order)}
    return [
        (
            [u for u in graph.parents[v] if place[u] < position],
            [w for w in graph.children[v] if place[w] < position],
        )
        for position, v in enumerate(order)
    ]
