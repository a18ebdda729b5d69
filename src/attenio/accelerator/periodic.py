"""The timeline of a program without running every step: steady state is recognised and multiplied.

Where every engine and every name stands is a vector of times; a body maps it to another with nothing but maxima and
sums, so that adding a constant to all times adds it to all results. If two rounds of a loop therefore begin in states
that differ by a constant, everything between them repeats, shifted, for as long as the loop lasts. Only what can matter
is compared: the engines that the body uses, and the names that it waits for as far as they lie after the earliest of
these engines is free (what is over by then holds nothing up). A round from a state that was met before, in whatever
loop, is not worked out again.

A loop in which engines run apart for ever never comes back to a state; it is run round by round, to the same result.

The rounds of a ramp differ from each other. They are run side by side (``ramp_rounds``), and where rounds a period
apart go the same way, whole series of them are: all, or half of them, or a quarter, down to one round by itself.
"""

from dataclasses import dataclass, field

from attenio.accelerator.compiled import (
    ENGINES,
    CompiledBody,
    CompiledGrowingStep,
    CompiledLoop,
    CompiledProgram,
    CompiledRamp,
    CompiledStep,
    compiled,
)
from attenio.accelerator.program import Program
from attenio.accelerator.ramp_rounds import RampRounds, RoundsTaken
from attenio.accelerator.side_by_side import RoundState, Undecided
from attenio.accelerator.timeline import RAMP, Timeline

# States of a loop that are kept to be met again; engines that wait for each other come back within a few rounds.
_KEPT_STATES = 4096
# Rounds of a ramp that are too few to be worth a series, and those that are run one by one, at most, between trying.
_FEW_ROUNDS = 8
_MOST_SINGLE_ROUNDS = 256
# Rounds whose times are kept at the same time, and rounds that a period may have.
_MOST_TOGETHER = 2**18

_Key = tuple[int, ...]


def periodic_timeline(program: Program) -> Timeline:
    """The timeline of the program, exactly that of running it step by step."""
    compiled_program = compiled(program)
    run = _Run(compiled_program)
    run.body(compiled_program.body)
    return run.timeline()


@dataclass(frozen=True)
class _Round:
    """What a body does to a state: times relative to when the earliest engine was free, and cycles accounted for."""

    free: tuple[int, ...]
    done: tuple[int, ...]
    tally: tuple[tuple[int, int], ...]


@dataclass
class _Run:
    program: CompiledProgram
    free: list[int] = field(init=False)
    started: list[bool] = field(init=False)
    done: list[int] = field(init=False)
    tally: list[int] = field(init=False)  # per engine: busy ticks, then idle ticks by reason

    def __post_init__(self) -> None:
        reasons = self.program.reasons
        self._width = 1 + len(reasons)
        self._ramp_reason = 1 + reasons.index(RAMP)
        self._reason = [1 + reasons.index(cause) for cause in self.program.causes]
        self.free = [0] * len(ENGINES)
        self.started = [False] * len(ENGINES)
        self.done = [0] * len(self.program.names)
        self.tally = [0] * (len(ENGINES) * self._width)
        self._rounds: dict[tuple[CompiledBody, _Key], _Round] = {}

    def body(self, body: CompiledBody) -> None:
        """Run every node."""
        for node in body.nodes:
            match node:
                case CompiledStep():
                    self._step(node)
                case CompiledGrowingStep():
                    raise AssertionError("a step that grows outside a ramp")
                case CompiledLoop():
                    self._loop(node)
                case CompiledRamp():
                    self._ramp(node)

    def _step(self, step: CompiledStep) -> None:
        engine, begin, cause = step.engine, self.free[step.engine], -1
        for name in step.after:
            if self.done[name] > begin:
                begin, cause = self.done[name], name
        if cause >= 0:
            reason = self._reason[cause] if self.started[engine] else self._ramp_reason
            self.tally[engine * self._width + reason] += begin - self.free[engine]
        self.started[engine] = True
        self.tally[engine * self._width] += step.ticks
        self.free[engine] = self.done[step.name] = begin + step.ticks

    def _loop(self, loop: CompiledLoop) -> None:
        body, at = loop.body, 0
        assert isinstance(loop.count, int), "a loop that grows outside a ramp"
        met: dict[_Key, tuple[int, int, list[int]]] = {}
        if not body.engines:
            return
        while at < loop.count:
            base = min(self.free[engine] for engine in body.engines)
            key = self._key(body, base)
            if key in met:
                before, base_before, tally_before = met[key]
                periods, rest = divmod(loop.count - at, at - before)
                self._skip(body, periods, base - base_before, tally_before)
                at = loop.count - rest
                met.clear()
                continue
            if len(met) < _KEPT_STATES:
                met[key] = (at, base, self.tally.copy())
            self._round(body, key, base)
            at += 1

    def _key(self, body: CompiledBody, base: int) -> _Key:
        engines = [self.free[engine] - base for engine in body.engines]
        started = [int(self.started[engine]) for engine in body.engines]
        return (*engines, *started, *(max(self.done[name] - base, 0) for name in body.waits))

    def _skip(self, body: CompiledBody, times: int, shift: int, tally_before: list[int]) -> None:
        """Let so many periods pass at once."""
        for engine in body.engines:
            self.free[engine] += times * shift
        for name in body.sets:
            self.done[name] += times * shift
        self.tally = [now + times * (now - before) for now, before in zip(self.tally, tally_before, strict=True)]

    def _round(self, body: CompiledBody, key: _Key, base: int) -> None:
        known = self._rounds.get((body, key))
        if known is None:
            before = self.tally.copy()
            self.body(body)
            if len(self._rounds) < _KEPT_STATES:
                spent = enumerate(now - then for now, then in zip(self.tally, before, strict=True))
                self._rounds[body, key] = _Round(
                    free=tuple(self.free[engine] - base for engine in body.engines),
                    done=tuple(self.done[name] - base for name in body.sets),
                    tally=tuple((where, ticks) for where, ticks in spent if ticks),
                )
            return
        for engine, free in zip(body.engines, known.free, strict=True):
            self.free[engine], self.started[engine] = base + free, True
        for name, done in zip(body.sets, known.done, strict=True):
            self.done[name] = base + done
        for where, ticks in known.tally:
            self.tally[where] += ticks

    def _ramp(self, ramp: CompiledRamp) -> None:
        body, at, singly = ramp.body, 0, 1
        # the first rounds are short and unlike others; what is left after them is best a multiple of the period
        together = max(_FEW_ROUNDS, ramp.times % ramp.period) if ramp.times > ramp.period else ramp.times
        while at < ramp.times:
            taken = None
            if self._is_settled(body):
                taken = self._series(ramp, at) if at >= min(ramp.period, _FEW_ROUNDS) else None
                taken = taken or self._side_by_side(ramp, at, min(together, ramp.times - at))
            if taken is not None:
                self._take(taken, body)
                at, together, singly = at + taken.rounds, ramp.period, 1
                continue
            for number in range(at, min(at + singly, ramp.times)):
                self.body(body.at(number))
                at = number + 1
            singly = min(2 * singly, _MOST_SINGLE_ROUNDS)

    def _is_settled(self, body: CompiledBody) -> bool:
        """Whether all engines have begun and no step from before the ramp still matters."""
        older = (name for name in body.waits if name not in body.sets)
        over = all(self.done[name] <= self.free[engine] for name in older for engine in body.waiting[name])
        return over and all(self.started[engine] for engine in body.engines)

    def _now(self, body: CompiledBody) -> RoundState:
        base = self.free[body.engines[0]]
        return RoundState(
            {engine: self.free[engine] - base for engine in body.engines},
            {name: self.done[name] - base for name in body.sets},
        )

    def _series(self, ramp: CompiledRamp, at: int) -> RoundsTaken | None:
        """As many whole periods as go the same way, if any do."""
        series = (ramp.times - at) // ramp.period
        while series >= _FEW_ROUNDS and ramp.period <= _MOST_TOGETHER:
            try:
                return RampRounds(ramp, self._reason, at, ramp.period, series).taken(self._now(ramp.body))
            except Undecided:
                series //= 2
        return None

    def _side_by_side(self, ramp: CompiledRamp, at: int, count: int) -> RoundsTaken | None:
        """So many rounds, or as many as an array is good for; none where a loop comes to no steady state."""
        try:
            return RampRounds(ramp, self._reason, at, min(count, _MOST_TOGETHER)).taken(self._now(ramp.body))
        except Undecided:
            return None

    def _take(self, taken: RoundsTaken, body: CompiledBody) -> None:
        base = self.free[body.engines[0]] + taken.shift
        for engine, time in taken.ends.free.items():
            self.free[engine] = base + time
        for name, time in taken.ends.done.items():
            self.done[name] = base + time
        for (engine, reason), ticks in taken.tally.items():
            self.tally[engine * self._width + reason] += ticks

    def timeline(self) -> Timeline:
        reasons, width = self.program.reasons, self._width
        busy = {engine: self.tally[number * width] for number, engine in enumerate(ENGINES)}
        idle = {
            (engine, reason): self.tally[number * width + 1 + index]
            for number, engine in enumerate(ENGINES)
            for index, reason in enumerate(reasons)
        }
        return Timeline.of_ticks(self.program.ticks_per_cycle, max(self.free), busy, idle)
