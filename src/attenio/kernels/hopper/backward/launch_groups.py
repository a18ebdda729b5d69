"""How a backward pass whose blocks add to dQ is cut into launches, so that the sums of each stay in L2.

Sums are four bytes a number. Of a whole call they would be written to memory when they are cleared, moved both ways
while they are added to, and read when they are converted. Launches of a few units (KV heads of sequences) at a time add
to one small buffer instead. What that may cost is time: blocks of a launch end one after the other, and SMs wait. So
each cut is tried on paper, by list scheduling of its blocks, and taken if it costs little.

Small launches may also take turns in two lanes, each with sums of its own: blocks of the one begin where those of the
other end, so that they cost nothing if the blocks of two launches fill the SMs. They are as small as that allows. Still
the longest block of a launch may hold up its lane, so that is tried on paper too.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import cycle
from typing import NamedTuple

__all__ = ["Groups", "groups_of"]

LANES = 2
# Sums at once: a part of an L2 (an H200 has 60 MiB) that also holds what passes and is written meanwhile. With
# 16 MiB 392 MB were counted where 8 MiB moved 252, of 601 in one launch.
SUMS_BYTES = 12 * 2**20
# Sums of each of two lanes: with fewer, blocks of two launches do not fill the SMs at d=128, and with more they leave
# too little of L2 to what passes. Lanes of 16 MiB moved a fifth more than one lane (604 MB, 506) for 0.4 to 1.4
# percent of the time (32K tokens, d=128; causal heads -0.5 to 1).
LANE_BYTES = 8 * 2**20
# Sums that a launch may have where a cut would cost too much time: memory that a call takes besides its tensors.
_MOST_BYTES = 2**30
# Time that a cut may cost: at 8K tokens it is 3 percent, for less than half of the bytes; longer heads gain some.
_LOSS = 0.04
# Time that units must save which come together although their sums leave the cache: where four heads of queries share
# keys, four units together moved 753 MB, and 554 one after the other.
_WORTH = 0.1
# Times on paper that differ by less are the same. Where blocks have fewer tiles of rows lanes are not taken: such
# blocks end before the kernel between two launches of the other lane has found room and done its work (measured: 3
# percent lost at 2K tokens and d=64, with 16 tiles).
_SAME, _LEAST_STEPS = 0.005, 24
# What a block costs besides its tiles of rows, and a launch besides its blocks, in tiles of rows: SMs are not equally
# fast, and wait 11 microseconds for the last of them (measured on an H200).
_BLOCK, _LAUNCH = 2.0, 5.0
# More blocks are not scheduled one by one: they end together, or the longest of them ends last.
_MOST_SIMULATED = 2**13


class Groups(NamedTuple):
    """Units of each launch, and how many of them blocks take in turns: first the first tile of keys of each of them.

    Launches are in so many lanes in turns.
    """

    launches: tuple[range, ...]
    together: int
    lanes: int = 1

    @classmethod
    def even(cls, units: int, launches: int, *, in_turns: bool, lanes: int = 1) -> "Groups":
        """As many launches, as even as they can be."""
        ends = [units * place // launches for place in range(launches + 1)]
        return cls(tuple(map(range, ends, ends[1:])), -(-units // launches) if in_turns else 1, lanes)

    @property
    def most(self) -> int:
        """Units of the largest launch."""
        return max(map(len, self.launches))

    @property
    def turns(self) -> tuple[tuple[int, range], ...]:
        """Lanes and units of the launches in their order; at last none in each lane, where sums are left."""
        lanes = range(min(self.lanes, len(self.launches)))
        return *zip(cycle(lanes), self.launches, strict=False), *((lane, range(0)) for lane in lanes)


@lru_cache(maxsize=512)
def groups_of(
    units: int, steps: tuple[int, ...], unit_bytes: int, processors: int, sums_bytes: int = SUMS_BYTES
) -> Groups:
    """Launches for units whose tiles of keys meet ``steps`` tiles of rows each, and have ``unit_bytes`` of sums."""
    at_once = max(1, sums_bytes // unit_bytes)
    small, large = _small(units, steps, at_once, processors), _large(units, steps, at_once, unit_bytes, processors)
    times = [_time(each, steps, processors) for each in (small, large)]
    alone = small if times[0] <= (1 + _LOSS) * times[1] else large
    if max(steps) < _LEAST_STEPS or unit_bytes > LANE_BYTES:
        return alone
    most = (1 + _SAME) * min(times)
    for power in range((LANE_BYTES // unit_bytes).bit_length()):
        laned = Groups.even(units, -(-units >> power), in_turns=len(set(steps)) > 1, lanes=LANES)
        # In fewer launches lanes would have the sums of all units at once.
        possible = len(laned.launches) > LANES and _longest_of_lanes(laned, steps) <= most
        if possible and _time_of_lanes(laned, steps, processors) <= most:
            return laned
    return alone


def _small(units: int, steps: tuple[int, ...], at_once: int, processors: int) -> Groups:
    """The fastest of launches with so many units at most."""
    fewest, uneven = -(-units // at_once), len(set(steps)) > 1

    def time(launches: int) -> float:
        size, larger = divmod(units, launches)
        sizes = {size: launches - larger, size + 1: larger}
        return _time_of(sizes, size + (larger > 0) if uneven else 1, steps, processors)

    return Groups.even(units, min(range(fewest, min(units, 2 * fewest + 1) + 1), key=time), in_turns=uneven)


def _large(units: int, steps: tuple[int, ...], at_once: int, unit_bytes: int, processors: int) -> Groups:
    """As few launches as memory allows; more units come together than the cache holds where that saves much time."""
    launches = Groups.even(units, -(-units // max(1, _MOST_BYTES // unit_bytes)), in_turns=False).launches
    if len(set(steps)) == 1:
        return Groups(launches, 1)
    tried = [Groups(launches, 1 << power) for power in range(len(launches[-1]).bit_length())]
    held = min(tried[: at_once.bit_length()], key=lambda each: _time(each, steps, processors))
    if _time(held, steps, processors) <= (1 + _LOSS) * (_LAUNCH + _busy(units, steps, processors)):
        return held
    times = [_time(each, steps, processors) for each in tried]
    fewest = next(each for each, time in zip(tried, times, strict=True) if time <= (1 + _LOSS) * min(times))
    return held if _time(held, steps, processors) <= (1 + _WORTH) * min(times) else fewest


def _busy(units: int, steps: tuple[int, ...], processors: int) -> float:
    """How long processors work if none waits."""
    return units * (sum(steps) + _BLOCK * len(steps)) / processors


def _longest_of_lanes(groups: Groups, steps: tuple[int, ...]) -> float:
    """How long the longest blocks of a lane take one after the other."""
    return -(-len(groups.launches) // groups.lanes) * (_LAUNCH + max(steps) + _BLOCK)


def _time_of_lanes(groups: Groups, steps: tuple[int, ...], processors: int) -> float:
    """When the last block of all launches ends, in tiles of rows; each begins when the one before in its lane is done.

    Many blocks keep processors busy all the time, or the longest ones of a lane follow each other.
    """
    launches, together, lanes = groups
    if len(steps) * sum(map(len, launches)) > _MOST_SIMULATED:
        return max(_LAUNCH + _busy(sum(map(len, launches)), steps, processors), _longest_of_lanes(groups, steps))
    free, ended = [0.0] * processors, [0.0] * lanes
    for place, units in enumerate(launches):
        ended[place % lanes] = _schedule(free, ended[place % lanes] + _LAUNCH, len(units), together, steps)
    return max(ended)


def _time(groups: Groups, steps: tuple[int, ...], processors: int) -> float:
    """How long the launches take one after the other, in tiles of rows."""
    return _time_of(Counter(map(len, groups.launches)), groups.together, steps, processors)


def _time_of(sizes: Mapping[int, int], together: int, steps: tuple[int, ...], processors: int) -> float:
    """The same by how many launches there are of each number of units."""
    return sum(n * (_LAUNCH + _span(units, together, steps, processors)) for units, n in sizes.items() if n)


@lru_cache(maxsize=4096)
def _span(units: int, together: int, steps: tuple[int, ...], processors: int) -> float:
    """When the last block of a launch ends that begins at 0."""
    longest = max(steps) + _BLOCK
    if len(set(steps)) == 1:
        return -(-units * len(steps) // processors) * longest
    if units * len(steps) > _MOST_SIMULATED:
        return max(longest, _busy(units, steps, processors))
    return _schedule([0.0] * processors, 0.0, units, together, steps)


def _schedule(free: list[float], begin: float, units: int, together: int, steps: tuple[int, ...]) -> float:
    """When the last block of a launch ends, each begun by the processor that is ``free`` first."""
    end = begin
    for first in range(0, units, together):
        for step in steps:
            for _ in range(min(together, units - first)):
                done = max(free[0], begin) + step + _BLOCK
                heapq.heapreplace(free, done)
                end = max(end, done)
    return end
