"""Automorphisms of a graph: renumberings that keep its edges, weights and outputs.

They are found along a chain of vertices that are fixed one after the other. Each link of the chain has, for every
vertex that its own can be taken to while the earlier ones stay, an automorphism that does it; products of these, one of
each link, are the whole group.

Two uses: positions of a game that an automorphism carries into each other cost the same to finish, so a search need
keep only one; and of all vertices that b can be taken to, b may be assumed the first to be touched. An automorphism
left out only leaves symmetry in, so the search for them may give up. Every one that it returns has been compared with
the graph.

>>> from attenio.pebbling.graph import ComputationGraph
>>> addition = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> automorphisms(addition)
[(0, 1, 2), (1, 0, 2)]
>>> graph = ComputationGraph.from_edges([("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("x", "z"), ("y", "z")])
>>> [(graph.names[link.fixed], [graph.names[v] for v in link.images]) for link in chain(graph)]
[('a', ['b', 'c', 'd']), ('c', ['d'])]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attenio.pebbling.graph import ComputationGraph

# Every position is compared under every automorphism, so that more of them cost more than they save.
_MOST = 240
# Automorphisms of larger graphs take longer to find than they save; their optima are out of reach anyway.
_MOST_VERTICES = 128
_MOST_TRIES = 400

Colours = list[int]
Image = tuple[int, ...]
# Called now and then; raises when the time is up.
Tick = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Link:
    """A vertex, and for each vertex that it can be taken to, the automorphism (image of every vertex) that does it."""

    fixed: int
    images: dict[int, Image]


def chain(graph: ComputationGraph, vertices: Sequence[int] | None = None, *, tick: Tick = int) -> list[Link]:
    """Links, each of which leaves the vertices of the links before it in place; only the given vertices are moved."""
    finder = _Finder(graph, vertices, tick)
    links = [finder.link(fixed, cell) for fixed, cell in finder.levels()]
    return [link for link in links if link.images]


def automorphisms(graph: ComputationGraph, *, most: int = _MOST) -> list[Image]:
    """Automorphisms as tuples of images, the identity first; at most ``most``, so not always the whole group.

    Any set of them may be used to identify positions: each one maps games to games of the same cost. A part of the
    group only identifies fewer. The last links come first: what they make is closed under products.
    """
    finder = _Finder(graph, None, int)
    automorphisms = [tuple(range(len(graph)))]
    for fixed, cell in reversed(finder.levels()):
        if len(automorphisms) >= most:
            break
        link = finder.link(fixed, cell)
        automorphisms += [tuple(image[v] for v in each) for image in link.images.values() for each in automorphisms]
    return automorphisms[:most]


class _Finder:
    """Looks for automorphisms by refining colours on two copies of the graph at once."""

    def __init__(self, graph: ComputationGraph, vertices: Sequence[int] | None, tick: Tick) -> None:
        self.tick = tick
        self.parents, self.children = graph.parents, graph.children
        self.vertices = range(len(graph)) if vertices is None else vertices
        inside = set(self.vertices)
        outputs = set(graph.outputs.tolist())
        useful, weights = graph.useful.tolist(), graph.weights.tolist()
        traits = [(v in inside, weights[v], v in outputs, useful[v], not self.parents[v]) for v in range(len(graph))]
        number = {each: at for at, each in enumerate(sorted(set(traits)))}
        self.base = [number[each] for each in traits]

    def levels(self) -> list[tuple[list[int], list[int]]]:
        """Vertices fixed so far, and those alike among the others of which the first is fixed next."""
        levels: list[tuple[list[int], list[int]]] = []
        fixed: list[int] = []
        while 0 < len(self.vertices) <= _MOST_VERTICES:
            colours = self.refined(self.plain(fixed, fixed))[0]
            cells: dict[int, list[int]] = {}
            for v in self.vertices:
                cells.setdefault(colours[v], []).append(v)
            # the largest cell breaks the most symmetry; the first one of them, so that inputs come first
            cell = max(cells.values(), key=len)
            if len(cell) == 1:
                break
            levels.append((fixed, cell))
            fixed = [*fixed, cell[0]]
        return levels

    def link(self, fixed: list[int], cell: list[int]) -> Link:
        """Where the first vertex of a cell can be taken while the fixed ones stay."""
        images = {x: self.automorphism([*fixed, cell[0]], [*fixed, x]) for x in cell[1:]}
        return Link(fixed=cell[0], images={x: image for x, image in images.items() if image is not None})

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

    def automorphism(self, left: list[int], right: list[int]) -> Image | None:
        """An automorphism that takes the left vertices to the right ones, or None if none was found."""
        self.tries = 0
        return self._extend(left, right)

    def _extend(self, left: list[int], right: list[int]) -> Image | None:
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
            extended = self._extend([*left, open_vertex], [*right, candidate])
            if extended is not None:
                return extended
        return None

    def _is_automorphism(self, image: Image) -> bool:
        return all(
            self.base[v] == self.base[image[v]] and {image[u] for u in needs} == set(self.parents[image[v]])
            for v, needs in enumerate(self.parents)
        )
