r"""Graphs in the DOT language of Graphviz: the part of it that says which vertices and edges there are.

Read are directed graphs of node and edge statements, edge chains, attributes and comments. Of the attributes only
``weight`` and ``output`` of vertices mean something here; subgraphs are refused. In a quoted name ``\"`` is a quote and
``\\`` a backslash.

>>> graph = dot_graph('digraph sums { a -> sum; b -> sum; sum [weight=2] }', "sums.dot")
>>> graph.name, graph.inputs.tolist(), graph.weights.tolist()
('sums', [0, 1], [1, 1, 2])
>>> dot_graph('graph { a -- b }', "sums.dot")
Traceback (most recent call last):
attenio.errors.InvalidInput: sums.dot line 1: the graph is undirected; write 'digraph' and '->'
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graph_draft import GraphDraft

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/|(?:(?<=\n)|\A)\#[^\n]*)
    |(?P<quoted>"(?:[^"\\]|\\.)*")
    |(?P<arrow>->|--)
    |(?P<mark>[{}\[\];,=:])
    |(?P<word>-?(?:\.\d+|\d+(?:\.\d*)?)(?![\w.])|[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r'\\(["\\]|\r?\n)')
_KEYWORDS = {"graph", "digraph", "node", "edge", "subgraph", "strict"}


class _Token(NamedTuple):
    kind: str  # "name", "keyword", "arrow", "mark" or "end"
    text: str
    line: int


def dot_text(graph: ComputationGraph) -> str:
    """The graph in DOT; reading it gives the same graph, the same order of vertices and parents included."""
    names = [_quoted(name) for name in graph.names]
    is_output = set(graph.outputs.tolist())
    lines = [f"digraph {_quoted(graph.name)} {{"]
    for vertex, (name, words) in enumerate(zip(names, graph.weights.tolist(), strict=True)):
        attributes = [f"weight={words}"] * (words > 1) + ["output=true"] * (vertex in is_output)
        lines.append(f"  {name} [{', '.join(attributes)}];" if attributes else f"  {name};")
    for name, parents in zip(names, graph.parents, strict=True):
        lines += [f"  {names[parent]} -> {name};" for parent in parents]
    return "\n".join([*lines, "}"]) + "\n"


def dot_graph(text: str, file: str) -> ComputationGraph:
    """The graph of a DOT file; ``file`` is what errors call it."""
    draft = GraphDraft(file)
    _Reader(text, draft).read()
    return draft.finish()


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Reader:
    """One pass over the tokens, one statement at a time."""

    def __init__(self, text: str, draft: GraphDraft) -> None:
        self._draft = draft
        self._tokens = _tokens(text, draft)
        self._next = next(self._tokens)
        # What ``node [...]`` says holds for vertices first seen after it.
        self._default: dict[str, str] = {}

    def read(self) -> None:
        if self._is("keyword", "strict"):
            self._take()
        if self._is("keyword", "graph"):
            raise self._draft.complaint("the graph is undirected; write 'digraph' and '->'", self._next.line)
        self._expect("keyword", "digraph")
        if self._next.kind == "name":
            self._draft.name = self._take().text
        self._expect("mark", "{")
        while not self._is("mark", "}"):
            self._statement()
        self._take()
        if self._next.kind != "end":
            raise self._wrong("nothing after the closing '}'")

    def _statement(self) -> None:
        if self._is("mark", ";"):
            self._take()
        elif self._is("keyword", "subgraph") or self._is("mark", "{"):
            raise self._draft.complaint("subgraphs are not read; list their edges one by one", self._next.line)
        elif self._next.kind == "keyword" and self._next.text in ("graph", "node", "edge"):
            keyword = self._take().text
            attributes = self._attributes()
            if keyword == "node":
                self._default |= attributes
        else:
            self._vertices()

    def _vertices(self) -> None:
        """A vertex, a chain of edges, or ``name = value``, which sets an attribute of the drawing."""
        first = self._name()
        if self._is("mark", "="):
            self._take()
            self._name()
            return
        self._vertex(first)
        chained = False
        while self._next.kind == "arrow":
            if self._next.text == "--":
                raise self._draft.complaint("'--' is an undirected edge; write '->'", self._next.line)
            self._take()
            second = self._name()
            self._vertex(second)
            self._draft.edge(first.text, second.text, line=second.line)
            first, chained = second, True
        attributes = self._attributes()
        if not chained:
            self._draft.describe(first.text, attributes, line=first.line)

    def _vertex(self, token: _Token) -> None:
        if self._is("mark", ":"):  # a port: where an edge is drawn to
            while self._is("mark", ":"):
                self._take()
                self._name()
        if self._draft.vertex(token.text, line=token.line) and self._default:
            self._draft.describe(token.text, self._default, line=token.line)

    def _attributes(self) -> dict[str, str]:
        attributes: dict[str, str] = {}
        while self._is("mark", "["):
            self._take()
            while not self._is("mark", "]"):
                key = self._name()
                if not self._is("mark", "="):
                    # Q[0,1] without quotes would be read as a vertex Q with attributes
                    what = f"[{key.text}] is no attribute; put names with brackets in quotes"
                    raise self._draft.complaint(what, key.line)
                self._take()
                attributes[key.text] = self._name().text
                if self._is("mark", ",") or self._is("mark", ";"):
                    self._take()
            self._take()
        return attributes

    def _is(self, kind: str, text: str) -> bool:
        return self._next.kind == kind and self._next.text == text

    def _take(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _name(self) -> _Token:
        if self._next.kind != "name":
            raise self._wrong("a name")
        return self._take()

    def _expect(self, kind: str, text: str) -> None:
        if not self._is(kind, text):
            raise self._wrong(f"'{text}'")
        self._take()

    def _wrong(self, expected: str) -> Exception:
        seen = "the end of the file" if self._next.kind == "end" else repr(self._next.text)
        return self._draft.complaint(f"{seen} where {expected} should be", self._next.line)


def _tokens(text: str, draft: GraphDraft) -> Iterator[_Token]:
    place, line = 0, 1
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            what = "a quote or comment that does not end" if text[place] in '"/' else repr(text[place])
            raise draft.complaint(f"cannot read {what}; put names with other than letters and digits in quotes", line)
        kind, token = str(match.lastgroup), match[0]
        place = match.end()
        if kind == "quoted":
            yield _Token("name", _ESCAPE.sub(lambda escaped: escaped[1].strip("\r\n"), token[1:-1]), line)
        elif kind == "word":
            keyword = token.lower() in _KEYWORDS
            yield _Token("keyword" if keyword else "name", token.lower() if keyword else token, line)
        elif kind != "space":
            yield _Token(kind, token, line)
        line += token.count("\n")
    yield _Token("end", "", line)
