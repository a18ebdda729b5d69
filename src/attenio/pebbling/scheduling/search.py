"""The search for a good schedule: many orders are made, each is judged by its exact cost, the best is improved.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> search(Game(graph=graph, red=3), time_limit_s=1.0, seed=0, progress=None).cost_words
3
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from math import inf
from time import perf_counter

import numpy as np

from attenio.pebbling.compiled import uncollected
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.scheduling.eviction import schedule_of
from attenio.pebbling.scheduling.families import Best, Enough, Family, try_blocks, try_parts
from attenio.pebbling.scheduling.improvement import Annealing
from attenio.pebbling.scheduling.program import edge_by_edge, program_of, vertex_by_vertex
from attenio.pebbling.scheduling.recomputation import computed_again
from attenio.pebbling.solution import Ending, Solution

# How much is tried, counted in operations so that it does not depend on the clock: orders judged, and moves that
# improve the best. About half a minute together; graphs so large that this is only a few orders get a few.
_OPERATIONS_JUDGED = 8_000_000
_FEWEST_ORDERS, _MOST_ORDERS = 24, 500
_OPERATIONS_MOVED = 4_000_000
_MOST_MOVES = 30_000
_RELUCTANCES = (1.0, 1.5, 3.0, 5.0, 1e9)
# Rounds of recomputation, and the words of inputs it may load for each word that it saves.
_RECOMPUTATIONS = 4
_SHARES = (0.0, 1.0)


def search(game: Game, *, time_limit_s: float, seed: int, progress: Callable[[int, int], None] | None) -> Solution:
    """``find_schedule``, when everything it needs is installed."""
    compile_scheduling()
    begin = perf_counter()
    program = program_of(game)
    orders = int(np.clip(_OPERATIONS_JUDGED // max(1, len(program.targets)), _FEWEST_ORDERS, _MOST_ORDERS))
    bound = game.graph.compulsory_words
    best = Best(program, bound, deadline=begin + time_limit_s, orders=orders, progress=progress)
    ending = Ending.FINISHED
    try:
        _try_all(game, best, seed)
    except Enough as enough:
        ending = enough.ending
    except KeyboardInterrupt:
        ending = Ending.INTERRUPTED
    schedule = schedule_of(program, best.order, best.reluctance)
    cost = schedule.cost_words(game.graph)
    return Solution(
        game=game,
        schedule=schedule,
        cost_words=cost,
        lower_bound_words=best.bound,
        ending=Ending.PROVEN if cost == best.bound else ending,
        engine="order search",
        seconds=perf_counter() - begin,
        explored=best.explored,
    )


@cache
def compile_scheduling() -> None:
    """Have everything compiled on a game of a few moves, so that the times of large ones are those of the work."""
    graph = ComputationGraph.from_parents({"x": ("a", "b"), "y": ("a", "c"), "z": ("x", "d"), "w": ("x", "c")})
    game = Game(graph=graph, red=3)
    best = Best(program_of(game), graph.compulsory_words, deadline=inf, orders=_FEWEST_ORDERS, progress=None)
    with uncollected(), suppress(Enough):
        _try_all(game, best, seed=0)


def _try_all(game: Game, best: Best, seed: int) -> None:
    program = best.program
    families = [Family(program, lambda order: order)]
    if game.variant is Variant.PARTIAL:
        vertices = vertex_by_vertex(game)
        families.append(Family(vertices, lambda order: edge_by_edge(vertices, order)))
    # The likeliest first, in case time is short: one order of each kind, then sizes, then what seldom wins.
    for family in families:
        best.offer(family.lifted(family.bases[0]))
    share = best.orders_left // (2 * len(families))
    for family in families:
        try_parts(family, best, share)
    for family in families:
        try_blocks(family, best, share)
    for family in families:
        for base in family.bases[1:]:
            best.offer(family.lifted(base))
    for reluctance in _RELUCTANCES:
        best.offer(best.order, reluctance)
    _improve(best, seed)
    if game.variant is Variant.STANDARD:
        _recompute(best)


def _improve(best: Best, seed: int) -> None:
    size = len(best.order)
    moves = min(_MOST_MOVES, _OPERATIONS_MOVED // max(1, size))
    if size < 2 or moves == 0:
        return
    annealing = Annealing(best.program, best.order, reluctance=best.reluctance, moves=moves, seed=seed)
    while not annealing.finished:
        annealing.advance()
        best.accept(annealing.order, annealing.cost, annealing.moves_made)


def _recompute(best: Best) -> None:
    for _ in range(_RECOMPUTATIONS):
        before = best.cost
        order = best.order
        schedule = schedule_of(best.program, order, best.reluctance)
        for share in _SHARES:
            best.offer(computed_again(best.program, order, schedule, share=share))
        if best.cost == before:
            return
