"""What every game that computes nothing twice has in common: steps, the values they touch, and which come first.

A step is the computation of a vertex, or of an edge in the partial game. A step *touches* the values that are red while
it is made. A value that is touched before and after some moment is alive then: it is red, or it was stored and is
loaded again.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("a", "c")])
>>> steps = Steps.of(Game(graph=graph, red=3, variant=Variant.ONE_SHOT))
>>> steps.count, [steps.touching(v).tolist() for v in range(3)], steps.price.tolist()
(2, [[0, 1], [0, 1], [1]], [1, 2, 1])
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import starts_of

Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The steps that every such game makes, in one possible order.

    ``target`` is the vertex that a step computes, ``source`` the parent in the partial game (-1 otherwise). The steps
    that touch vertex v are ``numbers[starts[v]:starts[v + 1]]``, in increasing order. ``price`` is what a word of a
    value that is alive and not red adds to the compulsory words: 2 if it would otherwise not be moved, 1 for an input
    or output.
    """

    count: int
    target: Numbers
    source: Numbers
    starts: Numbers
    numbers: Numbers
    price: Numbers

    @classmethod
    def of(cls, game: Game) -> "Steps":
        """The steps of a one-shot or partial game."""
        graph = game.graph
        owners = np.repeat(np.arange(len(graph), dtype=np.int64), np.diff(graph.parent_starts))
        needed = graph.useful[owners]
        sources, targets = graph.parent_numbers[needed], owners[needed]
        is_input = np.diff(graph.parent_starts) == 0
        if game.variant is Variant.PARTIAL:
            computed, origin = targets, sources
            each = np.arange(len(computed), dtype=np.int64)
            touched, by = np.concatenate([targets, sources]), np.concatenate([each, each])
        else:
            computed = np.flatnonzero(graph.computed).astype(np.int64)
            origin = np.full(len(computed), -1, dtype=np.int64)
            place = np.zeros(len(graph), dtype=np.int64)
            place[computed] = np.arange(len(computed), dtype=np.int64)
            touched, by = np.concatenate([computed, sources]), np.concatenate([place[computed], place[targets]])
        order = np.lexsort((by, touched))
        price = np.full(len(graph), 2, dtype=np.int64)
        price[is_input] = 1
        price[graph.outputs] = 1
        return cls(
            count=len(computed),
            target=computed,
            source=origin,
            starts=starts_of(touched, len(graph)),
            numbers=by[order],
            price=price,
        )

    def touching(self, vertex: int) -> Numbers:
        """The steps that touch a value."""
        return self.numbers[self.starts[vertex] : self.starts[vertex + 1]]
