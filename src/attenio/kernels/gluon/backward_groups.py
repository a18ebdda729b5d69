"""How a backward pass whose blocks add to dQ is cut into launches, so that the sums of each stay in L2.

Sums are four bytes a number. Of a whole call they would be written to memory when they are cleared, moved both ways
while they are added to, and read when they are converted. Launches of a few units (KV heads of sequences) at a time add
to one small buffer instead. What that may cost is time: blocks of a launch end one after the other, and SMs wait. So
each cut is tried on paper, by list scheduling of its blocks, and taken if it costs next to nothing.
"""

import heapq
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Groups", "groups_of"]

# Sums of one launch: a part of an L2 that also holds what passes (an H200 has 60 MiB).
SUMS_BYTES = 24 * 2**20
# Time that a cut may cost.
_LOSS = 0.01
# What a block costs besides its tiles of rows, and a launch besides its blocks, in tiles of rows.
_BLOCK, _LAUNCH = 2.0, 2.0
# More blocks are not scheduled one by one: they end together, or the longest of them ends last.
_MOST_SIMULATED = 2**13


class Groups(NamedTuple):
    """Units of each launch, and how many of them blocks take in turns, the first tile of keys of each of them first."""

    launches: tuple[range, ...]
    together: int

    @property
    def most(self) -> int:
        """Units of the largest launch."""
        return max(map(len, self.launches))


@lru_cache(maxsize=512)
def groups_of(
    batch: int, kv_heads: int, steps: tuple[int, ...], unit_bytes: int, processors: int, sums_bytes: int = SUMS_BYTES
) -> Groups:
    """Launches for units whose tiles of keys meet ``steps`` tiles of rows each, and have ``unit_bytes`` of sums."""
    even = len(set(steps)) == 1
    small = [
        Groups(cut, 1 if even else max(map(len, cut)))
        for cut in _cuts(batch, kv_heads)
        if max(map(len, cut)) * unit_bytes <= sums_bytes or all(len(units) == 1 for units in cut)
    ]
    whole = Groups((range(batch * kv_heads),), max((each.together for each in small), default=1))
    time = _time(whole, steps, processors)
    best = min(small, key=lambda each: _time(each, steps, processors))
    return best if _time(best, steps, processors) <= (1 + _LOSS) * time else whole


def _cuts(batch: int, kv_heads: int) -> Iterator[tuple[range, ...]]:
    """Runs of heads of one sequence, then of whole sequences, as even as they can be."""
    for size in range(1, kv_heads + 1):
        if size == 1 or -(-kv_heads // size) < -(-kv_heads // (size - 1)):
            parts = _parts(kv_heads, -(-kv_heads // size))
            yield tuple(range(b * kv_heads + p.start, b * kv_heads + p.stop) for b in range(batch) for p in parts)
    for size in range(2, batch + 1):
        if -(-batch // size) < -(-batch // (size - 1)):
            yield tuple(range(p.start * kv_heads, p.stop * kv_heads) for p in _parts(batch, -(-batch // size)))


def _parts(count: int, parts: int) -> list[range]:
    return [range(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def _time(groups: Groups, steps: tuple[int, ...], processors: int) -> float:
    """How long the launches take one after the other, in tiles of rows."""
    sizes = [len(units) for units in groups.launches]
    return sum(sizes.count(size) * (_LAUNCH + _span(size, groups.together, steps, processors)) for size in set(sizes))


@lru_cache(maxsize=4096)
def _span(units: int, together: int, steps: tuple[int, ...], processors: int) -> float:
    """When the last block of a launch ends, each begun by the processor that is free first."""
    longest = max(steps) + _BLOCK
    if len(set(steps)) == 1:
        return -(-units * len(steps) // processors) * longest
    if units * len(steps) > _MOST_SIMULATED:
        return max(longest, units * (sum(steps) + _BLOCK * len(steps)) / processors)
    free = [0.0] * processors
    for first in range(0, units, together):
        for step in steps:
            for _ in range(min(together, units - first)):
                heapq.heapreplace(free, free[0] + step + _BLOCK)
    return max(free)
