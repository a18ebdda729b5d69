"""The graph of a Jacobi stencil."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.stencil import stencil

from ..strategies import QUICK
from .evaluation import evaluate


@QUICK
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 6), st.integers(1, 2))
def test_its_values_are_sums_over_the_neighbours_that_there_are(
    points: int, steps: int, radius: int, dimensions: int
) -> None:
    grid = np.random.default_rng(points).integers(-9, 9, (points,) * dimensions).astype(float)
    graph = stencil(points, steps, radius, dimensions)

    def name(at: tuple[int, ...], step: int) -> str:
        return f"u[{','.join(map(str, at))};{step}]"

    start = {name(at, 0): float(value) for at, value in np.ndenumerate(grid)}
    values = evaluate(graph, start, lambda _, needs: sum(needs.values()))
    for _ in range(steps):
        following = np.zeros_like(grid)
        for at, other in ((at, other) for at in np.ndindex(grid.shape) for other in np.ndindex(grid.shape)):
            apart = [abs(here - there) for here, there in zip(at, other, strict=True)]
            if sum(1 for each in apart if each) <= 1 and max(apart) <= radius:
                following[at] += grid[other]
        grid = following
    assert {name(at, steps): float(value) for at, value in np.ndenumerate(grid)} == {
        graph.names[vertex]: values[graph.names[vertex]] for vertex in graph.outputs
    }
    assert len(graph) == points**dimensions * (steps + 1)


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ((0, 1, 1, 1), "points is 0"),
        ((3, 0, 1, 1), "steps is 0"),
        ((3, 1, 0, 1), "radius is 0"),
        ((3, 1, 1, 3), "line .1. and on a plane .2."),
        ((10**6, 10**6, 1, 1), "vertices"),
        ((10**6, 2, 10**6, 1), "edges"),
    ],
)
def test_bad_sizes_are_refused(sizes: tuple[int, int, int, int], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        stencil(*sizes)
