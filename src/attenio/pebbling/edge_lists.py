r"""Graphs as edge lists: one ``source target`` pair a line.

Fields are separated by tabs or, in a line that has none, by spaces. A name in double quotes may hold anything, with
backslashes as in JSON; one that begins with ``%`` or ``#`` or holds quotes must be quoted. Text from a field that
begins with ``#`` to the end of the line is a comment. Lines that begin with ``%`` say what is no edge:

    %graph NAME             what the graph is called
    %vertex NAME            a vertex, for those without edges and to fix the order of vertices
    %weight NAME WORDS      the words that a vertex takes, 1 where nothing is said
    %output NAME            an output; without any, those are that nothing needs

>>> graph = edge_list_graph("a sum\nb sum  # addition\n%weight sum 2\n", "sums.edges")
>>> graph.names, graph.weights.tolist(), edge_list_text(graph).splitlines()[-3:]
(('a', 'b', 'sum'), [1, 1, 2], ['b sum', '%weight sum 2', '%output sum'])
"""

import json
import re

from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graph_draft import GraphDraft

_BARE = re.compile(r'[^\s"#%\x00-\x1f][^\s"\x00-\x1f]*')
# Most lines have none of these, and fields between spaces.
_SPECIAL = re.compile('["#\t]')
_FIELD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s"]+)(?=\s|$)')
_TABBED = re.compile(r'[ \r\n]*("(?:[^"\\]|\\.)*"|[^\t"]*)(?:\t|\s*$)')


def edge_list_text(graph: ComputationGraph) -> str:
    """The edge list of a graph; reading it gives the same graph, the same order of vertices and parents included."""
    names = [_field(name) for name in graph.names]
    lines = [f"%graph {_field(graph.name)}"]
    for name, parents in zip(names, graph.parents, strict=True):
        lines += [f"{names[parent]} {name}" for parent in parents] or [f"%vertex {name}"]
    lines += [f"%weight {name} {words}" for name, words in zip(names, graph.weights.tolist(), strict=True) if words > 1]
    lines += [f"%output {names[vertex]}" for vertex in graph.outputs.tolist()]
    return "\n".join(lines) + "\n"


def edge_list_graph(text: str, file: str) -> ComputationGraph:
    """The graph of an edge list; ``file`` is what errors call it."""
    draft = GraphDraft(file)
    # Only line feeds end lines: a name may hold other characters that Unicode counts as line ends.
    for number, line in enumerate(text.split("\n"), 1):
        fields = _fields(line, number, draft)
        if fields:
            _take(fields, number, draft)
    return draft.finish()


def _field(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _fields(line: str, number: int, draft: GraphDraft) -> list[str]:
    """The fields of a line without its comment; bare words as they are, a first one that begins with % included."""
    if not _SPECIAL.search(line):
        return line.split()
    fields: list[str] = []
    stripped = line.strip(" \r\t")
    pattern = _TABBED if "\t" in stripped else _FIELD
    place = 0
    while place < len(stripped):
        match = pattern.match(stripped, place)
        if match is None:
            raise draft.complaint(
                f"cannot read {_shown(stripped[place:].strip())}; write names with quotes as JSON does", number
            )
        place = match.end()
        field = match[1].rstrip(" \r")
        if field.startswith("#"):
            break
        if field:
            fields.append(field)
    return fields


def _take(fields: list[str], number: int, draft: GraphDraft) -> None:
    keyword = fields[0] if fields[0].startswith("%") else ""
    names = [_unquoted(field, number, draft) for field in fields[bool(keyword) :]]
    match keyword, names:
        case "", [source, target]:
            draft.edge(source, target, line=number)
        case "%graph", [name]:
            draft.name = name
        case "%vertex", [name]:
            draft.vertex(name, line=number)
        case "%weight", [name, words]:
            draft.weight(name, words, line=number)
        case "%output", [name]:
            draft.output(name, line=number)
        case "", _:
            counted = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            raise draft.complaint(f"{counted} in {_shown(' '.join(fields))}; an edge is a source and a target", number)
        case _:
            raise draft.complaint(
                f"cannot read {_shown(' '.join(fields))}; write %graph NAME, %vertex NAME, %weight NAME WORDS"
                " or %output NAME, and a name that begins with % in quotes",
                number,
            )


def _unquoted(field: str, number: int, draft: GraphDraft) -> str:
    if not field.startswith('"'):
        return field
    try:
        return str(json.loads(field, strict=False))
    except ValueError:
        raise draft.complaint(f"cannot read {_shown(field)}; use backslashes as JSON does", number) from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
