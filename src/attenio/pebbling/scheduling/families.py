"""Families of orders, and how their sizes are chosen: by trying, with the exact cost as the judge."""

from collections.abc import Callable, Iterator
from functools import cached_property
from math import log
from time import perf_counter

import numpy as np

from attenio.pebbling.scheduling.blocks import in_blocks
from attenio.pebbling.scheduling.eviction import RELUCTANCE, cost_of
from attenio.pebbling.scheduling.orders import depth_first, eager
from attenio.pebbling.scheduling.parts import Parts, grouped, parts_of, side_by_side
from attenio.pebbling.scheduling.program import Numbers, Program
from attenio.pebbling.solution import Ending

# Inflows of blocks that are tried first, as shares of fast memory.
_INFLOWS = (0.5, 1.0, 0.75)
# Base orders for blocks, likeliest first: depth first, all that follows at once, by number.
_BLOCK_BASES = (1, 0, 2)
# Incidences of parts and inputs beyond which groups of parts take longer to find than everything else.
_MOST_INCIDENCES = 1_000_000_000
_FEW_SIZES = 100


class Enough(Exception):
    """The search is over: what it found cannot be improved, or the next order would not be finished in time."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.value)
        self.ending = ending


class Best:
    """The best order so far, and how much more may be tried."""

    def __init__(
        self, program: Program, bound: int, *, deadline: float, orders: int, progress: Callable[[int, int], None] | None
    ) -> None:
        self.program, self.bound = program, bound
        self.order: Numbers = np.arange(len(program.targets), dtype=np.int64)
        self.cost: int | None = None
        self.reluctance = RELUCTANCE
        self.explored = 0
        self.orders_left = orders
        self._done, self._total = 0, orders
        self._deadline, self._progress = deadline, progress
        self._slowest, self._last = 0.0, perf_counter()

    def offer(self, order: Numbers, reluctance: float | None = None) -> int:
        """The cost of an order, which is kept if it is the best."""
        chosen = self.reluctance if reluctance is None else reluctance
        cost = cost_of(self.program, order, chosen)
        if self.cost is None or cost < self.cost:
            self.reluctance = chosen
        self.orders_left -= 1
        self.accept(order, cost, 1)
        return cost

    def accept(self, order: Numbers, cost: int, tried: int) -> None:
        """Keep an order if it is the best; stop when nothing can be better, or to write it down while there is time."""
        self.explored += tried
        if self.cost is None or cost < self.cost:
            self.order, self.cost = order, cost
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))
        if self.cost == self.bound:
            raise Enough(Ending.PROVEN)
        now = perf_counter()
        self._slowest = max(self._slowest, now - self._last)
        self._last = now
        # One more order, and the time to write the schedule down.
        if now + 2 * self._slowest > self._deadline:
            raise Enough(Ending.TIME)


class Family:
    """Orders of one program, lifted to those of the game (which are the same unless the game is partial)."""

    def __init__(self, program: Program, lifted: Callable[[Numbers], Numbers]) -> None:
        self.program, self.lifted = program, lifted

    @cached_property
    def parts(self) -> Parts:
        """The parts that share only inputs."""
        return parts_of(self.program)

    @cached_property
    def bases(self) -> tuple[Numbers, ...]:
        """Orders without parameters: all that follows at once, depth first, by number."""
        return eager(self.program), depth_first(self.program), np.arange(len(self.program.targets), dtype=np.int64)


def _descended(judge: Callable[[int], int], start: int, least: int, most: int) -> tuple[int, int]:
    """The best size found, and its cost: halving until it gets worse twice, then steps that halve."""
    costs: dict[int, int] = {}

    def cost(size: int) -> int:
        if size not in costs:
            costs[size] = judge(size)
        return costs[size]

    size, worse, lowest = start, 0, cost(start)
    while size > least and worse < 2:
        size = max(least, size // 2)
        worse = worse + 1 if cost(size) > lowest else 0
        lowest = min(lowest, cost(size))
    best = min(costs, key=lambda each: (costs[each], each))
    step = max(1, best // 4)
    while step >= 1:
        for near in (best + step, best - step):
            if least <= near <= most and cost(near) < costs[best]:
                best = near
                break
        else:
            # Steps below a sixteenth of a large size change little.
            step = step // 2 if step > best // 32 else 0
    return best, costs[best]


class _Counter:
    """Lets only so many orders be offered; after that nothing looks good."""

    def __init__(self, best: Best, orders: int) -> None:
        self._best, self._left = best, orders

    def offer(self, order: Callable[[], Numbers]) -> int:
        if self._left <= 0:
            return int(np.iinfo(np.int64).max)
        self._left -= 1
        return self._best.offer(order())


def try_parts(family: Family, best: Best, orders: int) -> None:
    """Groups of parts: first the size of groups, then the base order, then groups that begin with a strip."""
    program, parts = family.program, family.parts
    if parts.number < 2 or _incidences(parts) > _MOST_INCIDENCES:
        return
    counter = _Counter(best, orders)

    def judge(limit: int, strip: int = 1, base: int = 0, whole: bool = False) -> int:
        def order() -> Numbers:
            places = grouped(program, parts, limit=limit, strip=strip, whole=whole)
            return family.lifted(side_by_side(program, parts, places, family.bases[base]))

        return counter.offer(order)

    most = min(parts.number, program.red)
    limit, lowest = _descended(judge, (most + 1) // 2, 1, most)
    base = min(range(len(family.bases)), key=lambda each: lowest if each == 0 else judge(limit, base=each))
    if base > 0:
        limit, lowest = _descended(lambda size: judge(size, base=base), limit, max(1, limit // 2), most)
    judge(limit, base=base, whole=True)
    for strip, rows in _rectangles(limit, most):
        judge(strip * rows, strip, base, whole=True)


def _incidences(parts: Parts) -> int:
    """Readings of inputs by parts, each with the readers of that input: what growing one group can cost."""
    readers = np.diff(parts.reader_starts)
    return int((readers * readers).sum())


def _rectangles(size: int, most: int) -> Iterator[tuple[int, int]]:
    """Strips and how many of them make between half and twice a given size, near the size and the square first."""
    rectangles = []
    for strip in _sizes(2, most):
        for rows in _sizes(max(1, size // (2 * strip)), min(most, 2 * size) // strip):
            rectangles.append((abs(log(strip * rows / size)) + abs(log(strip / rows)) / 4, strip, rows))
    for _, strip, rows in sorted(rectangles):
        yield strip, rows


def _sizes(least: int, most: int) -> list[int]:
    """All whole numbers of a range if they are few, else some of them, in geometric steps."""
    if most - least < _FEW_SIZES:
        return list(range(least, most + 1))
    return sorted({int(size) for size in np.geomspace(least, most, _FEW_SIZES)})


def try_blocks(family: Family, best: Best, orders: int) -> None:
    """Blocks of small inflow from every base order, then other inflows for the best base."""
    counter = _Counter(best, orders)
    program = family.program

    def judge(base: int, inflow: int) -> int:
        return counter.offer(lambda: family.lifted(in_blocks(program, family.bases[base], inflow)))

    costs = {(base, max(1, int(share * program.red))): 0 for share in _INFLOWS for base in _BLOCK_BASES}
    for base, inflow in costs:
        costs[base, inflow] = judge(base, inflow)
    base, inflow = min(costs, key=lambda each: costs[each])
    _descended(lambda size: judge(base, size), inflow, max(1, inflow // 2), 4 * program.red)
