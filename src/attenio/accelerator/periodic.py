"""The timeline of a program without running every step: steady state is recognised and multiplied.

Where every engine and every name stands is a vector of times; a body maps it to another with nothing but maxima and
sums, so that adding a constant to all times adds it to all results. If two rounds of a loop therefore begin in states
that differ by a constant, everything between them repeats, shifted, for as long as the loop lasts. Only what can matter
is compared: the engines that the body uses, and the names that it waits for as far as they lie after the earliest of
these engines is free (what is over by then holds nothing up). A round from a state that was met before, in whatever
loop, is not worked out again.

A loop in which engines run apart for ever never comes back to a state; it is run round by round, to the same result.
"""

from dataclasses import dataclass, field

from attenio.accelerator.compiled import ENGINES, CompiledBody, CompiledLoop, CompiledProgram, compiled
from attenio.accelerator.program import Program
from attenio.accelerator.timeline import RAMP, Timeline

__all__ = ["periodic_timeline"]

# States of a loop that are kept to be met again; engines that wait for each other come back within a few rounds.
_KEPT_STATES = 4096

_Key = tuple[int, ...]


def periodic_timeline(program: Program) -> Timeline:
    """The timeline of the program, exactly that of running it step by step."""
    made = compiled(program)
    run = _Run(made)
    run.body(made.body)
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
        self._ramp = 1 + reasons.index(RAMP)
        self._reason = [1 + reasons.index(cause) for cause in self.program.causes]
        self.free = [0] * len(ENGINES)
        self.started = [False] * len(ENGINES)
        self.done = [0] * len(self.program.names)
        self.tally = [0] * (len(ENGINES) * self._width)
        self._rounds: dict[tuple[int, _Key], _Round] = {}

    def body(self, body: CompiledBody) -> None:
        """Run every node."""
        for node in body.nodes:
            if isinstance(node, CompiledLoop):
                self._loop(node)
                continue
            engine, begin, cause = node.engine, self.free[node.engine], -1
            for name in node.after:
                if self.done[name] > begin:
                    begin, cause = self.done[name], name
            if cause >= 0:
                reason = self._reason[cause] if self.started[engine] else self._ramp
                self.tally[engine * self._width + reason] += begin - self.free[engine]
            self.started[engine] = True
            self.tally[engine * self._width] += node.ticks
            self.free[engine] = self.done[node.name] = begin + node.ticks

    def _loop(self, loop: CompiledLoop) -> None:
        body, at = loop.body, 0
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
        found = self._rounds.get((id(body), key))
        if found is None:
            before = self.tally.copy()
            self.body(body)
            if len(self._rounds) < _KEPT_STATES:
                spent = enumerate(now - then for now, then in zip(self.tally, before, strict=True))
                self._rounds[id(body), key] = _Round(
                    free=tuple(self.free[engine] - base for engine in body.engines),
                    done=tuple(self.done[name] - base for name in body.sets),
                    tally=tuple((where, ticks) for where, ticks in spent if ticks),
                )
            return
        for engine, free in zip(body.engines, found.free, strict=True):
            self.free[engine], self.started[engine] = base + free, True
        for name, done in zip(body.sets, found.done, strict=True):
            self.done[name] = base + done
        for where, ticks in found.tally:
            self.tally[where] += ticks

    def timeline(self) -> Timeline:
        reasons, width = self.program.reasons, self._width
        busy = {engine: self.tally[number * width] for number, engine in enumerate(ENGINES)}
        idle = {
            (engine, reason): self.tally[number * width + 1 + index]
            for number, engine in enumerate(ENGINES)
            for index, reason in enumerate(reasons)
        }
        return Timeline.of_ticks(self.program.ticks_per_cycle, max(self.free), busy, idle)
