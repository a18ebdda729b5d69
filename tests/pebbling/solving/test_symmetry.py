"""Laws of symmetries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.solving.symmetry import automorphisms


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
