"""Graphs in files: GraphML, DOT and edge lists, told apart by the ending of the name; and graphs of networkx.

In GraphML, in DOT and in networkx a vertex may have the attributes ``weight`` (words, 1 by default) and ``output``
(true or false; if no vertex has it, the outputs are those that nothing needs). ``edge_lists`` and ``dot_files`` say
what their formats hold.

>>> read_graph("graph.png")
Traceback (most recent call last):
attenio.errors.InvalidInput: graph.png: unknown kind of graph file '.png'; use .graphml, .dot, .gv, .edges or .txt
"""

import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from attenio.errors import InvalidInput, MissingExtra
from attenio.files import write_atomically
from attenio.pebbling.dot_files import dot_graph, dot_text
from attenio.pebbling.edge_lists import edge_list_graph, edge_list_text
from attenio.pebbling.graph import MOST_VERTICES, ComputationGraph
from attenio.pebbling.graph_draft import GraphDraft, read_text

SUFFIXES = (".graphml", ".dot", ".gv", ".edges", ".txt")
_NODE_TAG = re.compile(r"<(?:\w+:)?node[\s/>]")
# What XML 1.0 has no way to write.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def read_graph(path: Path | str) -> ComputationGraph:
    """The graph in a file; the ending of its name says in which format."""
    place = Path(path)
    match _suffix(place):
        case ".graphml":
            return _graphml_graph(read_text(place), str(place))
        case ".dot" | ".gv":
            return dot_graph(read_text(place), str(place))
        case _:
            return edge_list_graph(read_text(place), str(place))


def write_graph(graph: ComputationGraph, path: Path | str) -> Path:
    """Write the graph in the format that the ending of the name says; the path written."""
    place = Path(path)
    suffix = _suffix(place)
    if suffix == ".graphml":
        return write_atomically(place, _graphml_bytes(graph))
    text = dot_text(graph) if suffix in (".dot", ".gv") else edge_list_text(graph)
    try:
        return write_atomically(place, text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidInput(f"cannot write {place}: a name holds {error.object[error.start]!r}; rename it") from None


def to_networkx(graph: ComputationGraph) -> Any:
    """The graph as a ``networkx.DiGraph`` whose vertices are the names.

    Vertices have ``weight`` and ``output``, edges ``position``: which parent of its target the source is, from 0.
    """
    exported = _networkx().DiGraph(name=graph.name)
    outputs = set(graph.outputs.tolist())
    for vertex, (name, words) in enumerate(zip(graph.names, graph.weights.tolist(), strict=True)):
        exported.add_node(name, weight=words, output=vertex in outputs)
    for name, parents in zip(graph.names, graph.parents, strict=True):
        for position, parent in enumerate(parents):
            exported.add_edge(graph.names[parent], name, position=position)
    return exported


def from_networkx(graph: Any, *, name: str | None = None) -> ComputationGraph:
    """The graph of a directed ``networkx`` graph; vertices that are not text are named by their text."""
    called = name or str(graph.graph.get("name") or "graph")
    return _taken_in(graph, GraphDraft(called, name=called))


def _taken_in(graph: Any, draft: GraphDraft) -> ComputationGraph:
    if not graph.is_directed():
        raise draft.complaint("the graph is undirected; a value is computed from its parents, so give directed edges")
    for vertex, attributes in graph.nodes(data=True):
        if not draft.vertex(str(vertex)):
            raise draft.complaint(f"two vertices are called {str(vertex)!r}; rename one")
        draft.describe(str(vertex), attributes)
    for vertex in graph.nodes:
        # Parents in the order of their positions where these are known, else in that of the edges.
        incoming = graph.in_edges(vertex, data=True)
        for source, target, _ in sorted(incoming, key=lambda edge: _position(edge[2])):
            draft.edge(str(source), str(target))
    return draft.finish()


def _position(attributes: Mapping[str, Any]) -> int:
    position = attributes.get("position", 0)
    return position if isinstance(position, int) else 0


def _graphml_bytes(graph: ComputationGraph) -> bytes:
    for name in (graph.name, *graph.names):
        forbidden = _NOT_IN_XML.search(name)
        if forbidden:
            raise InvalidInput(f"GraphML cannot hold {forbidden[0]!r} of the name {name!r}; rename it, or write .dot")
    stream = BytesIO()
    _networkx().write_graphml_xml(to_networkx(graph), stream)
    return stream.getvalue()


def _graphml_graph(text: str, file: str) -> ComputationGraph:
    from xml.etree.ElementTree import ParseError

    draft = GraphDraft(file)
    # Counted before the tree of elements is built, which takes a kilobyte for every one of them.
    if sum(1 for _ in _NODE_TAG.finditer(text)) > MOST_VERTICES:
        raise draft.complaint(f"more than {MOST_VERTICES:,} vertices, the most that attenio pebbles")
    networkx = _networkx()
    try:
        imported = networkx.read_graphml(BytesIO(text.encode("utf-8")), node_type=str)
    except ParseError as error:
        line = error.position[0] if error.position else None
        raise draft.complaint("this is not well-formed XML; save the graph again", line) from None
    except (networkx.NetworkXError, KeyError, ValueError, AttributeError, TypeError) as error:
        what = " ".join(str(error).split()) or type(error).__name__
        raise draft.complaint(f"this is not GraphML as networkx reads it ({what[:80]}); save the graph again") from None
    draft.name = str(imported.graph.get("name") or draft.name)
    return _taken_in(imported, draft)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        known = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise InvalidInput(f"{path}: unknown kind of graph file {suffix!r}; use {known}")
    return suffix


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise MissingExtra("GraphML and networkx", "pebble") from None
    return networkx
