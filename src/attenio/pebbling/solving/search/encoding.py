"""A game as bit sets in arrays, which the compiled search reads.

Only what an output depends on is encoded, with numbers of its own. A position of the game is eight 64-bit words:
red pebbles in words 0 and 1, a second set of vertices in 2 and 3, and what has been done (in the standard game: what is
promised) in 4 to 7. Words that are always zero are not stored.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.solving.automorphisms import automorphisms

MOST_SEARCHED = 128
MOST_EDGES = 256
POSITION_WORDS = 8

VARIANTS = {Variant.STANDARD: 0, Variant.ONE_SHOT: 1, Variant.PARTIAL: 2}

Bits = NDArray[np.uint64]
Numbers = NDArray[np.int64]


# One table holds the game, so that compiled functions pass one array: a row for each vertex with these columns,
PARENTS, CHILDREN, UPTO, IN_EDGES, OUT_EDGES, WEIGHT = 0, 2, 4, 6, 10, 14
# then one row of facts, with the set of inputs in columns 0 and 1 and that of computed outputs in 2 and 3,
HEADER = MOST_SEARCHED
COUNT, EDGES, RED, SLIDING, VARIANT, UNIT, COMPULSORY = range(4, 11)
# then the edges, sixteen to a row.
EDGE_ROWS = HEADER + 1


class Encoded(NamedTuple):
    """What the compiled search knows of a game."""

    table: Bits
    symmetries: Numbers  # images of vertices
    edge_symmetries: Numbers  # images of edges
    stored: Numbers  # which words of a position can differ from zero
    vertices: int
    edges: int
    compulsory: int


def encode(game: Game, *, symmetries: int = 240) -> tuple[Encoded, Numbers]:
    """The game as arrays, and the number in the graph of each vertex encoded."""
    graph, originals = _useful_part(game.graph)
    partial = game.variant is Variant.PARTIAL
    _check_size(game, graph, partial=partial)
    table = np.zeros((EDGE_ROWS + MOST_EDGES // 16, 16), dtype=np.uint64)
    number: dict[tuple[int, int], int] = {}
    for vertex, needs in enumerate(graph.parents):
        row = table[vertex]
        row[WEIGHT] = graph.weights[vertex]
        _add(row[UPTO:], vertex)
        for parent in needs:
            _add(row[PARENTS:], parent)
            _add(table[parent, CHILDREN:], vertex)
            row[UPTO : UPTO + 2] |= table[parent, UPTO : UPTO + 2]
            if partial:
                edge = number[parent, vertex] = len(number)
                table[EDGE_ROWS + edge // 16, edge % 16] = parent << 8 | vertex
                _add(row[IN_EDGES:], edge)
                _add(table[parent, OUT_EDGES:], edge)
    facts = table[HEADER]
    for vertex in graph.inputs.tolist():
        _add(facts[0:], vertex)
    for vertex in graph.outputs.tolist():
        if graph.parents[vertex]:
            _add(facts[2:], vertex)
    unit = bool((graph.weights == 1).all())
    facts[COUNT : COMPULSORY + 1] = np.array(
        [len(graph), len(number), game.red, game.sliding, VARIANTS[game.variant], unit, graph.compulsory_words]
    )
    images = automorphisms(graph, most=symmetries) if len(graph) else []
    edge_images = [[number[image[u], image[v]] for u, v in number] for image in images]
    encoded = Encoded(
        table=table,
        symmetries=np.array(images, dtype=np.int64).reshape(len(images), len(graph)),
        edge_symmetries=np.array(edge_images, dtype=np.int64).reshape(len(images), len(number)),
        stored=_stored_words(game.variant, len(graph), len(number)),
        vertices=len(graph),
        edges=len(number),
        compulsory=graph.compulsory_words,
    )
    return encoded, originals


def _useful_part(graph: ComputationGraph) -> tuple[ComputationGraph, Numbers]:
    """The graph without what no computed output depends on."""
    wanted = np.zeros(len(graph), dtype=np.bool_)
    wanted[[v for v in graph.outputs.tolist() if graph.parents[v]]] = True
    for vertex in range(len(graph) - 1, -1, -1):
        if wanted[vertex]:
            wanted[list(graph.parents[vertex])] = True
    originals = np.flatnonzero(wanted).astype(np.int64)
    place = np.cumsum(wanted) - 1
    counts = np.diff(graph.parent_starts)
    part = ComputationGraph(
        name=graph.name,
        names=tuple(graph.names[v] for v in originals.tolist()),
        parent_starts=np.concatenate([[0], np.cumsum(counts[originals])]).astype(np.int64),
        parent_numbers=place[graph.parent_numbers[np.repeat(wanted, counts)]].astype(np.int64),
        weights=graph.weights[originals],
        outputs=place[graph.outputs[wanted[graph.outputs]]].astype(np.int64),
    )
    return part, originals


def _check_size(game: Game, graph: ComputationGraph, *, partial: bool) -> None:
    if len(graph) > MOST_SEARCHED:
        raise InvalidInput(
            f"{game.graph.name} has {len(graph):,} vertices that its outputs need; best-first search takes up to"
            f" {MOST_SEARCHED}: use a smaller graph or a schedule with a bound"
        )
    if partial and graph.edges > MOST_EDGES:
        raise InvalidInput(
            f"{game.graph.name} has {graph.edges:,} edges that its outputs need; best-first search of the partial game"
            f" takes up to {MOST_EDGES}: use a smaller graph or a schedule with a bound"
        )


def _stored_words(variant: Variant, count: int, edges: int) -> Numbers:
    sets = [0, 1] if count > 64 else [0]
    words = sets + [2 + each for each in sets]
    if variant is not Variant.PARTIAL:
        words += [4 + each for each in sets]
    else:
        words += list(range(4, 4 + max(1, (edges + 63) // 64)))
    return np.array(words, dtype=np.int64)


def _add(members: Bits, element: int) -> None:
    members[element >> 6] |= np.uint64(1) << np.uint64(element & 63)
