"""Epochs: the exact least number of parts of a partition with small dominators and small minimum sets, on tiny graphs.

Theorem: docs/theory/graph_bounds.md. After [Hong and Kung 1981]; dominators alone for the partial game, as in
[Papp, Sobczyk, Yzelman 2025].

>>> import time
>>> from attenio.pebbling.game import Game, Variant
>>> from attenio.pebbling.graph import ComputationGraph
>>> tree = ComputationGraph.from_edges([(f"x{i}", f"y{i // 3}") for i in range(9)] + [(f"y{i}", "z") for i in range(3)])
>>> bound = partition_bound(Game(graph=tree, red=4), deadline=time.monotonic() + 10)
>>> bound.words <= tree.compulsory_words
True
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attenio.pebbling.certified.bound import GraphBound, OutOfTime, PartitionWitness, Theorem, best_bound
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph

CITATION = "Hong and Kung 1981"
# All pairs of closed sets are listed: at most 3 to this power.
MOST_COMPUTED = 10
_MOST_USEFUL = 30
# Of a graph, the targets, and whether the dominator has to lie outside them.
Dominator = Callable[[ComputationGraph, Sequence[int], bool], int]


def applies(game: Game) -> bool:
    """Whether the graph is small enough."""
    return 0 < int(game.graph.computed.sum()) <= MOST_COMPUTED and int(game.graph.useful.sum()) <= _MOST_USEFUL


def partition_bound(game: Game, *, deadline: float) -> GraphBound:
    """The best epoch length for the exact least number of epochs."""
    heaviest = game.graph.heaviest_useful
    longest = heaviest + game.graph.compulsory_words + game.red

    def offers() -> Iterator[tuple[int, PartitionWitness]]:
        parts = EpochSets(game, dominator_words, deadline)
        for epoch_words in range(heaviest, longest):
            for loads_only in (True,) if game.variant is Variant.PARTIAL else (True, False):
                epochs = parts.fewest(epoch_words, loads_only)
                witness = PartitionWitness(epoch_words=epoch_words, epochs=epochs, loads_only=loads_only)
                yield epoch_floor(game, epochs, epoch_words, loads_only=loads_only), witness

    nothing = PartitionWitness(epoch_words=game.red, epochs=1, loads_only=True)
    bound = best_bound(Theorem.PARTITION, CITATION, offers(), (0, nothing), deadline)
    assert isinstance(bound.witness, PartitionWitness)
    return bound if bound.witness.loads_only else replace(bound, variants=frozenset(Variant) - {Variant.PARTIAL})


def epoch_floor(game: Game, epochs: int, epoch_words: int, *, loads_only: bool) -> int:
    """Words moved if that many epochs are needed: all but the last are full, up to the heaviest value.

    Epochs of loads leave the stores of the outputs to be added.
    """
    stored = game.graph.output_words if loads_only else 0
    return max(0, epochs - 1) * (epoch_words - game.graph.heaviest_useful + 1) + stored


class EpochSets:
    """Every set that can be computed for the first time in one epoch, with its dominator and its minimum set.

    Raises ``OutOfTime`` at the deadline.
    """

    def __init__(self, game: Game, dominator: Dominator, deadline: float) -> None:
        graph = game.graph
        outside = game.variant is not Variant.PARTIAL
        self.red = game.red
        computed = np.flatnonzero(graph.computed).tolist()
        position = {vertex: bit for bit, vertex in enumerate(computed)}
        needs = [sum(1 << position[u] for u in graph.parents[v] if u in position) for v in computed]
        users = [sum(1 << position[u] for u in graph.children[v] if u in position) for v in computed]
        sets = range(1 << len(computed))
        closed = [members for members in sets if all(not needs[bit] & ~members for bit in _bits(members))]
        index = {members: number for number, members in enumerate(closed)}
        self.all = index[(1 << len(computed)) - 1]
        sizes: dict[int, tuple[int, int]] = {0: (0, 0)}
        rows = []
        for below in closed:
            for above in closed:
                part = above & ~below
                if below & ~above:
                    continue
                if part not in sizes:
                    if time.monotonic() >= deadline:
                        raise OutOfTime
                    members = [computed[bit] for bit in _bits(part)]
                    last = [computed[bit] for bit in _bits(part) if not users[bit] & part]
                    sizes[part] = (dominator(graph, members, outside), int(graph.weights[last].sum()))
                rows.append((index[below], index[above], *sizes[part]))
        self.below, self.above, self.dominators, self.lasts = np.array(rows, dtype=np.int64).T
        self.count = len(closed)

    def fewest(self, epoch_words: int, loads_only: bool) -> int:
        """The least number of epochs of so many words in which the whole graph can be computed for the first time.

        A shortest path through the closed sets; nothing is red before the first epoch or has to be after the last.
        """
        fits = {
            (start, end): np.maximum(0, self.dominators - start)
            + (0 if loads_only else np.maximum(0, self.lasts - end))
            <= epoch_words
            for start in (0, self.red)
            for end in (0, self.red)
        }
        ending = self.above == self.all
        if np.any(fits[0, 0] & ending & (self.below == 0)):
            return 1
        reached = np.zeros(self.count, dtype=np.bool_)
        reached[self.above[fits[0, self.red] & (self.below == 0)]] = True
        epochs = 2
        while not np.any(fits[self.red, 0] & ending & reached[self.below]):
            grown = reached.copy()
            grown[self.above[fits[self.red, self.red] & reached[self.below]]] = True
            if np.array_equal(grown, reached):
                return 1  # epochs so short that no game fits them prove nothing
            reached = grown
            epochs += 1
        return epochs


def _bits(members: int) -> Iterator[int]:
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


def dominator_words(graph: ComputationGraph, targets: Sequence[int], outside: bool) -> int:
    """The fewest words of vertices that meet every path from an input to a target: a maximum flow, path by path.

    Vertex v is an arc from node 2v to node 2v + 1 within its words; edges, and targets that are not to be cut, have
    more room than all vertices together.
    """
    ample, source, sink = int(graph.weights.sum()) + 1, -1, -2
    room: defaultdict[int, Counter[int]] = defaultdict(Counter)  # left on each arc, and what may be taken back
    for vertex, needs in enumerate(graph.parents):
        room[2 * vertex][2 * vertex + 1] = ample if outside and vertex in targets else int(graph.weights[vertex])
        for tail in [2 * each + 1 for each in needs] or [source]:
            room[tail][2 * vertex] = ample
    for vertex in targets:
        room[2 * vertex + 1][sink] = ample
    total = 0
    while path := _augmenting(room, source, sink):
        words = min(room[tail][head] for tail, head in path)
        total += words
        for tail, head in path:
            room[tail][head] -= words
            room[head][tail] += words
    return total


def _augmenting(room: Mapping[int, Mapping[int, int]], source: int, sink: int) -> list[tuple[int, int]]:
    """The arcs of a shortest path with room left, from the sink back; none if there is no path."""
    came = {source: source}
    queue = [source]
    for node in queue:
        for head, left in room[node].items():
            if left and head not in came:
                came[head] = node
                queue.append(head)
    path = []
    while sink in came and sink != source:
        path.append((came[sink], sink))
        sink = came[sink]
    return path
