"""Good schedules for graphs of up to millions of vertices: an order of operations, and who leaves fast memory when.

Orders come from three general ideas, none of which knows what the graph computes: independent parts advanced side by
side (``parts``), blocks of small inflow (``blocks``), and depth first with everything that follows done at once
(``orders``). Each is judged by what it costs when the values needed furthest in the future leave (``eviction``). The
best is improved by moving stretches of it (``improvement``) and by computing again (``recomputation``).

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> solution = find_schedule(Game(graph=graph, red=3))
>>> solution.cost_words, solution.ending.value
(3, 'proven')
"""

from collections.abc import Callable

from attenio.errors import MissingExtra
from attenio.pebbling.game import Game
from attenio.pebbling.solution import Solution

__all__ = ["find_schedule"]


def find_schedule(
    game: Game, *, time_limit_s: float = 60.0, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Solution:
    """A good schedule, and the words that any schedule moves; nothing is proven unless the two are equal.

    The same seed gives the same schedule unless time runs out. At the time limit, or when interrupted, the best
    schedule so far is returned; the first one is made in any case. Compiling, once after installation and for half a
    minute, does not count.
    """
    try:
        from attenio.pebbling.scheduling.search import search
    except ImportError as missing:
        raise MissingExtra("scheduling a pebble game", "pebble") from missing
    return search(game, time_limit_s=time_limit_s, seed=seed, progress=progress)
