"""Checks a bound from its witness, by other means than those that found it.

What a theorem is about (the steps, the network of a moment, the Laplacian, the walks and what words cover) is built by
the same code on both sides. The tests compare that code with exhaustive search.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from math import inf, isqrt
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput, MissingExtra
from attenio.pebbling.certified import counting, hong_kung, spectral
from attenio.pebbling.certified.bound import (
    CountingWitness,
    FlowWitness,
    GraphBound,
    OutOfTime,
    PairWitness,
    PartitionWitness,
    SpectralWitness,
    Theorem,
    WavefrontWitness,
)
from attenio.pebbling.certified.moment import Network, moment_at
from attenio.pebbling.certified.steps import Steps
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.quantities import show_words

Reals = NDArray[np.float64]

# Up to so many words every division of an epoch of the partial game is tried.
_MOST_DIVISIONS = 1_000_000


def verify(game: Game, bound: GraphBound, *, deadline: float = inf) -> None:
    """Raise ``InvalidInput`` unless the witness proves the bound for this game.

    Raises ``OutOfTime`` if the check would last beyond the deadline (of ``time.monotonic``).
    """
    if game.variant not in bound.variants:
        raise InvalidInput(f"the {bound.theorem.value} bound does not hold for the {game.variant.value} game")
    witness = bound.witness
    match witness:
        case None:
            if bound.theorem is not Theorem.COMPULSORY:
                raise _failure(bound.theorem, "it is missing")
            proven = game.graph.compulsory_words
        case PartitionWitness():
            proven = _partition(game, witness, deadline)
        case CountingWitness():
            proven = _counting(game, witness)
        case PairWitness():
            proven = _pairs(game, witness)
        case WavefrontWitness():
            proven = _wavefront(game, witness, deadline)
        case SpectralWitness():
            proven = _spectral(game, witness, deadline)
        case _:
            assert_never(witness)
    if bound.words > proven:
        raise _failure(bound.theorem, f"it proves {show_words(proven)}, not {bound.words:,}")


def _failure(theorem: Theorem, reason: str) -> InvalidInput:
    return InvalidInput(f"the witness of the {theorem.value} bound fails: {reason}; compute the bound again")


def _partition(game: Game, witness: PartitionWitness, deadline: float) -> int:
    if not hong_kung.applies(game):
        raise _failure(Theorem.PARTITION, "the graph is too large to search again")
    if game.variant is Variant.PARTIAL and not witness.loads_only:
        raise _failure(Theorem.PARTITION, "minimum sets say nothing about the partial game")
    if witness.epoch_words < game.graph.heaviest_useful:
        raise _failure(Theorem.PARTITION, f"an epoch of {show_words(witness.epoch_words)} cannot move every value")
    parts = hong_kung.EpochSets(game, _minimum_cut, deadline)
    fewest = parts.fewest(witness.epoch_words, witness.loads_only)
    if witness.epochs > fewest:
        raise _failure(Theorem.PARTITION, f"{fewest:,} epochs suffice, not {witness.epochs:,}")
    return hong_kung.epoch_floor(game, witness.epochs, witness.epoch_words, loads_only=witness.loads_only)


def _minimum_cut(graph: ComputationGraph, targets: Sequence[int], outside: bool) -> int:
    """The words of a smallest dominator, by a general maximum-flow solver."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("checking a partition", "pebble") from error
    network = networkx.DiGraph()
    for vertex, needs in enumerate(graph.parents):
        limit = {} if outside and vertex in targets else {"capacity": int(graph.weights[vertex])}
        network.add_edge((vertex, 0), (vertex, 1), **limit)
        if not needs:
            network.add_edge("inputs", (vertex, 0))
        for each in needs:
            network.add_edge((each, 1), (vertex, 0))
    for vertex in targets:
        network.add_edge((vertex, 1), "targets")
    return int(networkx.maximum_flow_value(network, "inputs", "targets"))


def _counting(game: Game, witness: CountingWitness) -> int:
    if not counting.applies(game):
        raise _failure(Theorem.COUNTING, "the graph is too large to count again")
    graph = game.graph
    flows = counting.visits(game)
    # Flow into each vertex comes back out of it: what a walk visits is what its next vertex was chosen from.
    in_degrees = np.maximum(1, np.diff(graph.parent_starts)).astype(np.float64)
    visitors = np.ascontiguousarray(flows.T)
    for vertex, users in enumerate(graph.children):
        passed = (visitors[list(users)] / in_degrees[list(users), None]).sum(axis=0)
        passed[vertex] += 1.0
        if not np.allclose(passed, visitors[vertex], rtol=1e-9, atol=1e-12):
            raise _failure(Theorem.COUNTING, f"the flows through {graph.names[vertex]} do not add up")
    flows = counting.covering(game, flows)[graph.computed]
    if witness.epoch_words < graph.heaviest_useful:
        raise _failure(Theorem.COUNTING, f"an epoch of {show_words(witness.epoch_words)} cannot move every value")
    for size, words in ((witness.first, witness.epoch_words), (witness.later, witness.epoch_words + game.red)):
        if not 1 <= size <= len(flows):
            raise _failure(Theorem.COUNTING, f"{size:,} is no number of computed vertices")
        if size < len(flows):
            most = np.partition(flows, len(flows) - size - 1, axis=0)[len(flows) - size - 1 :].sum(axis=0)
            if counting.mass_behind(most, graph.weights, words) >= size + 1:
                raise _failure(Theorem.COUNTING, f"{show_words(words)} may cover {size + 1:,} vertices")
    return counting.floor_words(game, witness)


def _pairs(game: Game, witness: PairWitness) -> int:
    graph = game.graph
    if len(np.unique(witness.pairs[:, 0])) < len(witness.pairs):
        raise _failure(Theorem.PAIRS, "a vertex is counted twice")
    if witness.epoch_words < graph.heaviest_useful:
        raise _failure(Theorem.PAIRS, f"an epoch of {show_words(witness.epoch_words)} cannot move every value")
    counted = set(witness.pairs[:, 0].tolist())
    for vertex, one, other, follower in witness.pairs.tolist():
        if not 0 <= vertex < len(graph) or not graph.useful[vertex]:
            raise _failure(Theorem.PAIRS, f"vertex {vertex} need not be computed")
        needs = graph.parents[vertex]
        if one == other or one not in needs or other not in needs or graph.parents[one] or graph.parents[other]:
            raise _failure(Theorem.PAIRS, f"{graph.names[vertex]} has no such two inputs")
        if follower >= 0 and (follower not in counted or follower not in graph.children[vertex]):
            raise _failure(Theorem.PAIRS, f"{graph.names[vertex]} has no such follower")
    return _pair_words(game, witness)


def _pair_words(game: Game, witness: PairWitness) -> int:
    """What the pairs prove, counted again in whole numbers."""
    rows = witness.pairs.tolist()
    if not rows:
        return 0
    classes, two_sided = _components([(one, other) for _, one, other, _ in rows])
    pieces, _ = _components([(vertex, vertex if follower < 0 else follower) for vertex, _, _, follower in rows])
    per_pair = max(Counter(frozenset((one, other)) for _, one, other, _ in rows).values())
    per_piece = max(Counter((classes[one], pieces[vertex]) for vertex, one, _, _ in rows).values())
    pairs_at = Counter(end for pair in {frozenset((one, other)) for _, one, other, _ in rows} for end in pair)
    budget, partial = game.red + witness.epoch_words, game.variant is Variant.PARTIAL

    def from_inputs(x: int) -> int:
        return per_pair * min(x * x // 4 if two_sided else x * (x - 1) // 2, x * max(pairs_at.values()) // 2)

    def with_sums(x: int, z: int) -> int:
        return isqrt(per_pair * per_piece * x * x * z // (4 if two_sided else 2))

    # The division of the partial game: each word that is no input may be a value half done before the epoch.
    divided = range(budget + 1) if partial and budget <= _MOST_DIVISIONS else ()
    if witness.loads_only:
        most = max((z + from_inputs(budget - z) for z in divided), default=from_inputs(budget) + partial * budget)
    else:
        # 2 c (A/3)^(3/2) is the root of c² (2A)² A/27
        whole = isqrt(per_pair * per_piece * 4 * budget**3 // (27 * (4 if two_sided else 2)))
        most = max((z + with_sums(budget - z, z) for z in divided), default=whole + partial * budget)
    epochs = -(-len(rows) // max(1, most))
    full = (epochs - 1) * (witness.epoch_words - game.graph.heaviest_useful + 1)
    starts = {row[0] for row in rows} - {row[3] for row in rows}
    return full + game.graph.output_words - (0 if witness.loads_only else len(starts))


def _components(edges: list[tuple[int, int]]) -> tuple[dict[int, int], bool]:
    """A number for the connected component of every end of an edge, and whether two colours keep neighbours apart."""
    neighbours: dict[int, list[int]] = {}
    for one, other in edges:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    component: dict[int, int] = {}
    colour: dict[int, int] = {}
    for start in neighbours:
        if start not in component:
            component[start], colour[start] = start, 0
            queue = [start]
            for here in queue:
                for there in neighbours[here]:
                    if there not in component:
                        component[there], colour[there] = start, 1 - colour[here]
                        queue.append(there)
    return component, all(colour[one] != colour[other] for one, other in edges)


def _wavefront(game: Game, witness: WavefrontWitness, deadline: float) -> int:
    network = Network(game=game, steps=Steps.of(game))
    left = network.steps.price * game.graph.weights
    extra = 0
    for each in witness.moments:
        if time.monotonic() >= deadline:
            raise OutOfTime
        through, value = _checked_flow(network, each)
        left = left - through
        moment = moment_at(game, network.steps, each.vertex)
        if np.any(through[list(moment.red)]):
            raise _failure(Theorem.WAVEFRONT, "a flow passes through a value that is surely red")
        extra += value - each.dearest * moment.room_words
    if np.any(left < 0):
        crowded = int(left.argmin())
        raise _failure(Theorem.WAVEFRONT, f"the flows exceed the capacity of {game.graph.names[crowded]}")
    return game.graph.compulsory_words + extra


def _checked_flow(network: Network, witness: FlowWitness) -> tuple[NDArray[np.int64], int]:
    """What flows through every value, and the flow's value; refused unless it is a flow from done to undone steps."""
    steps, size = network.steps, len(network.game.graph)
    if not 0 <= witness.vertex < size or not network.game.graph.parents[witness.vertex]:
        raise _failure(Theorem.WAVEFRONT, f"vertex {witness.vertex} is not computed")
    if not network.game.graph.useful[witness.vertex] or witness.dearest not in (1, 2):
        raise _failure(Theorem.WAVEFRONT, f"vertex {witness.vertex} need not be computed, or its price is not 1 or 2")
    tails, heads, amounts = witness.arcs.T
    nodes = steps.count + 3 * size
    if np.any(amounts <= 0) or np.any(witness.arcs[:, :2] < 0) or np.any(witness.arcs[:, :2] >= nodes):
        raise _failure(Theorem.WAVEFRONT, "an arc has no amount or no end")
    values, touching = network.touches(np.arange(size, dtype=np.int64))
    every = np.arange(size, dtype=np.int64)
    order_tails, order_heads = network.orders
    allowed_tails = np.concatenate([touching, network.entry(values) + 1, network.entry(every), order_tails])
    allowed_heads = np.concatenate([network.entry(values), touching, network.entry(every) + 1, order_heads])
    if not np.all(np.isin(tails * nodes + heads, allowed_tails * nodes + allowed_heads)):
        raise _failure(Theorem.WAVEFRONT, "an arc is not in the network")
    net = np.zeros(nodes, dtype=np.int64)
    np.add.at(net, tails, amounts)
    np.subtract.at(net, heads, amounts)
    moment = moment_at(network.game, steps, witness.vertex)
    sources, sinks = np.flatnonzero(moment.done), np.flatnonzero(moment.undone)
    value = int(net[sources].sum())
    net[sources] = 0
    net[sinks] = 0
    if np.any(net):
        raise _failure(Theorem.WAVEFRONT, "flow appears or vanishes on the way")
    inside = (tails >= steps.count) & (tails < steps.count + 2 * size) & ((tails - steps.count) % 2 == 0)
    through = np.zeros(size, dtype=np.int64)
    np.add.at(through, (tails[inside] - steps.count) // 2, amounts[inside])
    if np.any(through > witness.dearest * network.game.graph.weights):
        raise _failure(Theorem.WAVEFRONT, "more flows through a value than its price")
    return through, value


def _spectral(game: Game, witness: SpectralWitness, deadline: float) -> int:
    steps = Steps.of(game)
    if witness.blocks.shape != (steps.count,) or witness.blocks.min(initial=-1) < -1:
        raise _failure(Theorem.SPECTRAL, "its blocks are not those of the steps")
    if not 1 <= witness.segments <= max(1, steps.count) or len(witness.smallest) < witness.segments:
        raise _failure(Theorem.SPECTRAL, f"there are not {witness.segments:,} segments or eigenvalues")
    eigenvalues = list(_eigenvalues(spectral.block_laplacians(game, steps, witness.blocks), deadline))
    values = np.sort(np.concatenate([*eigenvalues, np.zeros(int((witness.blocks < 0).sum()))]))
    claimed = np.sort(witness.smallest)[: witness.segments]
    if np.any(claimed > values[: witness.segments]):
        raise _failure(Theorem.SPECTRAL, "an eigenvalue is smaller than claimed")
    return game.graph.compulsory_words + spectral.segment_words(steps.count, witness.segments, claimed, game.red)


def _eigenvalues(blocks: Iterable[Reals], deadline: float) -> Iterator[Reals]:
    """Lower bounds of the eigenvalues of every block, computed once for equal ones."""
    known: dict[bytes, Reals] = {}
    seconds_per_cube = spectral.CHECK_TIMES * spectral.seconds_per_cube() if deadline < inf else 0.0
    for block in blocks:
        key = sha256(block.tobytes()).digest()
        if key not in known:
            if time.monotonic() + seconds_per_cube * len(block) ** 3 > deadline:
                raise OutOfTime
            known[key] = _eigenvalues_at_least(block)
        yield known[key]


def _eigenvalues_at_least(matrix: Reals) -> Reals:
    """Lower bounds of all eigenvalues from approximate eigenvectors and their residuals.

    With V the vectors, E = V'LV - diag(t) and F = V'V - I, the eigenvalues of V'LV are within |E| of t (Weyl) and at
    most 1 + |F| times those of L (Ostrowski), whatever V is.
    """
    values, vectors = np.linalg.eigh(matrix)
    residual = np.linalg.norm(vectors.T @ matrix @ vectors - np.diag(values))
    skew = np.linalg.norm(vectors.T @ vectors - np.eye(len(matrix)))
    # The two norms are themselves rounded; a tenth of the margin covers that many times over.
    lowest = (values - residual - 0.1 * spectral.MARGIN * max(1.0, float(values.max()))) / (1.0 + skew)
    certain: Reals = np.sort(np.maximum(0.0, lowest))
    return certain
