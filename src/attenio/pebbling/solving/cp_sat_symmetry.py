"""Which vertices can be exchanged: automorphisms of a graph along a chain of fixed vertices.

If an automorphism takes vertex b to vertex x, then whatever a schedule does to x another one does to b at the same time
and cost. So of all vertices to which b can be taken, b may be assumed the first to be touched; then, with b fixed, the
same holds for a second vertex, and so on. An inequality left out only leaves symmetry in, so the search may give up.

>>> from attenio.pebbling.graph import ComputationGraph
>>> from attenio.pebbling.game import Game
>>> graph = ComputationGraph.from_edges([("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("x", "z"), ("y", "z")])
>>> links = chain(Task.of(Game(graph=graph, red=3)))
>>> [(graph.names[link.fixed], [graph.names[v] for v in link.images]) for link in links]
[('a', ['b', 'c', 'd']), ('c', ['d'])]
"""

from collections.abc import Sequence
from dataclasses import dataclass

from attenio.pebbling.solving.cp_sat_phases import Task, Tick, unlimited

__all__ = ["Link", "chain"]

# Automorphisms of graphs beyond this size take longer to find than they save; the programs are out of reach anyway.
_MOST_VERTICES = 120
_MOST_TRIES = 400

Colours = list[int]


@dataclass(frozen=True, kw_only=True)
class Link:
    """A vertex, and for each vertex that it can be taken to, the automorphism (image of every vertex) that does it."""

    fixed: int
    images: dict[int, tuple[int, ...]]


def chain(task: Task, tick: Tick = unlimited) -> list[Link]:
    """Links, each of which leaves the vertices of the links before it in place."""
    if len(task.vertices) > _MOST_VERTICES:
        return []
    finder = _Finder(task, tick)
    fixed: list[int] = []
    links = []
    for _ in task.vertices:
        colours = finder.refined(finder.plain(fixed, fixed))[0]
        cells: dict[int, list[int]] = {}
        for v in task.vertices:
            cells.setdefault(colours[v], []).append(v)
        # the largest cell breaks the most symmetry; the first one of them, so that inputs come first
        cell = max(cells.values(), key=len)
        if len(cell) == 1:
            break
        found = {x: finder.automorphism([*fixed, cell[0]], [*fixed, x]) for x in cell[1:]}
        images = {x: image for x, image in found.items() if image is not None}
        if images:
            links.append(Link(fixed=cell[0], images=images))
        fixed.append(cell[0])
    return links


class _Finder:
    """Looks for automorphisms by refining colours on two copies of the graph at once."""

    def __init__(self, task: Task, tick: Tick) -> None:
        self.tick = tick
        graph = task.game.graph
        self.parents, self.children = graph.parents, graph.children
        inside = set(task.vertices)
        outputs = set(graph.outputs.tolist())
        useful = graph.useful.tolist()
        traits = [
            (v in inside, task.weights[v], v in outputs, useful[v], not self.parents[v]) for v in range(len(graph))
        ]
        number = {each: at for at, each in enumerate(sorted(set(traits)))}
        self.base = [number[each] for each in traits]

    def plain(self, left: Sequence[int], right: Sequence[int]) -> tuple[Colours, Colours]:
        """Colours to begin with: the n-th vertex on the left and the n-th on the right have a colour of their own."""
        sides = (list(self.base), list(self.base))
        for chosen, colours in zip((left, right), sides, strict=True):
            for number, v in enumerate(chosen):
                colours[v] = -1 - number
        return sides

    def refined(self, sides: tuple[Colours, Colours]) -> tuple[Colours, Colours]:
        """Colours split until parents and children of equal ones are coloured equally."""
        left, right = sides
        kinds = 0
        while True:
            signatures = [
                [
                    (
                        own[v],
                        tuple(sorted(own[u] for u in self.parents[v])),
                        tuple(sorted(own[w] for w in self.children[v])),
                    )
                    for v in range(len(own))
                ]
                for own in (left, right)
            ]
            number = {each: at for at, each in enumerate(sorted({*signatures[0], *signatures[1]}))}
            left, right = ([number[each] for each in side] for side in signatures)
            if len(number) == kinds:
                return left, right
            kinds = len(number)

    def automorphism(self, left: list[int], right: list[int]) -> tuple[int, ...] | None:
        """An automorphism that takes the left vertices to the right ones, or None if none was found."""
        self.tries = 0
        return self._extend(left, right)

    def _extend(self, left: list[int], right: list[int]) -> tuple[int, ...] | None:
        self.tick()
        self.tries += 1
        if self.tries > _MOST_TRIES:
            return None
        mine, theirs = self.refined(self.plain(left, right))
        if sorted(mine) != sorted(theirs):
            return None
        where: dict[int, list[int]] = {}
        for v, colour in enumerate(theirs):
            where.setdefault(colour, []).append(v)
        open_vertex = next((v for v, colour in enumerate(mine) if len(where[colour]) > 1), None)
        if open_vertex is None:
            image = tuple(where[colour][0] for colour in mine)
            return image if self._is_automorphism(image) else None
        for candidate in where[mine[open_vertex]]:
            found = self._extend([*left, open_vertex], [*right, candidate])
            if found is not None:
                return found
        return None

    def _is_automorphism(self, image: tuple[int, ...]) -> bool:
        return all(
            self.base[v] == self.base[image[v]] and {image[u] for u in needs} == set(self.parents[image[v]])
            for v, needs in enumerate(self.parents)
        )
