"""Plans for three and more levels of memory: tiles within tiles.

Rows and keys compete for every level: more rows save key loads over that level's own boundary, more keys save trips of
queries and accumulators over the boundary below. How much of each level to give to keys is tried in powers of two,
every combination, with exact counts; rows are then balanced and keys get what is left.
"""

from itertools import product

from attenio.errors import DoesNotFit
from attenio.machine import Machine
from attenio.planning.nested_plan import LevelTiles, NestedPlan
from attenio.planning.nested_words import nested_moved_words, nested_peak_words
from attenio.quantities import bytes_of, show_words
from attenio.workload import Workload

__all__ = ["nested_plan", "nested_plan_with"]

# One part in 2, 4, 8, ... of a level for keys, the rest for rows.
_KEY_SHARES = (2, 4, 8, 16, 32, 64)


def nested_plan(workload: Workload, machine: Machine) -> NestedPlan:
    """The nested plan with the smallest time floor; among equals the one that moves fewest words to slow memory.

    Time floors need bandwidths: on a machine that lacks one, fewest words over the slowest boundary come first.

    >>> from attenio.machine import MemoryLevel
    >>> levels = [MemoryLevel(name="L1", capacity_bytes=8192), MemoryLevel(name="L2", capacity_bytes=131072)]
    >>> machine = Machine(name="toy", levels=(*levels, MemoryLevel(name="DRAM")))
    >>> plan = nested_plan(Workload(n=4096, d=64), machine)
    >>> [tile.query_tile for tile in plan.tiles], plan.moved_words
    ([29, 456], (149078016, 5242880))
    """
    fast_words = tuple(boundary.fast_words(workload.dtype) for boundary in machine.boundaries)
    found: dict[tuple[int, tuple[LevelTiles, ...]], NestedPlan] = {}
    for head_tile in _head_tiles(workload.group):
        for shares in product(_KEY_SHARES, repeat=len(fast_words) - 1):
            tiles = _tiles(workload, head_tile, fast_words, shares)
            if tiles is not None and (head_tile, tiles) not in found:
                found[head_tile, tiles] = nested_plan_with(workload, fast_words, head_tile, tiles)
    if not found:
        raise DoesNotFit(_why_not(workload, machine, fast_words))
    return min(found.values(), key=lambda plan: _merit(plan, machine))


def nested_plan_with(
    workload: Workload, fast_words: tuple[int, ...], head_tile: int, tiles: tuple[LevelTiles, ...]
) -> NestedPlan:
    """The nested plan with given tiles, innermost first; DoesNotFit says which level is too small."""
    peaks = nested_peak_words(workload, head_tile, tiles)
    for level, (peak, capacity) in enumerate(zip(peaks, fast_words, strict=True)):
        if peak > capacity:
            raise DoesNotFit(
                f"tiles {tiles[level]} need {show_words(peak)} at level {level}, which has {capacity:,};"
                " use smaller tiles"
            )
    moved = nested_moved_words(workload, head_tile, tiles)
    return NestedPlan(
        workload=workload, fast_words=fast_words, head_tile=head_tile, tiles=tiles, moved_words=moved, peak_words=peaks
    )


def _head_tiles(group: int) -> list[int]:
    return [heads for heads in range(1, group + 1) if group % heads == 0]


def _tiles(
    workload: Workload, head_tile: int, fast_words: tuple[int, ...], shares: tuple[int, ...]
) -> tuple[LevelTiles, ...] | None:
    """Tiles for every level, outermost first on the way; None when a level cannot hold one row and one key."""
    rows = max(pattern.rows for pattern, _ in workload.stacked_patterns)
    keys = max(pattern.keys for pattern, _ in workload.stacked_patterns)
    words = workload.accumulator_words
    row_words = head_tile * (workload.d + (workload.value_dim + 3) * words)
    key_words = workload.d + workload.value_dim
    tiles: list[LevelTiles] = []
    for level in reversed(range(len(fast_words))):
        capacity, score_words = fast_words[level], head_tile * words if level == 0 else 0
        for_keys = key_words if level == 0 else max(key_words, capacity // shares[level - 1])
        most = (capacity - for_keys) // (row_words + score_words)
        if most < 1:
            return None
        rows = _balanced(rows, most)
        keys = min(keys, (capacity - rows * row_words) // (key_words + rows * score_words))
        tiles.append(LevelTiles(query_tile=rows, key_tile=keys))
    return tuple(reversed(tiles))


def _balanced(rows: int, most: int) -> int:
    """The smallest tile that cuts ``rows`` into as few parts as ``most`` does."""
    return -(-rows // -(-rows // most))


def _merit(plan: NestedPlan, machine: Machine) -> tuple[float, ...]:
    """What to minimise: the largest time floor, then words from the slowest boundary inwards."""
    inwards = tuple(reversed(plan.moved_words))
    rates = [boundary.slow.bandwidth_bytes_per_s for boundary in machine.boundaries]
    if None in rates:
        return inwards
    width = plan.workload.dtype.bytes
    seconds = [bytes_of(w, element_bytes=width) / r for w, r in zip(plan.moved_words, rates, strict=True) if r]
    return (max(seconds), *inwards)


def _why_not(workload: Workload, machine: Machine, fast_words: tuple[int, ...]) -> str:
    one = LevelTiles(query_tile=1, key_tile=1)
    needs = nested_peak_words(workload, 1, [one] * len(fast_words))
    level = next(k for k, need in enumerate(needs) if need > fast_words[k])
    return (
        f"a nested plan needs at least {show_words(needs[level])} at level {machine.levels[level].name} of"
        f" {machine.name}, which has {fast_words[level]:,}; leave that level out or use a narrower head"
    )
