"""Laws of symmetries."""

from itertools import permutations
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.graphs.product import product
from attenio.pebbling.solving.automorphisms import automorphisms, chain


@st.composite
def graphs(draw: st.DrawFn) -> ComputationGraph:
    count = draw(st.integers(2, 9))
    parents = {"v0": ()}
    for v in range(1, count):
        above = draw(st.lists(st.integers(0, v - 1), max_size=2, unique=True))
        parents[f"v{v}"] = tuple(f"v{u}" for u in above)
    weights = {f"v{v}": draw(st.integers(1, 2)) for v in range(count)}
    return ComputationGraph.from_parents(parents, weights=weights)


@settings(deadline=None)
@given(graphs())
def test_symmetries_keep_edges_weights_and_outputs(graph: ComputationGraph) -> None:
    edges = {(u, v) for v, needs in enumerate(graph.parents) for u in needs}
    outputs = set(graph.outputs.tolist())
    found = automorphisms(graph)
    assert found[0] == tuple(range(len(graph)))
    assert len(set(found)) == len(found)
    for image in found:
        assert {(image[u], image[v]) for u, v in edges} == edges
        assert {image[v] for v in outputs} == outputs
        assert all(graph.weights[image[v]] == graph.weights[v] for v in range(len(graph)))


def test_rows_and_columns_of_attention_can_be_exchanged() -> None:
    graph = attention(Head(rows=3, keys=2, d=2), softmax=Softmax.PLAIN)
    # 3! orders of the rows, 2! of the value columns; keys and products are summed in a fixed order. The first two keys
    # of a chain are exchangeable in the maximum but not in the outputs.
    assert len(automorphisms(graph)) == 12


def test_no_more_symmetries_are_returned_than_asked_for() -> None:
    star = ComputationGraph.from_edges([(f"x{i}", "sum") for i in range(8)])
    assert len(automorphisms(star, most=50)) == 50


def test_automorphisms_are_automorphisms_and_leave_earlier_links_in_place() -> None:
    graph = product(2, 2, 2)
    links = chain(graph)
    assert len(links[0].images) >= 3
    for number, link in enumerate(links):
        for vertex, image in link.images.items():
            assert image[link.fixed] == vertex
            assert all(image[earlier.fixed] == earlier.fixed for earlier in links[:number])
            for v, needs in enumerate(graph.parents):
                assert sorted(image[u] for u in needs) == sorted(graph.parents[image[v]])


@settings(deadline=None)
@given(graphs())
def test_products_of_links_are_the_whole_group(graph: ComputationGraph) -> None:
    size = prod(1 + len(link.images) for link in chain(graph))
    everything = (
        {
            image
            for image in permutations(range(len(graph)))
            if {(image[u], image[v]) for v, needs in enumerate(graph.parents) for u in needs}
            == {(u, v) for v, needs in enumerate(graph.parents) for u in needs}
            and all(graph.weights[image[v]] == graph.weights[v] for v in range(len(graph)))
            and {image[v] for v in graph.outputs.tolist()} == set(graph.outputs.tolist())
        }
        if len(graph) <= 6
        else None
    )
    if everything is not None:
        assert len(everything) == size
        assert set(automorphisms(graph, most=size)) == everything
