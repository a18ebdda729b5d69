"""Plans for three and more levels of memory: tiles within tiles.

Rows and keys compete for every level: more rows save key loads over that level's own boundary, more keys save trips of
queries and accumulators over the boundary below. The ratio of rows to keys is tried in powers of two, every combination
over the levels, with exact counts. Rows are balanced, and keys get what rows leave; where there are several tiles of
rows, as a multiple of them, so that the rectangles along a causal diagonal repeat and counting them does not grow with
the sequence. Where a machine has a granularity, tiles of all levels keep to it.
"""

from fractions import Fraction
from itertools import product
from math import lcm

from attenio.catalogue import as_machine
from attenio.errors import DoesNotFit, InvalidInput
from attenio.granularity import Granularity, largest_size
from attenio.machine import Machine
from attenio.names import checked_kind, show_value
from attenio.planning.best import or_free_tiles
from attenio.planning.nested.plan import LevelTiles, NestedPlan
from attenio.planning.nested.words import nested_moved_words, nested_peak_words
from attenio.quantities import bytes_of, checked_count, show_words
from attenio.workload import Direction, Workload, checked_workload

# Rows for each key of a tile: from many keys for few rows to the other way round.
_RATIOS = tuple(Fraction(2) ** power for power in range(-2, 5))


def nested_plan(workload: Workload, machine: Machine | str) -> NestedPlan:
    """The nested plan with the smallest time floor; among equals the one that moves fewest words to slow memory.

    Arithmetic counts among the time floors: below it, a plan gains nothing by hurrying. On a machine that lacks a
    bandwidth, fewest words over the slowest boundary come first.

    >>> from attenio.machine import MemoryLevel
    >>> levels = [MemoryLevel(name="L1", capacity_bytes=8192), MemoryLevel(name="L2", capacity_bytes=131072)]
    >>> machine = Machine(name="toy", levels=(*levels, MemoryLevel(name="DRAM")))
    >>> plan = nested_plan(Workload(n=4096, d=64), machine)
    >>> [tile.query_tile for tile in plan.tiles], plan.moved_words
    ([29, 464], (188170240, 5242880))
    """
    machine = as_machine(machine)
    if checked_workload(workload).direction is not Direction.FORWARD:
        raise InvalidInput(
            f"nested plans are of the forward pass, and the workload asks about {workload.direction.value};"
            " use best_plan_for at each boundary"
        )
    fast_words = tuple(boundary.fast_words(workload.dtype) for boundary in machine.boundaries)
    room = tuple(words - workload.held_words for words in fast_words)
    granularity = machine.granularity_of(workload.dtype)
    plans: dict[tuple[int, tuple[LevelTiles, ...]], NestedPlan] = {}
    for head_tile in (heads for heads in range(1, workload.group + 1) if workload.group % heads == 0):
        for ratios in product(_RATIOS, repeat=len(fast_words) - 1):
            tiles = _tiles(workload, head_tile, room, ratios, granularity)
            if tiles is not None and (head_tile, tiles) not in plans:
                plans[head_tile, tiles] = nested_plan_with(workload, fast_words, head_tile, tiles)
    if not plans:
        raise DoesNotFit(_why_not(workload, machine, fast_words))
    return min(plans.values(), key=lambda plan: _merit(plan, machine))


def nested_plan_with(
    workload: Workload, fast_words: tuple[int, ...], head_tile: int, tiles: tuple[LevelTiles, ...]
) -> NestedPlan:
    """The nested plan with given tiles, innermost first; DoesNotFit says which level is too small."""
    _check_levels(workload, fast_words, head_tile, tiles)
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


def _check_levels(workload: object, fast_words: object, head_tile: object, tiles: object) -> None:
    checked_workload(workload)
    checked_count("head_tile", head_tile, most=2**20)
    if not isinstance(fast_words, list | tuple):
        raise InvalidInput(
            f"fast_words is {show_value(fast_words)}; give the words of each level, such as (4096, 65536)"
        )
    if not isinstance(tiles, list | tuple):
        raise InvalidInput(f"tiles is {show_value(tiles)}; give LevelTiles for each level, innermost first")
    if len(fast_words) != len(tiles):
        raise InvalidInput(f"there are tiles for {len(tiles)} levels and words of {len(fast_words)}; give one of each")
    for words, tile in zip(fast_words, tiles, strict=True):
        checked_count("fast memory (words)", words, least=0, most=2**60)
        checked_kind(tile, LevelTiles, "tile of a level", "LevelTiles, such as LevelTiles(query_tile=64, key_tile=16)")


def _tiles(
    workload: Workload,
    head_tile: int,
    fast_words: tuple[int, ...],
    ratios: tuple[Fraction, ...],
    granularity: Granularity,
) -> tuple[LevelTiles, ...] | None:
    """Tiles for every level, outermost first on the way; None when a level cannot hold the smallest tile."""
    rows = max(pattern.rows for pattern, _ in workload.stacked_patterns)
    keys = max(pattern.keys for pattern, _ in workload.stacked_patterns)
    words = workload.accumulator_words
    row_words = head_tile * (workload.d + (workload.value_dim + 3) * words)
    key_words = workload.key_words
    row_unit, key_unit = granularity.positions(head_tile), min(granularity.keys, keys)
    tiles: list[LevelTiles] = []
    for level in reversed(range(1, len(fast_words))):
        # a unit is the smallest tile with the ratio: so many rows, so many keys
        unit_rows, unit_keys = ratios[level - 1].as_integer_ratio()
        units = fast_words[level] // (unit_rows * row_words + unit_keys * key_words)
        most = largest_size((fast_words[level] - key_unit * key_words) // row_words, rows, row_unit)
        if units < 1 or most < 1:
            return None
        tile = min(_up_to(_balanced(rows, units * unit_rows, unit_rows), row_unit), most)
        left = (fast_words[level] - tile * row_words) // key_words
        repeating = lcm(tile, key_unit)
        if tile < rows and left >= repeating:
            left = left // repeating * repeating
        elif tile < rows:
            left = min(left, max(key_unit, tile // unit_rows * unit_keys))
        keys = largest_size(left, keys, key_unit)
        tiles.append(LevelTiles(query_tile=tile, key_tile=keys))
        rows = tile
    score_words = head_tile * words
    most = (fast_words[0] - key_unit * key_words) // (row_words + key_unit * score_words)
    most = largest_size(most, rows, row_unit)
    if most < 1:
        return None
    rows = min(_up_to(_balanced(rows, most), row_unit), most)
    left = (fast_words[0] - rows * row_words) // (key_words + rows * score_words)
    tiles.append(LevelTiles(query_tile=rows, key_tile=largest_size(left, keys, key_unit)))
    return tuple(reversed(tiles))


def _balanced(rows: int, most: int, unit: int = 1) -> int:
    """The smallest tile of whole units that cuts ``rows`` into as few parts as ``most`` does."""
    parts = -(-rows // most)
    return -(-rows // (parts * unit)) * unit


def _up_to(size: int, unit: int) -> int:
    """The next multiple of a unit."""
    return -(-size // unit) * unit


def _merit(plan: NestedPlan, machine: Machine) -> tuple[float, ...]:
    """What to minimise: the largest time floor, arithmetic included, then words from the slowest boundary inwards."""
    inwards = tuple(reversed(plan.moved_words))
    rates = [boundary.slow.bandwidth_bytes_per_s for boundary in machine.boundaries]
    if None in rates:
        return inwards
    workload = plan.workload
    words = zip(plan.moved_words, rates, strict=True)
    seconds = [bytes_of(moved, element_bytes=workload.dtype.bytes) / rate for moved, rate in words if rate]
    flops_per_s = machine.flops_per_s.get(workload.dtype)
    arithmetic = workload.flops / flops_per_s if flops_per_s else 0.0
    return (max(arithmetic, *seconds), *inwards)


def _why_not(workload: Workload, machine: Machine, fast_words: tuple[int, ...]) -> str:
    granularity = machine.granularity_of(workload.dtype)
    one = LevelTiles(query_tile=granularity.rows, key_tile=granularity.keys)
    needs = nested_peak_words(workload, 1, [one] * len(fast_words))
    level = next(k for k, need in enumerate(needs) if need > fast_words[k])
    return (
        f"a nested plan needs at least {show_words(needs[level])} at level {machine.levels[level].name} of"
        f" {machine.name}, which has {fast_words[level]:,}; leave that level out or use a narrower head"
        f"{or_free_tiles(granularity)}"
    )
