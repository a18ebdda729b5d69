"""Many rounds of a ramp at once: times are arrays with an entry for every round.

Where rounds begin is not known before those before them have ended. So it is guessed: all rounds are run side by side
from the state in which the first one begins, then each from the state in which the one before it ended, and so on.
When nothing changes any more, every round begins where the one before it ends, and by induction all of them are what
running them one after the other gives. A round that waits for nearly all of what the one before did forgets how that
one began, so two or three guesses are enough; and what has changed no more up to some round holds up to there.

Rounds one period apart differ by constants, so that an entry may also stand for a whole series of them: a time is then
a straight line over the series and is kept as its two ends. A maximum is the argument that is the larger at both ends;
where none is, ``Undecided`` is raised, and fewer rounds are to be taken.

A time that is the same in all rounds is kept once.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.compiled import CompiledBody, CompiledGrowingStep, CompiledLoop, CompiledRamp
from attenio.accelerator.program import exact_sum

__all__ = ["RampRounds", "RoundState", "RoundsTaken", "Undecided"]

Times = NDArray[np.int64]  # two ends, or one, by rounds; one round stands for all if they are equal
Chosen = NDArray[np.bool_]  # by rounds

# Rounds of a loop in which it has to come to a steady state, and guesses of how the ramp's rounds begin.
_MOST_LOOP_ROUNDS = 64
_MOST_GUESSES = 6
_LARGEST = 2.0**60
# Rounds whose times lie side by side: as many as this computer's caches are good for.
_AT_ONCE = 2**13


class Undecided(Exception):
    """Not everything that matters goes the same way in all of these rounds."""


@dataclass(frozen=True)
class RoundState:
    """When engines are free and names are done, from when the first engine is free; other names hold nothing up."""

    free: dict[int, int]
    done: dict[int, int]


@dataclass(frozen=True)
class RoundsTaken:
    """Rounds that were taken: how many, how far they went, the state after, ticks by engine and reason (0: busy)."""

    rounds: int
    shift: int
    ends: RoundState
    tally: dict[tuple[int, int], int]


class RampRounds:
    """Some rounds of a ramp; ``reasons`` are numbers of what names are waited for as.

    They are the rounds from ``start``, ``count`` of them, in ``series`` of one a period where that is more than one.
    """

    def __init__(self, ramp: CompiledRamp, reasons: list[int], start: int, count: int, series: int = 1) -> None:
        self._body, self._count, self._series = ramp.body, count, series
        first = np.arange(start, start + count, dtype=np.int64)
        self._rounds: Times = np.stack((first,) if series == 1 else (first, first + (series - 1) * ramp.period))
        self._parts = [
            _SideBySide(ramp.body, reasons, self._rounds[:, at : at + _AT_ONCE], series)
            for at in range(0, count, _AT_ONCE)
        ]

    def taken(self, now: RoundState) -> RoundsTaken:
        """The rounds from this state, all of them or, where each is by itself, as many as are certain."""
        start = (*now.free.values(), *now.done.values())
        if max(map(abs, start)) > _LARGEST or max(part.longest(self._body) for part in self._parts) > _LARGEST:
            raise Undecided
        begins = [self._everywhere(time) for time in start]
        for _ in range(_MOST_GUESSES):
            ends = self._run(begins, now)
            following = [self._following(time, begin) for time, begin in zip(ends, start, strict=True)]
            same = np.ones(self._count, dtype=np.bool_)
            for guess, found in zip(begins, following, strict=True):
                same &= (guess == found).all(axis=0)
            if same.all():
                if any(begin[0, 0] != time for begin, time in zip(begins, start, strict=True)):
                    raise Undecided
                return self._result(ends, now, self._count)
            begins = following
        if self._series > 1:
            raise Undecided
        return self._result(ends, now, int(np.argmin(same)))

    def _everywhere(self, number: int) -> Times:
        return np.full((len(self._rounds), 1), number, dtype=np.int64)

    def _run(self, begins: list[Times], now: RoundState) -> list[Times]:
        """Run every round from where it begins; where it ends."""
        ends = []
        for number, part in enumerate(self._parts):
            at = slice(number * _AT_ONCE, (number + 1) * _AT_ONCE)
            ends.append(part.run([time if time.shape[1] == 1 else time[:, at] for time in begins], now))
        if len(ends) == 1:
            return ends[0]
        shapes = [part.rounds.shape for part in self._parts]
        return [
            np.concatenate([np.broadcast_to(time, shape) for time, shape in zip(times, shapes, strict=True)], axis=1)
            for times in zip(*ends, strict=True)
        ]

    def _following(self, ends: Times, start: int) -> Times:
        """Every round from where the one before ended; the first from the start, or where the last ended before."""
        every = np.broadcast_to(ends, self._rounds.shape)
        first = self._everywhere(start)
        if self._series > 1:
            first = every[:, -1:] - (every[1, -1] - every[0, -1]) // (self._series - 1)
        if ends.shape[1] == 1 and (first == ends).all():
            return ends
        found = np.concatenate([first, every[:, :-1]], axis=1)
        return found[:, :1] if (found == found[:, :1]).all() else found

    def _result(self, ends: list[Times], now: RoundState, rounds: int) -> RoundsTaken:
        last = [int(time[-1, min(rounds, time.shape[1]) - 1]) for time in ends]
        shift, tally = 0, dict[tuple[int, int], int]()
        for number, part in enumerate(self._parts):
            moved, spent = part.totals(min(rounds - number * _AT_ONCE, _AT_ONCE))
            shift += moved
            tally = {where: tally.get(where, 0) + spent.get(where, 0) for where in {**tally, **spent}}
        return RoundsTaken(
            rounds=rounds * self._series,
            shift=shift,
            ends=RoundState(
                dict(zip(now.free, last, strict=False)), dict(zip(now.done, last[len(now.free) :], strict=True))
            ),
            tally=tally,
        )


@dataclass
class _SideBySide:
    """Rounds that are run at once, each from its own state."""

    body: CompiledBody
    reasons: list[int]
    rounds: Times
    series: int
    _free: dict[int, Times] = field(init=False, default_factory=dict)
    _done: dict[int, Times] = field(init=False, default_factory=dict)
    _tally: dict[tuple[int, int], Times] = field(init=False, default_factory=dict)
    _known: dict[CompiledGrowingStep | CompiledLoop, Times] = field(init=False, default_factory=dict)

    def run(self, begins: list[Times], now: RoundState) -> list[Times]:
        """Run every round; where engines and names are afterwards, from when the first engine is free."""
        self._free = dict(zip(now.free, begins, strict=False))
        self._done = dict(zip(now.done, begins[len(now.free) :], strict=True))
        self._tally = {}
        self._nodes(self.body, None, nested=False)
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

    def _nodes(self, body: CompiledBody, active: Chosen | None, *, nested: bool) -> None:
        for node in body.nodes:
            match node:
                case CompiledLoop():
                    self._loop(node, active, nested=nested)
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
        if active is None:
            self._free[engine] = self._done[name] = end
        else:
            self._free[engine] = np.where(active, end, free)
            self._done[name] = np.where(active, end, self._done[name])

    def _throughout(
        self,
        done: Times,
        begin: Times,
        later: Chosen,
        active: Chosen | None,
        others: list[tuple[int, Chosen | None]],
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
        found = self._tally.get(where)
        if found is None:
            found = self._everywhere(0)
        self._tally[where] = found + (ticks if active is None else np.where(active, ticks, 0))

    def _loop(self, loop: CompiledLoop, active: Chosen | None, *, nested: bool) -> None:
        body, left = loop.body, self._values(loop)
        if active is not None:
            left = np.where(active, left, 0)
        if nested and _both(_anywhere(left == 0), active).any():
            raise Undecided  # it moves no names, though the loop around it takes them to be moved
        before: tuple[list[Times], Times, dict[tuple[int, int], Times]] | None = None
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
                        self._skip(body, np.where(steady, left, 0), base - before[1], before[2])
                        left = np.where(steady, 0, left)
                        running = running & ~steady
                        if not running.any():
                            return
                before = state, base, dict(self._tally)
            if (running & _anywhere(left <= 0)).any():
                raise Undecided  # it ends earlier at one end of a series than at the other
            self._nodes(body, None if running.all() else running, nested=True)
            left = left - running
        if (left > 0).any():
            raise Undecided

    def _state(self, body: CompiledBody, base: Times) -> list[Times]:
        """What a round of the body depends on; names that are done before anyone could wait are done just then."""
        found = [self._free[engine] - base for engine in body.engines]
        for name, engines in body.waiting.items():
            done = self._done.get(name)
            if done is not None:
                earliest = self._free[engines[0]]
                for engine in engines[1:]:
                    earliest = np.minimum(earliest, self._free[engine])
                found.append(np.maximum(done, earliest) - base)
        return found

    def _skip(self, body: CompiledBody, times: Times, shift: Times, tally_before: dict[tuple[int, int], Times]) -> None:
        """Let the rest of a loop pass at once."""
        moved = self._product(times, shift)
        for engine in body.engines:
            self._free[engine] = self._free[engine] + moved
        for name in body.sets:
            self._done[name] = self._done[name] + moved
        for where, ticks in self._tally.items():
            before = tally_before.get(where)
            if ticks is not before:
                self._tally[where] = ticks + self._product(times, ticks if before is None else ticks - before)

    def _product(self, times: Times, each: Times) -> Times:
        if self.series > 2 and ((times[0] != times[1]) & (each[0] != each[1])).any():
            raise Undecided  # no straight line
        return times * each

    def longest(self, body: CompiledBody) -> float:
        """A bound for the ticks of any round."""
        found = 0.0
        for node in body.nodes:
            match node:
                case CompiledLoop():
                    found += float(self._values(node).max()) * self.longest(node.body)
                case CompiledGrowingStep():
                    found += float(self._values(node).max())
                case CompiledRamp():
                    raise Undecided
                case _:
                    found += node.ticks
        return found


def _anywhere(ends: Chosen) -> Chosen:
    """What holds at one end of a series at least."""
    found: Chosen = np.any(ends, axis=0)
    return found


def _both(one: Chosen, other: Chosen | None) -> Chosen:
    return one if other is None else one & other
