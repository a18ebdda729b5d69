"""Input pairs: from few inputs only few products can be made, and fewer still for few accumulators.

Theorem: docs/theory/graph_bounds.md. The argument of [Hong and Kung 1981] and [Smith, Lowery, Langou, van de Geijn
2019] for products of matrices, read off from the graph: two inputs of each vertex that has two, the classes of inputs
that such pairs connect, and the chains in which such vertices follow each other.

>>> from attenio.pebbling.graphs.product import product
>>> game = Game(graph=product(12, 12, 12), red=4)
>>> bound = pair_bound(game)
>>> game.graph.compulsory_words, bound.words
(432, 1727)
>>> 2 * 12**3 / 4**0.5 - 2 * 4  # what the theorem about products says
1720.0
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from attenio.pebbling.certified.bound import GraphBound, Numbers, PairWitness, Theorem, best_bound
from attenio.pebbling.certified.hong_kung import epoch_floor
from attenio.pebbling.game import Game, Variant

CITATION = "Hong and Kung 1981; Smith, Lowery, Langou, van de Geijn 2019"
# Every division of an epoch's words between inputs and accumulators is tried up to so many words.
_MOST_DIVISIONS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """What the count needs: how many vertices, how often pairs repeat, and how the inputs are joined."""

    vertices: int
    starts: int  # vertices that follow no other
    per_pair: int  # vertices with the same pair, at most
    per_piece: int  # vertices of the same class of inputs and the same tree of followers, at most
    degree: int  # pairs that one input is in, at most
    two_sided: bool  # no odd cycle of pairs


def pair_bound(game: Game, *, deadline: float = inf) -> GraphBound:
    """The best epoch length, for epochs of loads and for epochs of loads and new accumulators, before the deadline."""
    pairs, heaviest = _pairs(game), game.graph.heaviest_useful

    def offers() -> Iterator[tuple[int, PairWitness]]:
        if not len(pairs):
            return
        shape = _shape(pairs)
        for length in sorted({heaviest - 1 + max(1, round(game.red * 2 ** (i / 8))) for i in range(-16, 25)}):
            for loads_only in (True, False):
                witness = PairWitness(pairs=pairs, epoch_words=length, loads_only=loads_only)
                yield _words(game, shape, length, loads_only=loads_only), witness

    # an epoch moves every value that it begins to move
    nothing = PairWitness(pairs=pairs, epoch_words=max(game.red, heaviest), loads_only=True)
    return best_bound(Theorem.PAIRS, CITATION, offers(), (0, nothing), deadline)


def _pairs(game: Game) -> Numbers:
    """The first two inputs among the parents of every vertex that has two, and the first such vertex that needs it."""
    graph = game.graph
    is_input = np.diff(graph.parent_starts) == 0
    chosen = {}
    for vertex in np.flatnonzero(graph.computed).tolist():
        given = [each for each in graph.parents[vertex] if is_input[each]]
        if len(given) >= 2:
            chosen[vertex] = sorted(given[:2])
    rows = [
        (vertex, one, other, next((each for each in graph.children[vertex] if each in chosen), -1))
        for vertex, (one, other) in chosen.items()
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _shape(pairs: Numbers) -> _Shape:
    rows = pairs.tolist()
    classes = _Joined((one, other) for _, one, other, _ in rows)
    trees = _Joined((vertex, follower) for vertex, _, _, follower in rows if follower >= 0)
    # input u as 2u on one side and 2u + 1 on the other: an odd cycle joins the two
    sides = _Joined(pair for _, u, v, _ in rows for pair in ((2 * u, 2 * v + 1), (2 * u + 1, 2 * v)))
    neighbours: dict[int, set[int]] = {}
    for _, one, other, _ in rows:
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    per_pair = Counter((min(one, other), max(one, other)) for _, one, other, _ in rows)
    per_piece = Counter((classes.root(one), trees.root(vertex)) for vertex, one, _, _ in rows)
    return _Shape(
        vertices=len(rows),
        starts=len(rows) - len({follower for *_, follower in rows if follower >= 0}),
        per_pair=max(per_pair.values()),
        per_piece=max(per_piece.values()),
        degree=max(len(each) for each in neighbours.values()),
        two_sided=all(sides.root(2 * each) != sides.root(2 * each + 1) for each in neighbours),
    )


class _Joined:
    """The sets into which pairs join their members."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._above: dict[int, int] = {}
        for one, other in pairs:
            self._above[self.root(one)] = self.root(other)

    def root(self, number: int) -> int:
        above = self._above
        while above.setdefault(number, number) != number:
            above[number] = above[above[number]]
            number = above[number]
        return number


def _words(game: Game, shape: _Shape, length: int, *, loads_only: bool) -> int:
    partial = game.variant is Variant.PARTIAL
    count = _from_inputs if loads_only else _from_inputs_and_accumulators
    most = max(1, count(shape, game.red + length, partial=partial))
    epochs = -(-shape.vertices // most)
    # An accumulator that is begun ticks like a load but moves nothing.
    return epoch_floor(game, epochs, length, loads_only=True) - (0 if loads_only else shape.starts)


def _from_inputs(shape: _Shape, words: int, *, partial: bool) -> int:
    """Vertices that an epoch finishes when so many words flow in; in the partial game some may be half done before."""

    # Divisions are few enough for 64 bits; without them Python's integers, as the square of a large memory is not.
    divided = partial and words <= _MOST_DIVISIONS
    half_done = np.arange(words + 1, dtype=np.int64) if divided else np.zeros(1, dtype=object)
    inputs = words - half_done
    most = inputs * inputs // 4 if shape.two_sided else inputs * (inputs - 1) // 2
    finished = half_done + shape.per_pair * np.minimum(most, inputs * shape.degree // 2)
    return int(finished.max()) + (words if partial and not divided else 0)


def _from_inputs_and_accumulators(shape: _Shape, words: int, *, partial: bool) -> int:
    """The same when the words are divided between inputs and accumulators: a geometric mean in every class."""
    each = (shape.per_pair * shape.per_piece / (4 if shape.two_sided else 2)) ** 0.5
    if words > _MOST_DIVISIONS or not partial:
        most = each * 2 * (words / 3) ** 1.5 + (words if partial else 0)
    else:
        accumulators = np.arange(words + 1, dtype=np.int64)
        most = float((accumulators + each * (words - accumulators) * np.sqrt(accumulators)).max())
    return int(most * (1 + 1e-12))
