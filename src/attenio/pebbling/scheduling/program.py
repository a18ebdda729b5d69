"""A game as a list of operations for an order to arrange: what each reads, what it writes.

In the standard and the one-shot game an operation computes a vertex from all its parents; in the partial game it
accumulates one edge. Only what an output depends on is kept.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> program_of(Game(graph=graph, red=3)).targets.tolist()
[2]
>>> program_of(Game(graph=graph, red=2, variant=Variant.PARTIAL)).targets.tolist()
[2, 2]
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import starts_of

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Program(NamedTuple):
    """Operations as arrays. The operands of operation o are ``operands[operand_starts[o]:operand_starts[o + 1]]``.

    Operations are numbered so that every one comes after those that it depends on. A tuple, so that compiled code can
    take it whole.
    """

    targets: Numbers
    operand_starts: Numbers
    operands: Numbers
    # The operations that read each value, as operands above.
    user_starts: Numbers
    users: Numbers
    weights: Numbers
    # How many operations make each value; 0 for inputs and for what is of no use.
    makers: Numbers
    is_output: Flags
    # Whether a value that nothing needs any more may leave without a store.
    droppable: Flags
    red: int
    sliding: bool
    partial: bool


def program_of(game: Game) -> Program:
    """The operations of a game, in the order of the vertex numbers."""
    return _program(game, partial=game.variant is Variant.PARTIAL)


def vertex_by_vertex(game: Game) -> Program:
    """The operations of a game as if every value were computed at once; its orders suit the partial game too."""
    return _program(game, partial=False)


def edge_by_edge(vertices: Program, order: Numbers) -> Numbers:
    """An order of the partial game's operations from one of whole vertices: the edges into each follow one another."""
    starts = vertices.operand_starts
    counts = np.diff(starts)[order]
    ends = np.cumsum(counts)
    return np.repeat(starts[order] - ends + counts, counts) + np.arange(len(vertices.operands), dtype=np.int64)


def _program(game: Game, *, partial: bool) -> Program:
    graph = game.graph
    size = len(graph)
    counts = np.diff(graph.parent_starts)
    computed = np.flatnonzero(graph.computed)
    kept = np.repeat(graph.computed, counts)
    operands = graph.parent_numbers[kept]
    if partial:
        targets = np.repeat(computed, counts[computed])
        operand_starts = np.arange(len(targets) + 1, dtype=np.int64)
    else:
        targets = computed
        operand_starts = np.concatenate([[0], np.cumsum(counts[computed])]).astype(np.int64)
    owners = np.repeat(np.arange(len(targets), dtype=np.int64), np.diff(operand_starts))
    is_output = np.zeros(size, dtype=np.bool_)
    is_output[graph.outputs] = True
    droppable = np.ones(size, dtype=np.bool_)
    # The partial game does not let go of an unsaved value with an unmarked edge, even if that edge leads nowhere.
    droppable[graph.parent_numbers[~kept]] = not partial
    return Program(
        targets=targets.astype(np.int64),
        operand_starts=operand_starts,
        operands=operands,
        user_starts=starts_of(operands, size),
        users=owners[np.argsort(operands, kind="stable")],
        weights=graph.weights,
        makers=np.bincount(targets, minlength=size).astype(np.int64),
        is_output=is_output,
        droppable=droppable,
        red=game.red,
        sliding=game.sliding,
        partial=partial,
    )
