"""A Jacobi stencil as a graph: every point, step after step, from itself and its neighbours one step before.

``u[i;s]`` is point i after s steps, ``u[i,j;s]`` on a plane. Neighbours lie up to ``radius`` away along each axis;
those beyond an edge are left out.

>>> graph = stencil(3, steps=1)
>>> [graph.names[u] for u in graph.parents[graph.number("u[0;1]")]]
['u[0;0]', 'u[1;0]']
>>> [graph.names[u] for u in graph.parents[graph.number("u[1;1]")]]
['u[0;0]', 'u[1;0]', 'u[2;0]']
"""

from collections.abc import Sequence
from itertools import product

from attenio.errors import InvalidInput
from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Parents
from attenio.quantities import checked_count

# A wide radius gives few vertices very many parents.
_MOST_EDGES = 20_000_000

Point = tuple[int, ...]


def stencil(points: int, steps: int, radius: int = 1, dimensions: int = 1) -> ComputationGraph:
    """``steps`` steps on a line of ``points`` points, or on a plane of points x points."""
    for name, value in (("points", points), ("steps", steps), ("radius", radius), ("dimensions", dimensions)):
        checked_count(name, value)
    if dimensions > 2:
        raise InvalidInput(f"dimensions is {dimensions:,}; attenio has stencils on a line (1) and on a plane (2)")
    check_size("stencil", points**dimensions * (steps + 1))
    reach = min(radius, points - 1)
    edges = points**dimensions * steps * (2 * dimensions * reach + 1)
    if edges > _MOST_EDGES:
        raise InvalidInput(
            f"stencil has up to {edges:,} edges; attenio builds up to {_MOST_EDGES:,}: use a smaller radius"
        )
    places = list(product(range(points), repeat=dimensions))
    needs = [[_index(near, points) for near in _neighbours(place, points, reach)] for place in places]
    before = _level(places, 0)
    parents: Parents = dict.fromkeys(before, ())
    for step in range(1, steps + 1):
        after = _level(places, step)
        for vertex, needed in zip(after, needs, strict=True):
            parents[vertex] = tuple([before[near] for near in needed])
        before = after
    return ComputationGraph.from_parents(parents, name="stencil", outputs=before)


def _neighbours(place: Point, points: int, reach: int) -> list[Point]:
    """The point itself and those within reach along each axis, in the order of the grid."""
    near = {place}
    for axis, centre in enumerate(place):
        for shifted in range(max(0, centre - reach), min(points, centre + reach + 1)):
            near.add((*place[:axis], shifted, *place[axis + 1 :]))
    return sorted(near)


def _index(place: Point, points: int) -> int:
    index = 0
    for coordinate in place:
        index = index * points + coordinate
    return index


def _level(places: Sequence[Point], step: int) -> list[str]:
    return [f"u[{','.join(map(str, place))};{step}]" for place in places]
