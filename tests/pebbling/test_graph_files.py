"""Graphs survive every format, and a broken file is refused in one line that says where."""

from pathlib import Path

import networkx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import attenio.pebbling.graph_draft as graph_draft
import attenio.pebbling.graph_files as graph_files
from any_text import CHARACTERS
from attenio.errors import InvalidInput, MissingExtra
from attenio.pebbling.dot_files import dot_graph, dot_text
from attenio.pebbling.edge_lists import edge_list_graph, edge_list_text
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graph_files import from_networkx, read_graph, to_networkx, write_graph
from attenio.pebbling.graphs.attention import Head, attention

from .strategies import QUICK, graphs

ODD = st.text(st.sampled_from("aQ01[],;*%#\"\\'/<>&-= \t\n\r\x85\u2028{}:é∑") | CHARACTERS, max_size=6)


@st.composite
def oddly_named(draw: st.DrawFn, names: st.SearchStrategy[str] = ODD) -> ComputationGraph:
    graph = draw(graphs(max_vertices=6, weighted=True))
    chosen = draw(st.lists(names, min_size=len(graph) + 1, max_size=len(graph) + 1, unique=True))
    *called, title = chosen
    return ComputationGraph.from_parents(
        {called[v]: [called[u] for u in graph.parents[v]] for v in range(len(graph))},
        name=title,
        outputs=[called[v] for v in graph.outputs],
        weights={called[v]: int(graph.weights[v]) for v in range(len(graph))},
    )


def same(graph: ComputationGraph, other: ComputationGraph) -> bool:
    assert graph.name == other.name
    assert graph.names == other.names
    assert graph.parents == other.parents
    assert graph.weights.tolist() == other.weights.tolist()
    assert graph.outputs.tolist() == other.outputs.tolist()
    return True


ATTENTION = attention(Head(rows=2, keys=2, d=2))


@QUICK
@given(oddly_named())
@example(ATTENTION)
def test_an_edge_list_keeps_everything_whatever_the_names(graph: ComputationGraph) -> None:
    assert same(graph, edge_list_graph(edge_list_text(graph), "file.edges"))


@QUICK
@given(oddly_named())
@example(ATTENTION)
def test_dot_keeps_everything_whatever_the_names(graph: ComputationGraph) -> None:
    assert same(graph, dot_graph(dot_text(graph), "file.dot"))


@QUICK
@given(oddly_named())
@example(ATTENTION)
def test_networkx_keeps_everything_whatever_the_names(graph: ComputationGraph) -> None:
    again = from_networkx(to_networkx(graph))
    assert same(graph, again) if graph.name else again.name == "graph"


in_xml = ODD.filter(lambda name: name and graph_files._NOT_IN_XML.search(name) is None)


@QUICK
@given(oddly_named(in_xml))
@example(ATTENTION)
def test_graphml_keeps_everything_whatever_the_names(graph: ComputationGraph) -> None:
    titled = ComputationGraph(**{**vars_of(graph), "name": "a title"})
    assert same(titled, graph_files._graphml_graph(graph_files._graphml_bytes(titled).decode(), "file.graphml"))


def vars_of(graph: ComputationGraph) -> dict[str, object]:
    fields = ("name", "names", "parent_starts", "parent_numbers", "weights", "outputs")
    return {field: getattr(graph, field) for field in fields}


@pytest.mark.parametrize("suffix", [".graphml", ".dot", ".gv", ".edges", ".txt", ".DOT"])
def test_files_keep_everything(tmp_path: Path, suffix: str) -> None:
    graph = attention(Head(rows=2, keys=3, d=1, accumulator_words=2))
    assert write_graph(graph, tmp_path / f"a{suffix}") == tmp_path / f"a{suffix}"
    assert same(graph, read_graph(str(tmp_path / f"a{suffix}")))


@pytest.mark.parametrize(
    "text",
    [
        "a sum\nb sum\n",
        "# an addition\n\na\tsum\nb\tsum  \n",
        "a  sum # first\r\n  b sum\r\n",
        '"a" "sum"\n"b" sum',
        "\ufeff%vertex a\nb sum\na sum\n%output sum\n".lstrip("\ufeff"),
    ],
)
def test_edge_lists_as_people_write_them(text: str) -> None:
    graph = edge_list_graph(text, "sums.edges")
    assert graph.name == "sums"
    assert sorted(graph.names) == ["a", "b", "sum"]
    assert {graph.names[u] for u in graph.parents[graph.number("sum")]} == {"a", "b"}
    assert [graph.names[v] for v in graph.outputs] == ["sum"]


def test_tabs_separate_names_with_spaces() -> None:
    graph = edge_list_graph("query row 0\tscore, first\n%weight\tscore, first\t2\n", "file.txt")
    assert graph.names == ("query row 0", "score, first")
    assert graph.weights.tolist() == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "digraph { a -> sum; b -> sum }",
        "strict digraph g {\n  // inputs\n  a; b\n  /* one\n  more */ a -> sum\n# note\n  b -> sum [color=red]\n}\n",
        'DIGRAPH "a name" { rankdir=LR; node [shape=box]; edge [style="x"] a:n -> "sum":s:w  b -> sum [x=1,y=2;z=3] }',
        'digraph { sum [label="a+b", weight="1" output=true]; a [output=false]; a -> sum; b -> sum }',
    ],
)
def test_dot_as_people_write_it(text: str) -> None:
    graph = dot_graph(text, "sums.dot")
    assert sorted(graph.names) == ["a", "b", "sum"]
    assert {graph.names[u] for u in graph.parents[graph.number("sum")]} == {"a", "b"}
    assert graph.weights.tolist() == [1, 1, 1]


def test_dot_chains_numbers_and_defaults() -> None:
    graph = dot_graph("digraph { 1 -> 2 -> 3.5; node [weight=4]; 3.5 -> x_é; -7 -> x_é [weight=9] }", "g.dot")
    assert graph.names == ("1", "2", "3.5", "-7", "x_é")
    assert graph.weights.tolist() == [1, 1, 1, 4, 4]


EDGES_BROKEN = [
    ("a b\na b c\n", "line 2: 3 fields in 'a b c'; an edge is a source and a target"),
    ("a\n", "line 1: 1 field in 'a'"),
    ("a b\n\n# c\na b\n", "line 4: the edge a -> b is given twice; keep one"),
    ("a b\nb a\n", "the graph has a cycle: "),
    ("a a\n", "the graph has a cycle: a -> a"),
    ('a "b\n', "line 1: cannot read '\"b'"),
    ('a "b\\q"\n', "line 1: cannot read"),
    ("%weigth a 3\n", "line 1: cannot read '%weigth a 3'; write %graph NAME"),
    ("a b\n%weight b heavy\n", "line 2: the weight of b is 'heavy'; give a whole number"),
    ("a b\n%weight b 0\n", "line 2: the weight of b is 0"),
    ("a b\n%weight b 2.5\n", "line 2: the weight of b is '2.5'"),
    ("a b\n%weight b 1e999\n", "line 2: the weight of b is '1e999'"),
    ("a b\n%weight c 2\n", "line 2: the graph has no vertex 'c'"),
    ("a b\n%output c\n", "line 2: the graph has no vertex 'c'"),
    ("# nothing\n", "there is no graph in it"),
]
DOT_BROKEN = [
    ("graph { a -- b }", "line 1: the graph is undirected"),
    ("digraph {\n a -- b }", "line 2: '--' is an undirected edge; write '->'"),
    ("digraph { a -> b", "line 1: the end of the file where a name should be"),
    ("digraph {\n a -> \n}", "line 3: '}' where a name should be"),
    ("digraph { a -> b } x", "'x' where nothing after"),
    ("digraph { subgraph c { a } }", "line 1: subgraphs are not read"),
    ("digraph { {a b} -> c }", "line 1: subgraphs are not read"),
    ('digraph {\n "a -> b }', "line 2: cannot read a quote or comment that does not end"),
    ("digraph { /* a -> b }", "line 1: cannot read a quote or comment that does not end"),
    ("digraph { Q[0,1] -> S }", "line 1: [0] is no attribute; put names with brackets in quotes"),
    ('digraph { "a\nb" -> "a\nb" }', "cycle: a\\nb -> a\\nb"),
    ("digraph { a+b }", "line 1: cannot read '+'"),
    ("digraph {\n a -> b\n a -> b }", "line 3: the edge a -> b is given twice; keep one"),
    ("digraph { a -> b -> a }", "the graph has a cycle"),
    ("digraph { a [weight=x] }", "line 1: the weight of a is 'x'"),
    ("digraph { a [output=maybe] }", "line 1: output=maybe of a; write true or false"),
    ("digraph { }", "there is no graph in it"),
    ("hello", "line 1: 'hello' where 'digraph' should be"),
    ("<svg></svg>", "line 1: cannot read '<'"),
]
HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="{}">{}</graph></graphml>'
GRAPHML_BROKEN = [
    (HEAD.format("undirected", '<node id="a"/>'), "the graph is undirected"),
    (
        HEAD.format("directed", '<node id="a"/><node id="b"/>' + '<edge source="a" target="b"/>' * 2),
        "the edge a -> b is given twice",
    ),
    (
        HEAD.format("directed", '<edge source="a" target="b"/><edge source="b" target="a"/>'),
        "the graph has a cycle",
    ),
    (HEAD.format("directed", ""), "there is no graph in it"),
    ("<graphml>\n<graph", "line 2: this is not well-formed XML"),
    ("a b\n", "line 1: this is not well-formed XML"),
    ("<html></html>", "this is not GraphML as networkx reads it"),
    (HEAD.format("directed", '<node id="a"><data key="k">3</data></node>'), "this is not GraphML as networkx reads it"),
]
BROKEN = [
    *((".edges", *each) for each in EDGES_BROKEN),
    *((".dot", *each) for each in DOT_BROKEN),
    *((".graphml", *each) for each in GRAPHML_BROKEN),
    *((suffix, " \n", "is empty") for suffix in graph_files.SUFFIXES),
]


@pytest.mark.parametrize(("suffix", "text", "complaint"), BROKEN)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, suffix: str, text: str, complaint: str) -> None:
    path = tmp_path / f"broken{suffix}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refusal:
        read_graph(path)
    assert complaint in str(refusal.value)
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("suffix", graph_files.SUFFIXES)
def test_more_vertices_than_attenio_pebbles_are_refused_while_reading(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = [(f"a{i}", f"a{i + 1}") for i in range(100)]
    graph = ComputationGraph.from_edges(edges)
    path = write_graph(graph, tmp_path / f"large{suffix}")
    for module in (graph_draft, graph_files):
        monkeypatch.setattr(module, "MOST_VERTICES", 101)
    assert same(read_graph(path), ComputationGraph.from_edges(edges))
    for module in (graph_draft, graph_files):
        monkeypatch.setattr(module, "MOST_VERTICES", 100)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the graph was built")

    monkeypatch.setattr(ComputationGraph, "from_parents", never)
    monkeypatch.setattr(networkx, "read_graphml", never)
    with pytest.raises(InvalidInput, match="more than 100 vertices"):
        read_graph(path)


def test_a_file_too_large_to_hold_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.edges"
    with path.open("wb") as stream:
        stream.truncate(2**30 + 1)  # sparse: takes no room
    with pytest.raises(InvalidInput, match="1,073,741,825 bytes"):
        read_graph(path)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        read_graph(tmp_path / "none.dot")
    (tmp_path / "folder.dot").mkdir()
    with pytest.raises(InvalidInput, match="cannot read"):
        read_graph(tmp_path / "folder.dot")
    (tmp_path / "binary.edges").write_bytes(b"a \xff\xfe\n")
    with pytest.raises(InvalidInput, match="not UTF-8 text"):
        read_graph(tmp_path / "binary.edges")


@pytest.mark.parametrize("name", ["graph.png", "graph", "graph.json"])
def test_an_unknown_ending_is_refused_on_both_ways(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"use \.graphml, \.dot, \.gv, \.edges or \.txt"):
        read_graph(tmp_path / name)
    with pytest.raises(InvalidInput, match=r"use \.graphml, \.dot, \.gv, \.edges or \.txt"):
        write_graph(ATTENTION, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("suffix", "name"), [(".graphml", "a\x00"), (".graphml", "\ud800"), (".dot", "\ud800"), (".edges", "\udfff")]
)
def test_a_name_that_the_format_cannot_hold_is_refused_and_nothing_is_written(
    tmp_path: Path, suffix: str, name: str
) -> None:
    with pytest.raises(InvalidInput, match="rename it"):
        write_graph(ComputationGraph.from_edges([(name, "b")]), tmp_path / f"a{suffix}")
    assert not list(tmp_path.iterdir())


def test_networkx_graphs_of_numbers_are_named_by_their_text() -> None:
    made = networkx.DiGraph([(1, 3), (2, 3)])
    graph = from_networkx(made, name="numbers")
    assert (graph.name, graph.names, graph.weights.tolist()) == ("numbers", ("1", "2", "3"), [1, 1, 1])
    made.add_edge("1", 3)
    with pytest.raises(InvalidInput, match="two vertices are called '1'"):
        from_networkx(made)


def test_networkx_graphs_that_are_no_computations_are_refused() -> None:
    with pytest.raises(InvalidInput, match="undirected"):
        from_networkx(networkx.Graph([(1, 2)]))
    with pytest.raises(InvalidInput, match="given twice"):
        from_networkx(networkx.MultiDiGraph([(1, 2), (1, 2)]))
    with pytest.raises(InvalidInput, match="cycle"):
        from_networkx(networkx.DiGraph([(1, 2), (2, 1)]))
    with pytest.raises(InvalidInput, match="there is no graph"):
        from_networkx(networkx.DiGraph())


def test_weights_of_other_programs_may_be_floats_that_are_whole() -> None:
    made = networkx.DiGraph([("a", "b")])
    made.nodes["b"].update(weight=3.0, output=True)
    assert from_networkx(made).weights.tolist() == [1, 3]
    made.nodes["b"]["weight"] = 3.5
    with pytest.raises(InvalidInput, match=r"the weight of b is 3\.5"):
        from_networkx(made)


def test_without_networkx_graphml_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_graph(ATTENTION, tmp_path / "a.graphml")
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(MissingExtra, match="pebble"):
        read_graph(path)
    with pytest.raises(MissingExtra, match="pebble"):
        write_graph(ATTENTION, path)


def test_many_parents_are_checked_for_repetition_too() -> None:
    lines = [f"a{i} sum" for i in range(40)]
    assert edge_list_graph("\n".join(lines), "f.edges").edges == 40
    with pytest.raises(InvalidInput, match="line 41: the edge a30 -> sum is given twice"):
        edge_list_graph("\n".join([*lines, "a30 sum"]), "f.edges")
