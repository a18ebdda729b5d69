"""A schedule at once: operations in a fixed order, and what is needed furthest in the future leaves first.

>>> from attenio.pebbling.checking import check
>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "s"), ("b", "s"), ("s", "t"), ("a", "t")])
>>> check(Game(graph=graph, red=3), first_schedule(Game(graph=graph, red=3))).cost_words
3
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf
from random import Random

import numpy as np

from attenio.errors import MissingExtra
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Schedule
from attenio.pebbling.scheduling.program import Numbers, program_of

# In which order what a vertex needs is looked at.
Picked = Callable[[Sequence[int]], list[int]]


def first_schedule(game: Game, *, shuffled: int = 0, seed: int = 0, deadline: float = inf) -> Schedule:
    """The cheapest of a few orders: the graph's, output by output with what each needs before it, and shuffled ones.

    The first is always made; shuffled ones only until the deadline (of ``time.monotonic``).
    """
    try:
        from attenio.pebbling.scheduling.eviction import cost_of, schedule_of
    except ImportError as missing:
        raise MissingExtra("a first schedule", "pebble") from missing
    program = program_of(game)
    least = game.graph.compulsory_words
    best, best_cost = np.arange(len(program.targets), dtype=np.int64), inf
    for order in _orders(game, shuffled, seed):
        cost = cost_of(program, order)
        if cost < best_cost:
            best, best_cost = order, cost
        if best_cost == least or time.monotonic() > deadline:
            break
    return schedule_of(program, best)


@cache
def compile_first_schedule() -> None:
    """Have what plays an order compiled, or read from its files, so that it is not on anybody's clock."""
    first_schedule(Game(graph=ComputationGraph.from_edges([("a", "sum"), ("b", "sum")]), red=3))


def _orders(game: Game, shuffled: int, seed: int) -> Iterator[Numbers]:
    random = Random(seed)
    yield np.arange(len(program_of(game).targets), dtype=np.int64)
    yield _depth_first(game, list, edge_by_edge=False)
    for _ in range(shuffled):
        by_edge = game.variant is Variant.PARTIAL and random.random() < 0.5
        yield _depth_first(game, lambda members: random.sample(members, len(members)), edge_by_edge=by_edge)


def _depth_first(game: Game, picked: Picked, *, edge_by_edge: bool) -> Numbers:
    """Every value as soon as its parents are there; an edge of the partial game, by edge, as soon as its parent is."""
    graph, parents, partial = game.graph, game.graph.parents, game.variant is Variant.PARTIAL
    wanted = [(v, u) for v in range(len(graph)) if graph.useful[v] for u in parents[v][: None if partial else 1]]
    number = {(v, u if partial else -1): place for place, (v, u) in enumerate(wanted)}
    order: list[int] = []
    reached = set()
    for output in picked([v for v in np.unique(graph.outputs).tolist() if parents[v]]):
        if output in reached:
            continue
        stack = [(output, picked(parents[output]), 0)]
        reached.add(output)
        while stack:
            vertex, needs, at = stack.pop()
            if at and edge_by_edge:
                order.append(number[vertex, needs[at - 1]])
            if at == len(needs):
                if not partial:
                    order.append(number[vertex, -1])
                elif not edge_by_edge:
                    order.extend(number[vertex, parent] for parent in needs)
                continue
            stack.append((vertex, needs, at + 1))
            parent = needs[at]
            if parents[parent] and parent not in reached:
                reached.add(parent)
                stack.append((parent, picked(parents[parent]), 0))
    return np.array(order, dtype=np.int64)
