import numpy as np
from hypothesis import given

from attenio.pebbling import ComputationGraph
from attenio.pebbling.replay.problems import disjoint_union

from ..strategies import QUICK, graphs


@QUICK
@given(graphs(weighted=True), graphs(weighted=True))
def test_graphs_side_by_side_are_each_what_they_were(first, second):
    both = disjoint_union([("one", first), ("two", second)])
    for label, graph, top in (("one", first, 0), ("two", second, len(first))):
        inside = slice(top, top + len(graph))
        assert both.names[inside] == tuple(f"{label}: {name}" for name in graph.names)
        assert both.parents[inside] == tuple(tuple(u + top for u in needs) for needs in graph.parents)
        assert (both.weights[inside] == graph.weights).all()
        assert (both.outputs[(both.outputs >= inside.start) & (both.outputs < inside.stop)] - top).tolist() == (
            graph.outputs.tolist()
        )
    assert both.compulsory_words == first.compulsory_words + second.compulsory_words


def test_a_single_graph_keeps_its_names():
    graph = ComputationGraph.from_edges([("a", "b")])
    assert disjoint_union([("only", graph)]) is graph
    assert graph.parent_starts.dtype == disjoint_union([("x", graph), ("y", graph)]).parent_starts.dtype == np.int64
