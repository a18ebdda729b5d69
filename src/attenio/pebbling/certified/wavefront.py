"""Wavefronts: what is alive when a vertex is computed and does not fit was stored before and is loaded after.

Theorem: docs/theory/graph_bounds.md. After [Elango, Rastello, Pouchet, Ramanujam, Sadayappan 2014], with inputs and
outputs priced by what they add to the compulsory words, several moments at once, and a form for the partial game.

>>> import time
>>> from attenio.pebbling.graphs.pyramid import pyramid
>>> game = Game(graph=pyramid(6), red=3, variant=Variant.ONE_SHOT)
>>> game.graph.compulsory_words, wavefront_bound(game, deadline=time.monotonic() + 60).words
(8, 16)
"""

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from attenio.errors import MissingExtra
from attenio.pebbling.certified.bound import FlowWitness, GraphBound, Numbers, Theorem, WavefrontWitness, best_bound
from attenio.pebbling.certified.moment import Network, moment_at
from attenio.pebbling.certified.steps import Steps
from attenio.pebbling.game import Game, Variant

VARIANTS = frozenset({Variant.ONE_SHOT, Variant.PARTIAL})
CITATION = "Elango, Rastello, Pouchet, Ramanujam, Sadayappan 2014"

# Every vertex is tried in small windows; in larger ones a sample that shrinks as the flows get slower.
_TRY_ALL = 150
_FEWEST_TRIED = 6
_TRIED_TIMES_VALUES = 40_000
# One flow in a window larger than this could outlast any reasonable deadline.
_LARGEST_WINDOW = 30_000
# The flow solver counts in 32 bits; a capacity this large is never a bottleneck.
_UNBOUNDED = 2**28


@dataclass(kw_only=True, eq=False)
class _Plan:
    """The moments chosen so far, and what they leave of every value's capacity."""

    left: Numbers
    extra: int = 0
    moments: list[FlowWitness] = field(default_factory=list)


def wavefront_bound(game: Game, *, deadline: float) -> GraphBound:
    """The best sum of wavefronts found before the deadline (of ``time.monotonic``)."""
    network = Network(game=game, steps=Steps.of(game))
    depth, compulsory = depths(game), game.graph.compulsory_words

    def offers() -> Iterator[tuple[int, WavefrontWitness]]:
        # a quick look at every height first, so that little time still finds something
        for tried, height in product((_FEWEST_TRIED, _TRY_ALL), _heights(int(depth.max()))):
            plan = _Plan(left=network.steps.price * game.graph.weights)
            for window in windows(network, depth, height):
                _fill(network, plan, window, _candidates(network, window, depth, tried), deadline)
                yield compulsory + plan.extra, WavefrontWitness(moments=tuple(plan.moments))

    nothing = WavefrontWitness(moments=())
    return best_bound(Theorem.WAVEFRONT, CITATION, offers(), (compulsory, nothing), deadline, variants=VARIANTS)


def _heights(deepest: int) -> list[int]:
    """Heights of the bands to try: the whole graph, then ever thinner."""
    heights = [deepest + 1]
    while heights[-1] > 2:
        heights.append((heights[-1] + 1) // 2)
    return heights


def depths(game: Game) -> Numbers:
    """The length of the longest path from an input to each vertex."""
    depth = [0] * len(game.graph)
    for vertex, needs in enumerate(game.graph.parents):
        if needs:
            depth[vertex] = 1 + max(depth[each] for each in needs)
    return np.array(depth, dtype=np.int64)


def windows(network: Network, depth: Numbers, height: int) -> Iterator[Numbers]:
    """The values of each connected piece of each band of depths; an input is in every piece that uses it."""
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError as error:
        raise MissingExtra("a wavefront bound", "pebble") from error
    steps, useful = network.steps, network.game.graph.useful
    computed = np.diff(network.game.graph.parent_starts) > 0
    step_band = (depth[steps.target] - 1) // height
    every = np.flatnonzero(useful).astype(np.int64)
    values, touching = network.touches(every)
    # A computed value belongs to the band of its own depth; beyond the last band's end it only passes through.
    inside = ~computed[values] | ((depth[values] - 1) // height == step_band[touching])
    values, touching = values[inside], touching[inside]
    # One copy of an input for each band, so that bands stay apart.
    copies = values + len(network.game.graph) * step_band[touching]
    copy_names, copy = np.unique(copies, return_inverse=True)
    size = len(copy_names) + steps.count
    links = coo_array((np.ones(len(copy)), (copy, len(copy_names) + touching)), shape=(size, size))
    label = connected_components(links, directed=False)[1][: len(copy_names)]
    order = np.argsort(label, kind="stable")
    for piece in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        if 2 < len(piece) <= _LARGEST_WINDOW:
            yield np.unique(copy_names[piece] % len(network.game.graph))


def _fill(network: Network, plan: _Plan, window: Numbers, candidates: list[int], deadline: float) -> None:
    """Add moments of the window as long as one gains; gains only shrink, so the best old gain is tried first."""
    waiting = [(-_UNBOUNDED, vertex, dearest) for vertex in candidates for dearest in (2, 1)]
    heapq.heapify(waiting)
    while waiting and time.monotonic() < deadline:
        _, vertex, dearest = heapq.heappop(waiting)
        gain, witness = _strongest(network, plan, window, vertex, dearest)
        if gain <= 0:
            continue
        if waiting and gain < -waiting[0][0]:
            heapq.heappush(waiting, (-gain, vertex, dearest))
            continue
        used = (witness.arcs[:, 0] >= network.steps.count) & (witness.arcs[:, 1] == witness.arcs[:, 0] + 1)
        used &= (witness.arcs[:, 0] - network.steps.count) % 2 == 0
        used &= witness.arcs[:, 1] < network.steps.count + 2 * len(network.game.graph)
        plan.left[(witness.arcs[used, 0] - network.steps.count) // 2] -= witness.arcs[used, 2]
        plan.extra += gain
        plan.moments.append(witness)
        heapq.heappush(waiting, (-gain, vertex, dearest))


def _candidates(network: Network, window: Numbers, depth: Numbers, most: int) -> list[int]:
    computed = window[np.diff(network.game.graph.parent_starts)[window] > 0]
    if len(computed) > most:
        tried = max(_FEWEST_TRIED, min(most, _TRIED_TIMES_VALUES // len(window)))
        distance = np.abs(depth[computed] - np.median(depth[computed]))
        middle = computed[distance == distance.min()]
        computed = np.union1d(_spread(middle, (tried + 1) // 2), _spread(computed, tried // 2))
    chosen: list[int] = computed.tolist()
    return chosen


def _spread(members: Numbers, count: int) -> Numbers:
    """So many members at equal distances, or all of them."""
    return members[np.linspace(0, len(members) - 1, min(count, len(members))).astype(np.int64)]


def _strongest(network: Network, plan: _Plan, window: Numbers, vertex: int, dearest: int) -> tuple[int, FlowWitness]:
    """The words that the moment of a vertex adds within the window, and the flow that proves it."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    nothing = FlowWitness(vertex=vertex, dearest=dearest, arcs=np.zeros((0, 3), dtype=np.int64))
    moment = moment_at(network.game, network.steps, vertex)
    capacity = np.minimum(plan.left[window], dearest * network.game.graph.weights[window])
    open_values = (capacity > 0) & ~np.isin(window, moment.red)
    values, capacity = window[open_values], capacity[open_values]
    if capacity.sum() <= dearest * moment.room_words:
        return 0, nothing
    touched, touching = network.touches(values)
    used = np.unique(touching)
    order_tails, order_heads = network.orders_among(used)
    first = network.entry(values)
    done, undone = used[moment.done[used]], used[moment.undone[used]]
    source = network.steps.count + 3 * len(network.game.graph)
    tails = np.concatenate(
        [touching, network.entry(touched) + 1, order_tails, first, np.full_like(done, source), undone]
    )
    heads = np.concatenate(
        [network.entry(touched), touching, order_heads, first + 1, done, np.full_like(undone, source + 1)]
    )
    amounts = np.full(len(tails), _UNBOUNDED, dtype=np.int64)
    begin = 2 * len(touching) + len(order_tails)
    amounts[begin : begin + len(first)] = capacity
    names, numbered = np.unique(np.concatenate([tails, heads]), return_inverse=True)
    if names[-1] != source + 1 or names[-2] != source:
        return 0, nothing
    tail, head = numbered[: len(tails)], numbered[len(tails) :]
    graph = csr_array((amounts.astype(np.int32), (tail, head)), shape=(len(names), len(names)))
    answer = maximum_flow(graph, len(names) - 2, len(names) - 1)
    gain = int(answer.flow_value) - dearest * moment.room_words
    if gain <= 0:
        return gain, nothing
    flow = answer.flow.tocoo()
    carried = (flow.data > 0) & (flow.row < len(names) - 2) & (flow.col < len(names) - 2)
    arcs = np.stack([names[flow.row[carried]], names[flow.col[carried]], flow.data[carried].astype(np.int64)], axis=1)
    return gain, FlowWitness(vertex=vertex, dearest=dearest, arcs=arcs)
