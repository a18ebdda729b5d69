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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from attenio.pebbling.certified import counting, hong_kung, pairs, spectral, wavefront
from attenio.pebbling.certified.bound import GraphBound, OutOfTime, Theorem, compulsory_bound
from attenio.pebbling.certified.verification import verify
from attenio.pebbling.game import Game

__all__ = [
    "Certified",
    "GraphBound",
    "OutOfTime",
    "Theorem",
    "best_bound",
    "certified_bounds",
    "graph_bounds",
    "verify",
]

Progress = Callable[[int, int], None] | None


def graph_bounds(game: Game, *, time_limit_s: float = 30, progress: Progress = None) -> tuple[GraphBound, ...]:
    """Every bound that holds for the game, within the time; ``progress`` hears the theorems done and in all.

    A bound that ran out of time is weaker, never wrong; it says that it is not ``finished``.
    """
    bounds = [compulsory_bound(game)]
    with suppress(KeyboardInterrupt):
        for each in _one_by_one(game, time_limit_s, inf, progress):
            bounds.append(each[0])
    return tuple(bounds)


@dataclass(frozen=True, kw_only=True)
class Certified:
    """Bounds whose witnesses have been checked, and the theorems of those that there was no time to check."""

    bounds: tuple[GraphBound, ...]
    unchecked: tuple[Theorem, ...]


def certified_bounds(game: Game, *, time_limit_s: float = 30, progress: Progress = None) -> Certified:
    """As ``graph_bounds``, each bound checked as soon as it is found; finding and checking share the time."""
    checked, unchecked = [compulsory_bound(game)], []
    verify(game, checked[0])
    with suppress(KeyboardInterrupt):
        for bound, deadline in _one_by_one(game, time_limit_s, 0.5, progress):
            try:
                verify(game, bound, deadline=deadline)
            except OutOfTime:
                unchecked.append(bound.theorem)
            else:
                checked.append(bound)
    return Certified(bounds=tuple(checked), unchecked=tuple(unchecked))


def _one_by_one(
    game: Game, time_limit_s: float, share: float, progress: Progress
) -> Iterator[tuple[GraphBound, float]]:
    """Bound after bound, and when the next has its turn: each of those left may take an equal part of the time left.

    Finding it may take up to ``share`` of that part; the rest is for checking it. Infinity: it is not checked.
    """
    end = time.monotonic() + time_limit_s
    tasks = _tasks(game)
    for number, task in enumerate(tasks):
        now = time.monotonic()
        part = max(0.0, end - now) / (len(tasks) - number)
        finding = part if share == inf else share * part
        yield task(now + finding, inf if share == inf else part - finding), now + part
        if progress is not None:
            progress(number + 1, len(tasks))


def _tasks(game: Game) -> list[Callable[[float, float], GraphBound]]:
    """What to compute until a deadline, with so many seconds to check it afterwards; the quickest first."""
    tasks: list[Callable[[float, float], GraphBound]] = []
    if not game.graph.computed.any():
        return tasks
    tasks.append(lambda deadline, _: pairs.pair_bound(game, deadline=deadline))
    if hong_kung.applies(game):
        tasks.append(lambda deadline, _: hong_kung.partition_bound(game, deadline=deadline))
    if counting.applies(game):
        tasks.append(lambda deadline, _: counting.counting_bound(game, deadline=deadline))
    if game.variant in wavefront.VARIANTS:
        tasks.append(lambda deadline, _: wavefront.wavefront_bound(game, deadline=deadline))
    if game.variant in spectral.VARIANTS:
        tasks.append(lambda deadline, seconds: spectral.spectral_bound(game, deadline=deadline, check_seconds=seconds))
    return tasks


def best_bound(bounds: Sequence[GraphBound]) -> GraphBound:
    """The one with most words."""
    return max(bounds, key=lambda bound: bound.words)
