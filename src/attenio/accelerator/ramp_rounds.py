"""Many rounds of a ramp at once: times as functions of the round.

The rounds of a ramp differ, so no two begin in states that differ by a constant. But the state in which round r begins
may be one *function* of r. Let a body run on functions instead of numbers: sums are sums, and a maximum is the
argument that is the larger in all rounds from ``start`` to ``stop``, which bounds decide. If the state after round r is
the function that round r + 1 is taken to begin with, and the state before round ``start`` is its value there, then by
induction every round in between is what the functions say, and busy and idle times are their sums.

Where no argument is the larger throughout, or a loop comes to no steady state, ``Undecided`` is raised: fewer rounds
may be decided, and single ones always are.
"""

from dataclasses import dataclass, field

from attenio.accelerator.compiled import CompiledBody, CompiledGrowingStep, CompiledLoop, CompiledRamp
from attenio.accelerator.growth import Growing

__all__ = ["RampRounds", "RoundFunctions", "RoundState", "Undecided"]

# Rounds of a loop in which it has to come to a steady state, and rounds of guessing what the ramp's is.
_MOST_LOOP_ROUNDS = 64
_MOST_GUESSES = 5

_ZERO = Growing(0)


class Undecided(Exception):
    """Not everything that matters goes the same way in all of these rounds."""


@dataclass(frozen=True)
class RoundState:
    """When engines are free and names are done, from when the first engine is free; other names hold nothing up."""

    free: dict[int, Growing]
    done: dict[int, Growing]

    def later(self, rounds: int) -> "RoundState":
        """The state so many rounds later."""
        return RoundState(
            {engine: time.later(rounds) for engine, time in self.free.items()},
            {name: time.later(rounds) for name, time in self.done.items()},
        )


@dataclass(frozen=True)
class RoundFunctions:
    """What a round is: the state that it begins with, how far it goes, and ticks by engine and reason (0: busy)."""

    begins: RoundState
    shift: Growing
    tally: dict[tuple[int, int], Growing]


@dataclass
class RampRounds:
    """The rounds of a body from ``start`` to ``stop``; ``reasons`` are numbers of what names are waited for as."""

    body: CompiledBody
    reasons: list[int]
    start: int
    stop: int
    _free: dict[int, Growing] = field(init=False, default_factory=dict)
    _done: dict[int, Growing] = field(init=False, default_factory=dict)
    _tally: dict[tuple[int, int], Growing] = field(init=False, default_factory=dict)

    def functions(self, guess: RoundState) -> RoundFunctions:
        """The functions that these rounds repeat, found by letting a few rounds follow a guess."""
        for _ in range(_MOST_GUESSES):
            ends, shift = self._run(guess)
            begins = ends.later(-1)
            if begins == guess:
                return RoundFunctions(begins, shift, self._tally)
            guess = begins
        raise Undecided

    def _run(self, begins: RoundState) -> tuple[RoundState, Growing]:
        self._free, self._done, self._tally = dict(begins.free), dict(begins.done), {}
        self._nodes(self.body)
        shift = self._free[self.body.engines[0]]
        free = {engine: time - shift for engine, time in self._free.items()}
        done = {name: self._done[name] - shift for name in self.body.sets if name in self._done}
        return RoundState(free, done), shift

    def _nodes(self, body: CompiledBody) -> None:
        for node in body.nodes:
            match node:
                case CompiledLoop():
                    self._loop(node)
                case CompiledRamp():
                    raise Undecided
                case CompiledGrowingStep():
                    self._step(node.first.engine, node.first.name, node.first.after, node.ticks)
                case _:
                    self._step(node.engine, node.name, node.after, Growing(node.ticks))

    def _step(self, engine: int, name: int, after: tuple[int, ...], ticks: Growing) -> None:
        free = begin = self._free[engine]
        reason = 0
        for awaited in after:
            done = self._done.get(awaited)
            if done is None or done is begin:
                continue
            low, high = (done - begin).sign_bounds(self.start, self.stop)
            if high <= 0:
                continue
            # where two end together the one listed first is waited for, so a later one must really be later
            if low < 0 or (low == 0 and reason not in (0, self.reasons[awaited])):
                raise Undecided
            begin, reason = done, self.reasons[awaited]
        if reason:
            self._add((engine, reason), begin - free)
        self._add((engine, 0), ticks)
        self._free[engine] = self._done[name] = begin + ticks

    def _add(self, where: tuple[int, int], ticks: Growing) -> None:
        self._tally[where] = self._tally.get(where, _ZERO) + ticks

    def _loop(self, loop: CompiledLoop) -> None:
        body, at = loop.body, 0
        left = Growing(loop.count, loop.growth)
        met: dict[tuple[Growing | None, ...], tuple[int, Growing, dict[tuple[int, int], Growing]]] = {}
        while True:
            low, high = left.sign_bounds(self.start, self.stop)
            if at and high <= 0 <= low:
                return
            # a loop that does not run moves no names, though they are listed as moved
            if low <= 0 or at == _MOST_LOOP_ROUNDS:
                raise Undecided
            base = self._free[body.engines[0]]
            key = self._key(body, base)
            if key in met:
                before, base_before, tally_before = met[key]
                periods, rest = _divided(left, at - before)
                self._skip(body, periods, base - base_before, tally_before)
                left = Growing(rest)
                met.clear()
                continue
            met[key] = at, base, dict(self._tally)
            self._nodes(body)
            at, left = at + 1, left - Growing(1)

    def _key(self, body: CompiledBody, base: Growing) -> tuple[Growing | None, ...]:
        return (
            *(self._free[engine] - base for engine in body.engines),
            *(self._late(name, engines, base) for name, engines in body.waiting.items()),
        )

    def _late(self, name: int, engines: tuple[int, ...], base: Growing) -> Growing | None:
        """When a name is done, None if that is before anyone who waits for it could begin."""
        done = self._done.get(name)
        if done is None:
            return None
        for engine in engines:
            if (done - self._free[engine]).sign_bounds(self.start, self.stop)[1] > 0:
                return done - base
        return None

    def _skip(
        self,
        body: CompiledBody,
        periods: Growing,
        shift: Growing,
        tally_before: dict[tuple[int, int], Growing],
    ) -> None:
        moved = _product(periods, shift)
        for engine in body.engines:
            self._free[engine] += moved
        for name in body.sets:
            self._done[name] += moved
        for where, ticks in self._tally.items():
            spent = ticks - tally_before.get(where, _ZERO)
            self._tally[where] = ticks + _product(periods, spent)


def _divided(number: Growing, divisor: int) -> tuple[Growing, int]:
    """Whole periods of what is left of a loop, and a remainder that is the same in all rounds of the ramp."""
    if number.quotients or number.slope % divisor:
        raise Undecided
    whole, rest = divmod(number.constant, divisor)
    return Growing(whole, number.slope // divisor), rest


def _product(left: Growing, right: Growing) -> Growing:
    if left.is_constant:
        return right.times(left.constant)
    if right.is_constant:
        return left.times(right.constant)
    raise Undecided
