"""Lower bounds computed from a graph, each with a witness that can be checked.

>>> from attenio.pebbling.game import Game, Variant
>>> from attenio.pebbling.graphs.pyramid import pyramid
>>> game = Game(graph=pyramid(6), red=3, variant=Variant.ONE_SHOT)
>>> bounds = graph_bounds(game)
>>> for bound in bounds:
...     verify(game, bound)
>>> game.graph.compulsory_words, best_bound(bounds).theorem.value, best_bound(bounds).words
(8, 'wavefront', 16)
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from attenio.pebbling.certified import counting, hong_kung, pairs, spectral, wavefront
from attenio.pebbling.certified.bound import GraphBound, Theorem
from attenio.pebbling.certified.compulsory import compulsory_bound
from attenio.pebbling.certified.verification import verify
from attenio.pebbling.game import Game

__all__ = ["GraphBound", "Theorem", "best_bound", "graph_bounds", "verify"]

Progress = Callable[[int, int], None] | None


def graph_bounds(game: Game, *, time_limit_s: float = 30, progress: Progress = None) -> tuple[GraphBound, ...]:
    """Every bound that holds for the game, in about the time given; ``progress`` hears the theorems done and in all.

    A bound that ran out of time is weaker, never wrong. One step of the last one may overrun by seconds.
    """
    began = time.monotonic()
    found = [compulsory_bound(game)]
    tasks = _tasks(game)
    try:
        for number, task in enumerate(tasks):
            # each of those left may take an equal share of the time left
            left = time_limit_s - (time.monotonic() - began)
            found.append(task(time.monotonic() + max(0.0, left) / (len(tasks) - number)))
            if progress is not None:
                progress(number + 1, len(tasks))
    except KeyboardInterrupt:
        pass
    return tuple(found)


def _tasks(game: Game) -> list[Callable[[float], GraphBound]]:
    """What to compute until a deadline, the quickest first."""
    tasks: list[Callable[[float], GraphBound]] = []
    if not (game.graph.useful & (np.diff(game.graph.parent_starts) > 0)).any():
        return tasks
    tasks.append(lambda _: pairs.pair_bound(game))
    if hong_kung.applies(game):
        tasks.append(lambda deadline: hong_kung.partition_bound(game, deadline=deadline))
    if counting.applies(game):
        tasks.append(lambda deadline: counting.counting_bound(game, deadline=deadline))
    if game.variant in wavefront.VARIANTS:
        tasks.append(lambda deadline: wavefront.wavefront_bound(game, deadline=deadline))
    if game.variant in spectral.VARIANTS:
        tasks.append(lambda deadline: spectral.spectral_bound(game, deadline=deadline))
    return tasks


def best_bound(bounds: Sequence[GraphBound]) -> GraphBound:
    """The one with most words."""
    return max(bounds, key=lambda bound: bound.words)
