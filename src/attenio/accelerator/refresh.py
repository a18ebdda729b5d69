"""Refreshes as events: what the average that timelines are made with leaves out, measured.

Every channel of the memory is refreshed once in an interval (tREFI) and moves nothing meanwhile (tRFC). Timelines let
every transfer take its share of that, so that rounds stay equal and can be multiplied. Here refreshes happen at times:

    together      all channels at once, as soon as a refresh is due, whatever they are doing
    by-channel    each channel by itself, where it has nothing to do for long enough; it may be eight refreshes late or
                  ahead (the standard allows that), and one that can be put off no longer begins with the next pause

A transfer that meets a refresh waits for it. With T the cycles of the program on a memory that needs no refresh, f the
share of time that refreshes take and r one refresh, the average lies between T and T / (1 - f), since no step takes
longer than that many times as long; and refreshes together between T and (T + r) / (1 - f), since if not only the
memory but everything stood still in each of them it would take at most that. So the two are at most f T / (1 - f) and
one refresh apart: 7.2 % of the cycles with the timings of the HBM2 part.

>>> from attenio.accelerator.simulate import simulate
>>> from attenio.catalogue import machine_named
>>> from attenio.workload import Workload
>>> done = simulate(Workload(n=1024, d=64), machine_named("attenio-512k"), dataflow="flash-attention-2")
>>> for when in RefreshTimes:
...     run = refreshed(done.program, done.hardware.hbm, when, clock_hz=done.hardware.clock_hz)
...     print(f"{when.value}: {float(run.cycles / done.cycles - 1):+.2%}")
together: +0.26%
by-channel: -1.71%
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import lcm

from attenio.accelerator.events import MOST_EVENTS
from attenio.accelerator.hbm import Hbm
from attenio.accelerator.program import Program
from attenio.accelerator.step import Engine, Step
from attenio.errors import InvalidInput

# Refreshes that a channel may be late or ahead (JEDEC JESD235).
_MOST_APART = 8


class RefreshTimes(Enum):
    """When channels are refreshed."""

    TOGETHER = "together"
    BY_CHANNEL = "by-channel"


@dataclass(frozen=True, kw_only=True)
class RefreshRun:
    """A program with its refreshes: cycles, and those of the same program on a memory that needs none."""

    when: RefreshTimes
    cycles: Fraction
    without: Fraction


def refreshed(program: Program, hbm: Hbm, when: RefreshTimes, *, clock_hz: int) -> RefreshRun:
    """Run a program step by step with refreshes at their times."""
    if program.steps > MOST_EVENTS:
        raise InvalidInput(
            f"the program has {program.steps:,} steps, and with refreshes at most {MOST_EVENTS:,} are run;"
            " use a smaller n, or their average"
        )
    interval, length = (
        Fraction(time * clock_hz, 10**9) for time in (hbm.parts.refresh_interval_ns, hbm.parts.refresh_ns)
    )
    steps = list(program)
    cycles = {id(step): _plain_cycles(step, hbm) for step in steps}
    ticks = lcm(interval.denominator, length.denominator, *(each.denominator for each in set(cycles.values())))
    whole = {step: int(each * ticks) for step, each in cycles.items()}
    memory: _Together | _ByChannel = _Together(int(interval * ticks), int(length * ticks))
    if when is RefreshTimes.BY_CHANNEL and length:
        memory = _ByChannel(int(interval * ticks), int(length * ticks), _touched(steps, hbm))
    return RefreshRun(
        when=when,
        cycles=Fraction(_ends(steps, whole, memory), ticks),
        without=Fraction(_ends(steps, whole, _Together(1, 0)), ticks),
    )


def _ends(steps: list[Step], ticks: dict[int, int], memory: "_Together | _ByChannel") -> int:
    """When the last step ends; steps begin as in every timeline, and transfers end when the memory says so."""
    free, done = dict.fromkeys(Engine, 0), dict[str, int]()
    for step in steps:
        begin = free[step.engine]
        for name in step.after:
            begin = max(begin, done.get(name, 0))
        end = memory.end(begin, ticks[id(step)]) if step.engine is Engine.HBM else begin + ticks[id(step)]
        free[step.engine] = done[step.name] = end
    return max(free.values())


def _plain_cycles(step: Step, hbm: Hbm) -> Fraction:
    """Cycles of a step on a memory that needs no refresh."""
    if step.engine is not Engine.HBM:
        return Fraction(step.cycles)
    missed = Fraction(0) if step.pace is None else step.cycles - step.pace.cycles
    return (step.cycles - missed) / hbm.refresh_factor + missed


class _Together:
    """All channels at once, at every multiple of the interval."""

    def __init__(self, interval: int, length: int) -> None:
        self._interval, self._length = interval, length

    def end(self, begin: int, ticks: int) -> int:
        """When a transfer ends; it goes on where a refresh interrupted it."""
        if not self._length or not ticks:
            return begin + ticks
        number, phase = divmod(begin, self._interval)
        between = self._interval - self._length
        at = max(phase - self._length, 0)  # of the time between refreshes in this interval
        # one that ends just as a refresh begins is not interrupted
        more, rest = divmod(at + ticks - 1, between)
        return (number + more) * self._interval + self._length + rest + 1


class _ByChannel:
    """Each channel in its pauses."""

    def __init__(self, interval: int, length: int, touched: Iterator[tuple[int, ...]]) -> None:
        self._interval, self._length, self._touched = interval, length, touched
        self._count: dict[int, int] = {}
        self._idle_since: dict[int, int] = {}

    def end(self, begin: int, ticks: int) -> int:
        """When the transfer that comes next ends."""
        channels, start = next(self._touched), begin
        for channel in channels:
            since = self._idle_since.get(channel, 0)
            due = begin // self._interval
            count = self._count.get(channel, 0)
            # as many as the pause has room for, eight ahead at most
            count += max(0, min((begin - since) // self._length, due + _MOST_APART - count))
            if due - count > _MOST_APART:
                count += 1
                start = max(start, since + self._length)
            self._count[channel] = count
        for channel in channels:
            self._idle_since[channel] = start + ticks
        return start + ticks


def _touched(steps: list[Step], hbm: Hbm) -> Iterator[tuple[int, ...]]:
    """The channels of every transfer: bursts go round all of them, each matrix from where its last transfer ended."""
    channels = hbm.parts.channels
    at: dict[str, int] = {}
    for step in steps:
        if step.engine is Engine.HBM:
            bursts = -(-step.work.moved_words * hbm.element_bytes // hbm.parts.burst_bytes)
            missed = step.pace is not None and step.cycles > step.pace.cycles
            first = 0 if missed else at.get(step.name, 0)  # where no row is open, a matrix begins anew
            at[step.name] = (first + bursts) % channels
            yield tuple((first + number) % channels for number in range(min(bursts, channels)))
