"""How a backward pass whose blocks add to dQ is cut into launches, so that the accumulators of each stay in L2.

Accumulators have four bytes a number. Those of a whole call would be written to memory when they are cleared, moved
both ways while they are added to, and read when they are converted. Launches of a few batch x KV heads at a time add to
one small buffer instead. That may cost time: blocks of a launch end one after the other, and SMs wait. So each cut is
tried on paper, by list scheduling of its blocks, and taken if it costs little.

Small launches may also alternate between two streams, each with accumulators of its own: blocks of the one begin where
those of the other end, so that they cost nothing if the blocks of two launches fill the SMs. They are as small as that
allows. Still the longest block of a launch may hold up its stream, so that is tried on paper too.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import cycle
from typing import NamedTuple

STREAMS = 2
# Accumulators at once: a part of an L2 (an H200 has 60 MiB) that also holds what passes and is written meanwhile. With
# 16 MiB 392 MB were counted where 8 MiB moved 252, of 601 in one launch.
ACCUMULATOR_BYTES = 12 * 2**20
# Accumulators of each of two streams: with less, blocks of two launches do not fill the SMs at d=128, and with more
# they leave too little of L2 to what passes. Streams of 16 MiB moved a fifth more than one stream (604 MB, 506) for 0.4
# to 1.4 percent of the time (32K tokens, d=128; causal heads -0.5 to 1). With 12 MiB causal heads of 96 columns take
# two streams: 495 TFLOP/s instead of 465 at 4K tokens, 579 instead of 525 at 16K.
STREAM_BYTES = 12 * 2**20
# A head of more takes a stream of its own up to this: 32K tokens of 128 columns are 2 rounds of blocks, the second of
# which is not whole, and in two streams they took 2 to 3 percent less time, 64K tokens 1 percent less.
_LONGEST_HEAD_BYTES = 32 * 2**20
# Accumulators that a launch may have where a cut would cost too much time: memory that a call takes besides its
# tensors.
_MOST_BYTES = 2**30
# Time that a cut may cost: at 8K tokens it is 3 percent, for less than half of the bytes; longer heads gain some.
_LOSS = 0.04
# Time that heads must save which come together although their accumulators leave the cache: where four heads of queries
# share keys, four KV heads together moved 753 MB, and 554 one after the other.
_WORTH = 0.1
# Times on paper that differ by less are the same. Where blocks have fewer tiles of rows a second stream is not taken:
# such blocks end before the kernel between two launches of the other stream has found room and done its work (measured:
# 3 percent lost at 2K tokens and d=64, with 16 tiles).
_SAME, _LEAST_STEPS = 0.005, 24
# Accumulators of heads that come together and are more than an L2 cost so much of the time (measured: 64 MiB).
_CACHE_BYTES, _OUTSIDE = 60 * 2**20, 0.1
# What a block costs besides its tiles of rows, and a launch besides its blocks, in tiles of rows: SMs are not equally
# fast, and wait 11 microseconds for the last of them (measured on an H200).
_BLOCK, _LAUNCH = 2.0, 5.0
# Time that SMs may wait at the end of a launch, for fewer heads in turns, whose rows L2 holds.
_TURNS_LOSS = 0.015
# More blocks are not scheduled one by one: they end together, or the longest of them ends last.
_MOST_SIMULATED = 2**13


class LaunchGroups(NamedTuple):
    """Batch x KV heads of each launch, and how many of them come ``together``: first the first key tile of each of
    them.

    Launches alternate between so many streams.
    """

    launches: tuple[range, ...]
    together: int
    streams: int = 1

    @classmethod
    def even(cls, batch_heads: int, launches: int, *, in_turns: bool, streams: int = 1) -> "LaunchGroups":
        """As many launches, as even as they can be."""
        ends = [batch_heads * place // launches for place in range(launches + 1)]
        return cls(tuple(map(range, ends, ends[1:])), -(-batch_heads // launches) if in_turns else 1, streams)

    @property
    def most(self) -> int:
        """Batch x KV heads of the largest launch."""
        return max(map(len, self.launches))

    @property
    def turns(self) -> tuple[tuple[int, range], ...]:
        """Streams and heads of the launches in their order; at last no heads in each stream, to convert what is
        left."""
        streams = range(min(self.streams, len(self.launches)))
        return *zip(cycle(streams), self.launches, strict=False), *((stream, range(0)) for stream in streams)


@lru_cache(maxsize=512)
def launch_groups(
    batch_heads: int,
    steps: tuple[int, ...],
    head_bytes: int,
    processors: int,
    accumulator_bytes: int = ACCUMULATOR_BYTES,
) -> LaunchGroups:
    """Launches for heads whose tiles of keys meet ``steps`` tiles of rows each, with ``head_bytes`` of accumulators."""
    at_once = max(1, accumulator_bytes // head_bytes)
    small, large = (
        _small(batch_heads, steps, at_once, processors),
        _large(batch_heads, steps, at_once, head_bytes, processors),
    )
    times = [_time(each, steps, processors) for each in (small, large)]
    alone = small if times[0] <= (1 + _LOSS) * times[1] else large
    if max(steps) < _LEAST_STEPS or head_bytes > _LONGEST_HEAD_BYTES:
        return alone
    most = (1 + _SAME) * min(times)
    for power in range((max(STREAM_BYTES, head_bytes) // head_bytes).bit_length()):
        overlapped = LaunchGroups.even(
            batch_heads, -(-batch_heads >> power), in_turns=len(set(steps)) > 1, streams=STREAMS
        )
        # In fewer launches streams would have the accumulators of all heads at once.
        possible = len(overlapped.launches) > STREAMS and _longest_of_streams(overlapped, steps) <= most
        if possible and _time_of_streams(overlapped, steps, processors) <= most:
            return overlapped
    return alone


@lru_cache(maxsize=512)
def launch_time(batch_heads: int, steps: tuple[int, ...], head_bytes: int, processors: int) -> float:
    """How long these launches take, in tiles of rows."""
    groups = launch_groups(batch_heads, steps, head_bytes, processors)
    time = (_time if groups.streams == 1 else _time_of_streams)(groups, steps, processors)
    leaves_cache = min(groups.together, groups.most) * head_bytes > _CACHE_BYTES
    return time * (1 + _OUTSIDE) if leaves_cache else time


def heads_in_turns(heads: int, steps: tuple[int, ...], processors: int) -> int:
    """The fewest heads ``together`` that fill the SMs to the end, where the last of them are played on paper.

    Blocks of a head read the same rows, which stay in L2 while they run at once. With all 176 heads of 1K tokens in
    turns, causal gradients of 192 columns took as long as full ones.
    """
    if len(set(steps)) == 1:
        return 1
    most, together = _TURNS_LOSS * busy_time(heads, steps, processors), -(-processors // len(steps))
    while together < heads:
        last = min(heads, 2 * together + heads % together)
        if _span(last, together, steps, processors) - busy_time(last, steps, processors) <= most:
            return together
        together += -(-together // 8)
    return heads


def _small(batch_heads: int, steps: tuple[int, ...], at_once: int, processors: int) -> LaunchGroups:
    """The fastest of launches with so many heads at most."""
    fewest, uneven = -(-batch_heads // at_once), len(set(steps)) > 1

    def time(launches: int) -> float:
        size, larger = divmod(batch_heads, launches)
        sizes = {size: launches - larger, size + 1: larger}
        return _time_of(sizes, size + (larger > 0) if uneven else 1, steps, processors)

    return LaunchGroups.even(
        batch_heads, min(range(fewest, min(batch_heads, 2 * fewest + 1) + 1), key=time), in_turns=uneven
    )


def _large(batch_heads: int, steps: tuple[int, ...], at_once: int, head_bytes: int, processors: int) -> LaunchGroups:
    """As few launches as memory allows; more heads come together than the cache holds where that saves much time."""
    launches = LaunchGroups.even(
        batch_heads, -(-batch_heads // max(1, _MOST_BYTES // head_bytes)), in_turns=False
    ).launches
    if len(set(steps)) == 1:
        return LaunchGroups(launches, 1)
    tried = [LaunchGroups(launches, 1 << power) for power in range(len(launches[-1]).bit_length())]
    held = min(tried[: at_once.bit_length()], key=lambda each: _time(each, steps, processors))
    if _time(held, steps, processors) <= (1 + _LOSS) * (_LAUNCH + busy_time(batch_heads, steps, processors)):
        return held
    times = [_time(each, steps, processors) for each in tried]
    fewest = next(each for each, time in zip(tried, times, strict=True) if time <= (1 + _LOSS) * min(times))
    return held if _time(held, steps, processors) <= (1 + _WORTH) * min(times) else fewest


def busy_time(batch_heads: int, steps: tuple[int, ...], processors: int) -> float:
    """How long processors work if none waits."""
    return batch_heads * (sum(steps) + _BLOCK * len(steps)) / processors


def _longest_of_streams(groups: LaunchGroups, steps: tuple[int, ...]) -> float:
    """How long the longest blocks of a stream take one after the other."""
    return -(-len(groups.launches) // groups.streams) * (_LAUNCH + max(steps) + _BLOCK)


def _time_of_streams(groups: LaunchGroups, steps: tuple[int, ...], processors: int) -> float:
    """When the last block of all launches ends, in tiles of rows; each begins when the one before in its stream is
    done.

    Many blocks keep processors busy all the time, or the longest ones of a stream follow each other.
    """
    launches, together, streams = groups
    if len(steps) * sum(map(len, launches)) > _MOST_SIMULATED:
        return max(_LAUNCH + busy_time(sum(map(len, launches)), steps, processors), _longest_of_streams(groups, steps))
    free, ended = [0.0] * processors, [0.0] * streams
    for place, batch_heads in enumerate(launches):
        ended[place % streams] = _schedule(free, ended[place % streams] + _LAUNCH, len(batch_heads), together, steps)
    return max(ended)


def _time(groups: LaunchGroups, steps: tuple[int, ...], processors: int) -> float:
    """How long the launches take one after the other, in tiles of rows."""
    return _time_of(Counter(map(len, groups.launches)), groups.together, steps, processors)


def _time_of(sizes: Mapping[int, int], together: int, steps: tuple[int, ...], processors: int) -> float:
    """The same by how many launches there are of each number of heads."""
    return sum(n * (_LAUNCH + _span(batch_heads, together, steps, processors)) for batch_heads, n in sizes.items() if n)


@lru_cache(maxsize=4096)
def _span(batch_heads: int, together: int, steps: tuple[int, ...], processors: int) -> float:
    """When the last block of a launch ends that begins at 0."""
    longest = max(steps) + _BLOCK
    if len(set(steps)) == 1:
        return -(-batch_heads * len(steps) // processors) * longest
    if batch_heads * len(steps) > _MOST_SIMULATED:
        return max(longest, busy_time(batch_heads, steps, processors))
    return _schedule([0.0] * processors, 0.0, batch_heads, together, steps)


def _schedule(free: list[float], begin: float, batch_heads: int, together: int, steps: tuple[int, ...]) -> float:
    """When the last block of a launch ends, each begun by the processor that is ``free`` first."""
    end = begin
    for first in range(0, batch_heads, together):
        for step in steps:
            for _ in range(min(together, batch_heads - first)):
                done = max(free[0], begin) + step + _BLOCK
                heapq.heapreplace(free, done)
                end = max(end, done)
    return end
