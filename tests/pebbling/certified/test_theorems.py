"""The steps of the proofs, tried exhaustively or at random on graphs small enough."""

import random
from itertools import combinations, pairwise

import numpy as np
import pytest

from attenio.pebbling import ComputationGraph, Game, Variant
from attenio.pebbling.certified import counting, pairs, spectral
from attenio.pebbling.certified.hong_kung import dominator_words
from attenio.pebbling.certified.moment import Network, moment_at
from attenio.pebbling.certified.steps import Steps
from attenio.pebbling.certified.wavefront import _Plan, _strongest
from attenio.pebbling.graphs.product import product

from .games import random_graph, random_order

WITHOUT_RECOMPUTATION = [(Variant.ONE_SHOT, False), (Variant.ONE_SHOT, True), (Variant.PARTIAL, False)]


def dominated(graph: ComputationGraph, removed: set[int]) -> set[int]:
    """The vertices that no path from an input reaches without meeting a removed vertex, other than those themselves."""
    free: set[int] = set()
    for vertex, needs in enumerate(graph.parents):
        if vertex not in removed and (not needs or any(u in free for u in needs)):
            free.add(vertex)
    return set(range(len(graph))) - free - removed


@pytest.mark.parametrize("seed", range(20))
def test_few_words_cover_no_more_vertices_than_counted(seed):
    graph = random_graph(seed, most=9)
    whole = Game(graph=graph, red=10_000)
    for game in (whole, Game(graph=graph, red=10_000, variant=Variant.PARTIAL)):
        flows = np.sort(counting.covering(game, counting.visits(game)), axis=0)[::-1].cumsum(axis=0)
        for size in range(1, len(graph)):
            for chosen in combinations(range(len(graph)), size):
                behind = dominated(graph, set(chosen))
                if game.variant is Variant.PARTIAL:
                    behind |= {vertex for vertex in chosen if graph.parents[vertex]}
                words = int(graph.weights[list(chosen)].sum())
                if behind:
                    assert counting.mass_behind(flows[len(behind) - 1], graph.weights, words) >= len(behind)


@pytest.mark.parametrize("seed", range(12))
def test_a_smallest_dominator_is_found(seed):
    graph = random_graph(seed, most=7)
    computed = [vertex for vertex in range(len(graph)) if graph.parents[vertex]]
    everything = range(len(graph))
    subsets = [set(each) for size in range(len(graph) + 1) for each in combinations(everything, size)]
    for targets in (set(each) for size in (1, 2, 3) for each in combinations(computed, size)):
        covering = [each for each in subsets if targets <= dominated(graph, each) | each]
        least = {
            outside: min(int(graph.weights[list(each)].sum()) for each in covering if not (outside and each & targets))
            for outside in (False, True)
        }
        for outside, words in least.items():
            assert dominator_words(graph, sorted(targets), outside) == words


def test_few_inputs_and_chains_make_no_more_products_than_counted():
    game = Game(graph=product(2, 2, 3), red=4)
    graph = game.graph
    rows = pairs.pair_bound(game).witness.pairs
    shape = pairs._shape(rows)
    assert (shape.vertices, shape.starts, shape.per_pair, shape.per_piece, shape.two_sided) == (12, 4, 1, 1, True)
    chain = {vertex: graph.names[vertex].split(";")[0].rstrip("]") for vertex in rows[:, 0].tolist()}
    chains = sorted(set(chain.values()))
    for inputs in range(len(graph.inputs) + 1):
        for given in combinations(graph.inputs.tolist(), inputs):
            for width in range(1, len(chains) + 1):
                made = sum(
                    one in given and other in given and chain[vertex] in chains[:width]
                    for vertex, one, other, _ in rows.tolist()
                )
                assert made <= pairs._from_inputs_and_accumulators(shape, inputs + width, partial=False)
                assert made <= pairs._from_inputs(shape, inputs, partial=False)


def orders(game: Game, steps: Steps, seed: int) -> list[int]:
    """The steps in a random possible order."""
    draw = random.Random(seed)
    vertices = random_order(game, seed)
    rank = {vertex: position for position, vertex in enumerate(vertices)}
    if game.variant is not Variant.PARTIAL:
        return sorted(range(steps.count), key=lambda step: rank[int(steps.target[step])])
    waiting, order = set(range(steps.count)), []
    while waiting:
        unfinished = {int(steps.target[step]) for step in waiting}
        ready = sorted(step for step in waiting if int(steps.source[step]) not in unfinished)
        order.append(draw.choice(ready))
        waiting.remove(order[-1])
    return order


@pytest.mark.parametrize("seed", range(30))
def test_segments_cut_no_more_than_values_cost(seed):
    draw = random.Random(seed)
    graph = random_graph(seed, most=14)
    for variant in (Variant.ONE_SHOT, Variant.PARTIAL):
        game = Game(graph=graph, red=10_000, variant=variant)
        steps = Steps.of(game)
        if steps.count < 3:
            continue
        order = orders(game, steps, seed)
        ends = sorted(draw.sample(range(1, steps.count), min(steps.count - 1, draw.randint(1, 4))))
        segment = np.zeros(steps.count, dtype=np.int64)
        for number, (start, end) in enumerate(pairwise([0, *ends, steps.count])):
            segment[order[start:end]] = number
        costs = 0
        for vertex in range(len(graph)):
            pieces = len(set(segment[steps.touching(vertex)].tolist()))
            if pieces > 1:
                once_more = 1 if steps.price[vertex] == 2 else 0
                costs += (pieces - 1 + once_more) * int(graph.weights[vertex])
        for blocks in (np.zeros(steps.count, dtype=np.int64), np.arange(steps.count) % 2):
            members = [np.flatnonzero(blocks == block) for block in range(int(blocks.max()) + 1)]
            cut = 0.0
            for inside, laplacian in zip(members, spectral.block_laplacians(game, steps, blocks), strict=True):
                for number in range(len(ends) + 1):
                    chosen = (segment[inside] == number).astype(float)
                    cut += chosen @ laplacian @ chosen
            assert cut <= costs + 1e-9


def alive_words(game: Game, steps: Steps, done: set[int], price: dict[int, int], surely_red: set[int]) -> int:
    """Priced words of the values that a done and an undone step touch."""
    alive = 0
    for vertex in range(len(game.graph)):
        touching = set(steps.touching(vertex).tolist())
        if vertex not in surely_red and touching & done and touching - done:
            alive += price[vertex]
    return alive


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize(("variant", "sliding"), WITHOUT_RECOMPUTATION)
def test_the_flow_at_a_moment_is_the_least_that_is_alive(seed, variant, sliding):
    graph = random_graph(seed, most=7)
    fewest = Game(graph=graph, red=10_000, variant=variant, sliding=sliding).fewest_red
    game = Game(graph=graph, red=fewest, variant=variant, sliding=sliding)
    steps = Steps.of(game)
    if steps.count > 9:
        return
    network = Network(game=game, steps=steps)
    window = np.flatnonzero(graph.useful).astype(np.int64)
    for vertex in set(steps.target.tolist()):
        moment = moment_at(game, steps, vertex)
        must, cannot = set(np.flatnonzero(moment.done).tolist()), set(np.flatnonzero(moment.undone).tolist())
        for dearest in (1, 2):
            price = {v: min(dearest, int(steps.price[v])) * int(graph.weights[v]) for v in range(len(graph))}
            least = min(
                alive_words(game, steps, done, price, set(moment.red))
                for done in possible(steps, variant)
                if must <= done and not done & cannot
            )
            plan = _Plan(left=steps.price * graph.weights)
            gain, _ = _strongest(network, plan, window, vertex, dearest)
            assert max(0, gain) == max(0, least - dearest * moment.room_words)


def possible(steps: Steps, variant: Variant) -> list[set[int]]:
    """Every set of steps that can be done at some moment."""
    sets = []
    for members in range(1 << steps.count):
        done = {step for step in range(steps.count) if members >> step & 1}
        if variant is Variant.PARTIAL:
            finished = all(
                other in done
                for step in done
                for other in range(steps.count)
                if steps.target[other] == steps.source[step]
            )
        else:
            computed = {int(steps.target[step]) for step in done}
            place = {int(target): step for step, target in enumerate(steps.target)}
            finished = all(
                step in done
                for vertex, step in place.items()
                for child in computed
                if step in steps.touching(vertex) and place[child] in steps.touching(vertex) and vertex < child
            )
        if finished:
            sets.append(done)
    return sets
