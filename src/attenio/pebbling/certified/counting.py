"""Dominators by counting: a set of many vertices cannot lie behind few words, since a flow to each of them spreads out.

Theorem: docs/theory/graph_bounds.md. Holds for every variant, recomputation included.

>>> import time
>>> from attenio.pebbling.graphs.fft import fft
>>> game = Game(graph=fft(256), red=3)
>>> game.graph.compulsory_words, counting_bound(game, deadline=time.monotonic() + 60).words
(512, 580)
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attenio.pebbling.certified.bound import CountingWitness, GraphBound, Theorem, best_bound
from attenio.pebbling.certified.hong_kung import epoch_floor
from attenio.pebbling.game import Game, Variant

CITATION = "Hong and Kung 1981 (epochs); counting of flows derived for attenio"
# The matrix of flows is square: 128 MB.
MOST_VERTICES = 4_000
# Relative room for the rounding of sums of up to MOST_VERTICES terms.
_ROUNDING = 1e-9
Reals = NDArray[np.float64]


def applies(game: Game) -> bool:
    """Whether the graph is small enough."""
    return len(game.graph) <= MOST_VERTICES and bool(game.graph.computed.any())


def counting_bound(game: Game, *, deadline: float) -> GraphBound:
    """The best epoch length, for sizes of sets that no dominator of an epoch's words can cover."""
    graph, heaviest, computed = game.graph, game.graph.heaviest_useful, int(game.graph.computed.sum())

    def offers() -> Iterator[tuple[int, CountingWitness]]:
        flows = np.sort(covering(game, visits(game))[graph.computed], axis=0)[::-1]
        np.cumsum(flows, axis=0, out=flows)
        for length in sorted({heaviest - 1 + max(1, round(game.red * 2 ** (i / 4))) for i in range(-8, 17)}):
            first = _most_behind(flows, graph.weights, length)
            later = _most_behind(flows, graph.weights, length + game.red)
            witness = CountingWitness(epoch_words=length, first=first, later=later)
            yield floor_words(game, witness), witness

    nothing = CountingWitness(epoch_words=heaviest, first=computed, later=computed)
    return best_bound(Theorem.COUNTING, CITATION, offers(), (0, nothing), deadline)


def floor_words(game: Game, witness: CountingWitness) -> int:
    """Words moved when no epoch finishes more vertices than the witness says."""
    computed = int(game.graph.computed.sum())
    epochs = 1 + -(-max(0, computed - witness.first) // witness.later)
    return epoch_floor(game, epochs, witness.epoch_words, loads_only=True)


def visits(game: Game) -> Reals:
    """How likely a walk from each vertex (row) back to the inputs, to a parent at random each time, visits each one."""
    graph = game.graph
    matrix = np.zeros((len(graph), len(graph)))
    for vertex, needs in enumerate(graph.parents):
        for each in needs:
            matrix[vertex] += matrix[each]
        if needs:
            matrix[vertex] /= len(needs)
        matrix[vertex, vertex] = 1.0
    return matrix


def covering(game: Game, flows: Reals) -> Reals:
    """What counts towards a dominator: outside the partial game it is disjoint from what an epoch computes first."""
    if game.variant is not Variant.PARTIAL:
        np.fill_diagonal(flows, 0.0)
    return flows


def mass_behind(most: Reals, weights: NDArray[np.int64], words: int) -> float:
    """The most that vertices of so many words cover together, where vertex u covers ``most[u]``; parts allowed."""
    order = np.argsort(-most / weights, kind="stable")
    taken = np.clip(words - (np.cumsum(weights[order]) - weights[order]), 0, weights[order])
    return float((most[order] * (taken / weights[order])).sum()) * (1 + _ROUNDING)


def _most_behind(flows: Reals, weights: NDArray[np.int64], words: int) -> int:
    """The size of the largest set that a dominator of so many words may cover: coverage per vertex only falls."""
    low, high = 0, len(flows)
    while low < high:
        size = (low + high + 1) // 2
        if mass_behind(flows[size - 1], weights, words) >= size:
            low = size
        else:
            high = size - 1
    return max(1, low)
