"""What every computation graph obeys, however it is given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.pebbling.graph import MOST_VERTICES, ComputationGraph, check_size

from .strategies import QUICK, graphs


@QUICK
@given(graphs(max_vertices=9, weighted=True), st.randoms(use_true_random=False))
def test_every_vertex_comes_after_its_parents_whatever_the_order_of_edges(graph: ComputationGraph, random) -> None:
    edges = [(graph.names[u], graph.names[v]) for v in range(len(graph)) for u in graph.parents[v]]
    if not edges:
        return
    random.shuffle(edges)
    shuffled = ComputationGraph.from_edges(edges)
    assert all(u < v for v in range(len(shuffled)) for u in shuffled.parents[v])
    again = {(shuffled.names[u], shuffled.names[v]) for v in range(len(shuffled)) for u in shuffled.parents[v]}
    assert again == set(edges)


@QUICK
@given(graphs(max_vertices=9))
def test_children_are_parents_turned_around(graph: ComputationGraph) -> None:
    down = {(u, v) for v in range(len(graph)) for u in graph.parents[v]}
    assert down == {(u, v) for u in range(len(graph)) for v in graph.children[u]}
    assert graph.edges == len(down)
    assert set(graph.inputs.tolist()) == {v for v in range(len(graph)) if not graph.parents[v]}


@st.composite
def graphs_with_spare_parts(draw: st.DrawFn) -> ComputationGraph:
    graph = draw(graphs(max_vertices=9, weighted=True))
    parents = {graph.names[v]: [graph.names[u] for u in graph.parents[v]] for v in range(len(graph))}
    outputs = draw(st.lists(st.sampled_from(graph.names), min_size=1, unique=True))
    weights = dict(zip(graph.names, graph.weights.tolist(), strict=True))
    return ComputationGraph.from_parents(parents, outputs=outputs, weights=weights)


@QUICK
@given(graphs_with_spare_parts())
def test_useful_is_what_reaches_an_output(graph: ComputationGraph) -> None:
    reached = set(graph.outputs.tolist())
    for vertex in reversed(range(len(graph))):
        if vertex in reached:
            reached |= set(graph.parents[vertex])
    assert set(np.flatnonzero(graph.useful).tolist()) == reached


@QUICK
@given(graphs_with_spare_parts())
def test_compulsory_words_are_the_inputs_that_something_useful_needs_and_the_computed_outputs(
    graph: ComputationGraph,
) -> None:
    loaded = {u for v in range(len(graph)) if graph.useful[v] for u in graph.parents[v] if not graph.parents[u]}
    stored = {v for v in graph.outputs.tolist() if graph.parents[v]}
    assert graph.compulsory_words == sum(int(graph.weights[v]) for v in [*loaded, *stored])


def test_vertices_keep_the_order_given_and_parents_theirs() -> None:
    graph = ComputationGraph.from_parents({"b": (), "a": (), "c": ("a", "b"), "d": ("c", "a")})
    assert graph.names == ("b", "a", "c", "d")
    assert graph.parents == ((), (), (1, 0), (2, 1))


def test_vertices_given_before_their_parents_are_moved_behind_them() -> None:
    graph = ComputationGraph.from_parents({"out": ("mid",), "mid": ("in",)}, weights={"mid": 4}, outputs=["out"])
    assert graph.names == ("in", "mid", "out")
    assert graph.weights.tolist() == [1, 4, 1]
    assert graph.outputs.tolist() == [2]


@pytest.mark.parametrize(
    ("edges", "complaint"),
    [
        ([("a", "a")], "cycle: a -> a"),
        ([("a", "b"), ("b", "c"), ("c", "a")], "cycle: "),
        ([("a", "b"), ("c", "b"), ("a", "b")], "the edge a -> b is given twice"),
        ([], "no vertices"),
    ],
)
def test_what_is_no_computation_is_refused(edges: list[tuple[str, str]], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        ComputationGraph.from_edges(edges)


def test_a_long_cycle_is_shown_in_short() -> None:
    edges = [(str(i), str((i + 1) % 1000)) for i in range(1000)]
    with pytest.raises(InvalidInput) as refusal:
        ComputationGraph.from_edges(edges)
    assert "..." in str(refusal.value)
    assert len(str(refusal.value)) < 120


@pytest.mark.parametrize("weight", [0, -1, 1.5, 2**21, True])
def test_a_weight_is_a_count_of_words(weight: object) -> None:
    with pytest.raises(InvalidInput, match="the weight of b"):
        ComputationGraph.from_edges([("a", "b")], weights={"b": weight})  # type: ignore[dict-item]


def test_outputs_and_weights_name_vertices_of_the_graph() -> None:
    with pytest.raises(InvalidInput, match="unknown output 'x'"):
        ComputationGraph.from_edges([("a", "b")], outputs=["x"])
    with pytest.raises(InvalidInput, match="unknown weight 'x'"):
        ComputationGraph.from_edges([("a", "b")], weights={"x": 2})
    with pytest.raises(InvalidInput, match="no outputs"):
        ComputationGraph.from_edges([("a", "b")], outputs=[])
    with pytest.raises(InvalidInput, match="unknown vertex 'x'"):
        ComputationGraph.from_edges([("a", "b")]).number("x")


def test_size_is_refused_with_both_numbers() -> None:
    check_size("graph", MOST_VERTICES)
    with pytest.raises(InvalidInput, match=r"4,000,001 vertices.*4,000,000"):
        check_size("graph", MOST_VERTICES + 1)


def test_a_chain_of_many_vertices_is_built_without_recursion() -> None:
    length = 30_000
    backwards = {str(i): (str(i - 1),) if i else () for i in reversed(range(length))}
    graph = ComputationGraph.from_parents(backwards)
    assert graph.names == tuple(str(i) for i in range(length))
    assert graph.useful.all()
