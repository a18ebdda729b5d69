"""Pyramids and complete binary trees."""

from math import comb

import pytest

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.pyramid import binary_tree, pyramid

from .evaluation import ancestors, evaluate


@pytest.mark.parametrize("height", [1, 2, 5, 9])
def test_a_pyramid_of_sums_has_binomial_coefficients_on_its_inputs(height: int) -> None:
    graph = pyramid(height)
    assert len(graph) == (height + 1) * (height + 2) // 2
    for place in range(height + 1):
        unit = {f"v[0,{i}]": float(i == place) for i in range(height + 1)}
        values = evaluate(graph, unit, lambda _, needs: sum(needs.values()))
        assert values[f"v[{height},0]"] == comb(height, place)


@pytest.mark.parametrize("height", [1, 2, 5])
def test_a_tree_of_sums_adds_every_leaf_once(height: int) -> None:
    graph = binary_tree(height)
    assert len(graph) == 2 ** (height + 1) - 1
    assert graph.edges == len(graph) - 1
    leaves = {f"v[0,{i}]": 2.0**i for i in range(2**height)}
    values = evaluate(graph, leaves, lambda _, needs: sum(needs.values()))
    assert values[f"v[{height},0]"] == 2.0 ** (2**height) - 1


@pytest.mark.parametrize("graph", [pyramid(4), binary_tree(4)])
def test_there_is_one_output_and_it_needs_everything(graph) -> None:
    (apex,) = graph.outputs.tolist()
    assert len(ancestors(graph, graph.names[apex])) == len(graph) - 1


@pytest.mark.parametrize("build", [pyramid, binary_tree])
@pytest.mark.parametrize("height", [0, -3, 10**4, 10**9, 1.5])
def test_bad_heights_are_refused(build, height: int) -> None:
    with pytest.raises(InvalidInput, match=r"height is|vertices"):
        build(height)


def test_a_tree_that_would_be_too_large_is_refused_by_its_size() -> None:
    with pytest.raises(InvalidInput, match="binary-tree has 4,194,303 vertices"):
        binary_tree(21)
