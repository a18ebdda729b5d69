"""How a backward pass whose blocks add to dQ is cut into launches, so that the sums of each stay in L2.

Sums are four bytes a number. Of a whole call they would be written to memory when they are cleared, moved both ways
while they are added to, and read when they are converted. Launches of a few units (KV heads of sequences) at a time add
to a small buffer instead. One after the other they would cost time: blocks of a launch end at different times, and SMs
wait. So launches take turns in two lanes, each with its buffer: blocks of the one begin where those of the other end.
Still the longest block of a launch may hold up its lane. So the cut is tried on paper, by list scheduling of all
blocks, and taken if it costs next to nothing.
"""

import heapq
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Groups", "groups_of"]

LANES = 2
# Sums of a lane: a part of an L2 (an H200 has 60 MiB) that also holds those of the other lane, and what passes and is
# written meanwhile. Larger launches are not faster. Half of it moves fewer bytes, and takes as long where blocks of
# half as many units fill the processors.
SUMS_BYTES = 8 * 2**20
# Sums that a call may have: memory that it takes besides its tensors.
_MOST_BYTES = 2**30
# Time that a cut may cost on paper, where the kernels between launches are free: in one launch nothing runs beside
# them, and they take 4 percent at 4K tokens (measured).
_LOSS = 0.01
# What a block costs besides its tiles of rows, and a launch besides its blocks, in tiles of rows (2.5 microseconds).
_BLOCK, _LAUNCH = 2.0, 5.0
# Blocks with fewer tiles of rows end before the kernel between two launches of the other lane has found room and done
# its work: a cut costs 3 percent at 2K tokens and d=64, 16 tiles, where it saves 1 at 4K (measured).
_LEAST_STEPS = 24
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


@lru_cache(maxsize=512)
def groups_of(
    units: int, steps: tuple[int, ...], unit_bytes: int, processors: int, sums_bytes: int = SUMS_BYTES
) -> Groups:
    """Launches for units whose tiles of keys meet ``steps`` tiles of rows each, and have ``unit_bytes`` of sums."""
    uneven, at_once = len(set(steps)) > 1, max(1, sums_bytes // unit_bytes)
    # In one launch too, units that come together are not more than the cache holds.
    turns = [1 << power for power in range((LANES * at_once).bit_length())] if uneven else [1]
    few = Groups.even(units, -(-units // max(1, _MOST_BYTES // unit_bytes)), in_turns=False).launches
    large = min((Groups(few, together) for together in turns), key=lambda each: _time(each, steps, processors))
    if LANES * unit_bytes > _MOST_BYTES or max(steps) < _LEAST_STEPS:
        return large
    for count in (-(-units // max(1, at_once // 2)), -(-units // at_once)):
        small = Groups.even(units, count, in_turns=uneven, lanes=LANES)
        if count > LANES and _time(small, steps, processors) <= (1 + _LOSS) * _time(large, steps, processors):
            return small
    return large


@lru_cache(maxsize=64)
def _time(groups: Groups, steps: tuple[int, ...], processors: int) -> float:
    """When the last block ends, in tiles of rows: each is begun by the processor that is free first.

    A launch begins when the one before it in its lane has ended.
    """
    launches, together, lanes = groups
    if len(steps) * sum(map(len, launches)) > _MOST_SIMULATED:
        return _long_time(groups, steps, processors)
    free, ended = [0.0] * processors, [0.0] * lanes
    for place, units in enumerate(launches):
        begin, end = ended[place % lanes] + _LAUNCH, 0.0
        for first in range(0, len(units), together):
            for step in steps:
                for _ in range(min(together, len(units) - first)):
                    last = max(free[0], begin) + step + _BLOCK
                    heapq.heapreplace(free, last)
                    end = max(end, last)
        ended[place % lanes] = end
    return max(ended)


def _long_time(groups: Groups, steps: tuple[int, ...], processors: int) -> float:
    """The same where processors are busy all the time, or the longest blocks of a lane follow each other."""
    work, longest = sum(steps) + _BLOCK * len(steps), max(steps) + _BLOCK
    if groups.lanes == 1:
        return sum(_LAUNCH + max(longest, len(units) * work / processors) for units in groups.launches)
    every = sum(map(len, groups.launches)) * work / processors
    return max(_LAUNCH + every, -(-len(groups.launches) // groups.lanes) * (_LAUNCH + longest))
