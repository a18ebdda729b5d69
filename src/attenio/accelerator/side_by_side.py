"""Rounds of a ramp that are run at once: times are arrays with an entry for every round, each from its own state.

An entry may stand for a whole series of rounds, one a period: a time is then a straight line over the series and is
kept as its two ends. A maximum is the argument that is the larger at both ends; where none is, ``Undecided`` is raised.
A time that is the same in all rounds is kept once.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.compiled import CompiledBody, CompiledGrowingStep, CompiledLoop, CompiledRamp
from attenio.accelerator.program import exact_sum

Times = NDArray[np.int64]  # two ends, or one, by rounds; one round stands for all if they are equal
Chosen = NDArray[np.bool_]  # by rounds
Moved = dict[int, Chosen | None]  # names, and in which rounds; all if None

# Rounds of a loop in which it has to come to a steady state.
_MOST_LOOP_ROUNDS = 64


class Undecided(Exception):
    """Not everything that matters goes the same way in all of these rounds."""


@dataclass(frozen=True)
class RoundState:
    """When engines are free and names are done, from when the first engine is free; other names hold nothing up."""

    free: dict[int, int]
    done: dict[int, int]


@dataclass
class SideBySide:
    """Rounds that are run at once, each from its own state."""

    body: CompiledBody
    reasons: list[int]
    rounds: Times
    series: int
    _free: dict[int, Times] = field(init=False, default_factory=dict)
    _done: dict[int, Times] = field(init=False, default_factory=dict)
    _tally: dict[tuple[int, int], Times] = field(init=False, default_factory=dict)
    _moved: Moved = field(init=False, default_factory=dict)
    _known: dict[CompiledGrowingStep | CompiledLoop, Times] = field(init=False, default_factory=dict)

    def run(self, begins: list[Times], now: RoundState) -> list[Times]:
        """Run every round; where engines and names are afterwards, from when the first engine is free."""
        self._free = dict(zip(now.free, begins, strict=False))
        self._done = dict(zip(now.done, begins[len(now.free) :], strict=True))
        self._tally = {}
        self._nodes(self.body, None)
        self._shift = self._free[self.body.engines[0]]
        return [time - self._shift for time in (*self._free.values(), *self._done.values())]

    def totals(self, rounds: int) -> tuple[int, dict[tuple[int, int], int]]:
        """How far the first so many rounds go together, and their ticks by engine and reason."""

        def total(times: Times) -> int:
            ends = exact_sum(times[0, :rounds]) + exact_sum(times[-1, :rounds])
            return ends * self.series * (rounds if times.shape[1] == 1 else 1) // 2

        if rounds <= 0:
            return 0, {}
        return total(self._shift), {where: total(ticks) for where, ticks in self._tally.items()}

    def _everywhere(self, number: int) -> Times:
        return np.full((len(self.rounds), 1), number, dtype=np.int64)

    def _nodes(self, body: CompiledBody, active: Chosen | None) -> None:
        for node in body.nodes:
            match node:
                case CompiledLoop():
                    self._loop(node, active)
                case CompiledRamp():
                    raise Undecided
                case CompiledGrowingStep():
                    step = node.one
                    self._step(step.engine, step.name, step.after, self._values(node), active)
                case _:
                    self._step(node.engine, node.name, node.after, node.ticks, active)

    def _values(self, node: CompiledGrowingStep | CompiledLoop) -> Times:
        """The ticks of a step or the count of a loop in every round."""
        if node not in self._known:
            number = node if isinstance(node, CompiledGrowingStep) else node.count
            self._known[node] = self._everywhere(number) if isinstance(number, int) else number.values(self.rounds)
        return self._known[node]

    def _step(self, engine: int, name: int, after: tuple[int, ...], ticks: Times | int, active: Chosen | None) -> None:
        free = begin = self._free[engine]
        waits: list[tuple[int, Chosen | None]] = []  # what is waited for in which rounds, all if None
        for awaited in after:
            done, this = self._done.get(awaited), self.reasons[awaited]
            if done is None or done is begin:
                continue
            later = done > begin
            if not later.any():
                continue
            chosen = later[0]
            if self.series > 1:
                chosen = self._throughout(done, begin, later, active, [which for which in waits if which[0] != this])
            if chosen.all():
                begin, waits = done, [(this, None)]
            else:
                begin = np.where(chosen, done, begin)
                waits = [(reason, _both(~chosen, where)) for reason, where in waits] + [(this, chosen)]
        for reason, where in waits:
            self._add((engine, reason), begin - free, active if where is None else _both(where, active))
        self._add((engine, 0), ticks, active)
        end = begin + ticks
        self._move(name, active)
        if active is None:
            self._free[engine] = self._done[name] = end
        else:
            self._free[engine] = np.where(active, end, free)
            self._done[name] = np.where(active, end, self._done[name])

    def _throughout(
        self, done: Times, begin: Times, later: Chosen, active: Chosen | None, others: list[tuple[int, Chosen | None]]
    ) -> Chosen:
        """Rounds in which a name is done after the begin so far: in the whole series, or else not at all."""
        somewhere = _both(_anywhere(later), active)
        torn = _anywhere(done < begin)
        # where two end together the one listed first is waited for, so a later one must really be later
        tied = _anywhere(~later)
        for _, where in others:
            torn = torn | _both(tied, where)
        if (somewhere & torn).any():
            raise Undecided
        return somewhere

    def _add(self, where: tuple[int, int], ticks: Times | int, active: Chosen | None) -> None:
        spent = self._tally.get(where)
        if spent is None:
            spent = self._everywhere(0)
        self._tally[where] = spent + (ticks if active is None else np.where(active, ticks, 0))

    def _loop(self, loop: CompiledLoop, active: Chosen | None) -> None:
        body, left = loop.body, self._values(loop)
        if active is not None:
            left = np.where(active, left, 0)
        before: tuple[list[Times], Times, dict[tuple[int, int], Times]] | None = None
        moved: Moved = {}
        for _ in range(_MOST_LOOP_ROUNDS):
            running = _anywhere(left > 0)
            if not running.any():
                return
            if before is not None or left.max() > 1:
                base = self._free[body.engines[0]]
                state = self._state(body, base)
                if before is not None:
                    steady = running
                    for one, other in zip(state, before[0], strict=True):
                        steady = steady & (one == other).all(axis=0)
                    if steady.any():
                        self._skip(body, np.where(steady, left, 0), base - before[1], before[2], moved)
                        left = np.where(steady, 0, left)
                        running = running & ~steady
                        if not running.any():
                            return
                before = state, base, dict(self._tally)
            if (running & _anywhere(left <= 0)).any():
                raise Undecided  # it ends earlier at one end of a series than at the other
            moved = self._round(body, None if running.all() else running)
            left = left - running
        if (left > 0).any():
            raise Undecided

    def _round(self, body: CompiledBody, active: Chosen | None) -> Moved:
        """One round of a loop, and the names that it moves: a loop in it that does not run moves none."""
        around, self._moved = self._moved, {}
        self._nodes(body, active)
        moved, self._moved = self._moved, around
        for name, where in moved.items():
            self._move(name, where)
        return moved

    def _move(self, name: int, where: Chosen | None) -> None:
        if name in self._moved:
            before = self._moved[name]
            where = None if before is None or where is None else before | where
        self._moved[name] = where

    def _state(self, body: CompiledBody, base: Times) -> list[Times]:
        """What a round of the body depends on; names that are done before anyone could wait are done just then."""
        state = [self._free[engine] - base for engine in body.engines]
        for name, engines in body.waiting.items():
            done = self._done.get(name)
            if done is not None:
                earliest = self._free[engines[0]]
                for engine in engines[1:]:
                    earliest = np.minimum(earliest, self._free[engine])
                state.append(np.maximum(done, earliest) - base)
        return state

    def _skip(
        self, body: CompiledBody, times: Times, shift: Times, tally_before: dict[tuple[int, int], Times], moved: Moved
    ) -> None:
        """Let the rest of a loop pass at once; ``moved`` are the names that its last round has moved."""
        further = self._product(times, shift)
        for engine in body.engines:
            self._free[engine] = self._free[engine] + further
        for name, where in moved.items():
            self._done[name] = self._done[name] + (further if where is None else np.where(where, further, 0))
        for place, ticks in self._tally.items():
            before = tally_before.get(place)
            if ticks is not before:
                self._tally[place] = ticks + self._product(times, ticks if before is None else ticks - before)

    def _product(self, times: Times, each: Times) -> Times:
        if self.series > 2 and ((times[0] != times[1]) & (each[0] != each[1])).any():
            raise Undecided  # no straight line
        return times * each

    def longest(self, body: CompiledBody) -> float:
        """A bound for the ticks of any round."""
        ticks = 0.0
        for node in body.nodes:
            match node:
                case CompiledLoop():
                    ticks += float(self._values(node).max()) * self.longest(node.body)
                case CompiledGrowingStep():
                    ticks += float(self._values(node).max())
                case CompiledRamp():
                    raise Undecided
                case _:
                    ticks += node.ticks
        return ticks


def _anywhere(ends: Chosen) -> Chosen:
    """What holds at one end of a series at least."""
    anywhere: Chosen = np.any(ends, axis=0)
    return anywhere


def _both(one: Chosen, other: Chosen | None) -> Chosen:
    return one if other is None else one & other
