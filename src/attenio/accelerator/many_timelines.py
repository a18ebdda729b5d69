"""Timelines of many programs of one shape at once: durations and counts are arrays, an entry for each program.

The rule is that of the periodic mode. A loop is run until the state in which its rounds begin, taken from when the
earliest engine is free, is the one in which the round before began; what is left of it is then multiplied. Programs
that get there later than others, or whose loops end earlier, are carried along.

In a ramp the loops of a round run more often than those of the round before. If a round begins in the state in which
the one before it began, and the loops of that one had all come to their steady state, it is the same but for so many
steady rounds more, and ends in the same state again: what is left of the ramp is an arithmetic series.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.step import Engine

Counts = NDArray[np.int64]

_ENGINES = tuple(Engine)
# Engines of these programs wait for each other, and come to a steady state within a few rounds.
_MOST_ROUNDS = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class ManySteps:
    """A step of every program: the same name on the same engine, and its own ticks."""

    name: str
    engine: Engine
    ticks: Counts
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ManyLoops:
    """The body, in every program its own number of times; in a ramp ``growth`` more in every round of it."""

    count: Counts
    body: "ManyNodes"
    growth: Counts | None = None

    @cached_property
    def steps(self) -> tuple[ManySteps, ...]:
        """The steps of the body and of the loops in it."""
        return tuple(_steps(self.body))


@dataclass(frozen=True, kw_only=True, eq=False)
class ManyRamps(ManyLoops):
    """The body, its loops growing from round to round."""


ManyNodes = tuple[ManySteps | ManyLoops, ...]


def many_cycles(body: ManyNodes, programs: int) -> Counts:
    """Ticks until the last engine of every program is free."""
    run = _Run(body, programs)
    run.body(body, np.ones(programs, dtype=np.bool_))
    ends: Counts = run.free.max(axis=0)
    return ends


def _steps(body: ManyNodes) -> Iterator[ManySteps]:
    for node in body:
        if isinstance(node, ManySteps):
            yield node
        else:
            yield from node.steps


class _Run:
    def __init__(self, body: ManyNodes, programs: int) -> None:
        every = list(_steps(body))
        names = dict.fromkeys(name for step in every for name in (step.name, *step.after))
        self._number = {name: number for number, name in enumerate(names)}
        self._round: Counts = np.zeros(programs, dtype=np.int64)  # of the ramp under way
        self._slope: Counts = np.zeros(programs, dtype=np.int64)  # by which the next one will be longer
        self._settled: NDArray[np.bool_] = np.ones(programs, dtype=np.bool_)
        self.free: Counts = np.zeros((len(_ENGINES), programs), dtype=np.int64)
        self.done: Counts = np.zeros((len(names), programs), dtype=np.int64)

    def body(self, body: ManyNodes, active: NDArray[np.bool_]) -> None:
        """Run every node in the programs that are active."""
        for node in body:
            if isinstance(node, ManyRamps):
                self._ramp(node, active)
                continue
            if isinstance(node, ManyLoops):
                self._loop(node, active)
                continue
            engine = _ENGINES.index(node.engine)
            begin = self.free[engine]
            for name in node.after:
                begin = np.maximum(begin, self.done[self._number[name]])
            end = np.where(active, begin + node.ticks, self.free[engine])
            self.free[engine] = end
            self.done[self._number[node.name]] = np.where(active, end, self.done[self._number[node.name]])

    def _touched(self, loop: ManyLoops) -> tuple[list[int], list[int], list[int]]:
        """Engines that a loop uses, names whose latest run it moves, names that it waits for."""
        engines = {_ENGINES.index(step.engine) for step in loop.steps}
        sets = {self._number[step.name] for step in loop.steps}
        waits = {self._number[name] for step in loop.steps for name in step.after}
        return sorted(engines), sorted(sets), sorted(waits)

    def _loop(self, loop: ManyLoops, active: NDArray[np.bool_]) -> None:
        engines, sets, waits = self._touched(loop)
        growth = np.zeros_like(loop.count) if loop.growth is None else loop.growth
        left = np.where(active, loop.count + self._round * growth, 0)
        steadied = ~active | (growth == 0)
        before: tuple[Counts, Counts] | None = None
        for _ in range(_MOST_ROUNDS):
            running = left > 0
            if not running.any():
                self._settled &= steadied
                return
            base = self.free[engines].min(axis=0)
            state = np.concatenate([self.free[engines] - base, np.maximum(self.done[waits] - base, 0)])
            if before is not None:
                steady = running & (state == before[0]).all(axis=0)
                shift = np.where(steady, left * (base - before[1]), 0)
                self.free[engines] += shift
                self.done[sets] += shift
                self._slope += np.where(steady, growth * (base - before[1]), 0)
                steadied |= steady
                left = np.where(steady, 0, left)
                running &= ~steady
            before = state, base
            self.body(loop.body, running)
            left = left - running
        assert not (left > 0).any(), "a loop came to no steady state"

    def _ramp(self, ramp: ManyRamps, active: NDArray[np.bool_]) -> None:
        engines, sets, waits = self._touched(ramp)
        left = np.where(active, ramp.count, 0)
        self._round = np.zeros_like(left)
        before: tuple[Counts, Counts, Counts, NDArray[np.bool_]] | None = None
        for _ in range(_MOST_ROUNDS):
            running = left > 0
            base = self.free[engines].min(axis=0)
            state = np.concatenate([self.free[engines] - base, np.maximum(self.done[waits] - base, 0)])
            if before is not None:
                same = running & before[3] & (state == before[0]).all(axis=0)
                series = left * (base - before[1]) + before[2] * (left * (left + 1) // 2)
                self.free[engines] += np.where(same, series, 0)
                self.done[sets] += np.where(same, series, 0)
                left = np.where(same, 0, left)
                running &= ~same
            if not running.any():
                self._round = np.zeros_like(left)
                return
            self._slope, self._settled = np.zeros_like(left), np.ones_like(running)
            self.body(ramp.body, running)
            before = state, base, self._slope, self._settled & running
            left, self._round = left - running, self._round + 1
        raise AssertionError("a ramp came to no steady state")
