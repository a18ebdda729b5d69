"""Many rounds of a ramp at once.

Where rounds begin is not known before those before them have ended. So it is guessed: all rounds are run side by side
from the state in which the first one begins, then each from the state in which the one before it ended, and so on.
When nothing changes any more, every round begins where the one before it ends, and by induction all of them are what
running them one after the other gives. A round that waits for nearly all of what the one before did forgets how that
one began, so two or three guesses are enough; and what has changed no more up to some round holds up to there.

Rounds one period apart differ by constants, so that whole series of them are run as one.
"""

from dataclasses import dataclass

import numpy as np

from attenio.accelerator.compiled import CompiledRamp
from attenio.accelerator.side_by_side import RoundState, SideBySide, Times, Undecided

# Guesses of how rounds begin, and ticks that are sure to fit 64 bits.
_MOST_GUESSES = 6
_LARGEST = 2.0**60
# Rounds whose times lie side by side: as many as this computer's caches are good for.
_AT_ONCE = 2**14


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
            SideBySide(ramp.body, reasons, self._rounds[:, at : at + _AT_ONCE], series)
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
        starts = np.concatenate([first, every[:, :-1]], axis=1)
        return starts[:, :1] if (starts == starts[:, :1]).all() else starts

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
