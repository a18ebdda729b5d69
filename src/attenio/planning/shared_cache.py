"""Bytes below a cache that many programs share, such as a GPU's L2: they depend on who runs together, in which order.

A kernel is a grid of programs. Each keeps a tile of rows (queries, say) while the rows that its head shares (keys and
values) pass by; as many run at once as the machine has room for, and the next begins where one ends. Programs that run
together meet the same passing rows at the same time, so that one of them loads a row for all. The next wave finds of
the passing rows what the cache still holds: nothing where every wave starts with the first row and they do not fit (the
row needed next is the one evicted last), and as much as fits where every other wave walks backwards.

``traffic`` plays that: all programs advance at one speed (``Grid.tolerated_spread`` says when they need not), chunk by
chunk, through a cache that evicts what was used longest ago and writes back what is dirty when it is evicted. What is
dirty at the end stays in the cache and is not counted, as a profiler does not count it.

NVIDIA's L2 since the A100 has two partitions, each of which serves the SMs next to it [NVIDIA A100 whitepaper, 2020].
What one partition holds the other holds too, so that data find half of the capacity; only what SMs add to is held once,
because it is added where it is at home. No parameter is fitted: on an H200 predictions of forward passes are within 6
percent of what Nsight Compute counts, and those of backward passes within 10 (``studies/dram-bytes``); those of causal
heads that share keys were up to 30 too low.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from attenio.errors import InvalidInput

PARTITIONS = 2
# Passing rows move in this many chunks at least: finer chunks change predictions by less than a percent.
_CHUNKS = 512
_LEAST_CHUNK = 64


class Traffic(NamedTuple):
    """Bytes between the cache and the memory below it."""

    read_bytes: int
    written_bytes: int

    @property
    def moved_bytes(self) -> int:
        """Both ways."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Programs of one kernel in the order in which they start; sizes are bytes of one row.

    ``units`` heads of ``rows`` rows, a tile of which each program keeps, and of ``passing`` rows, which ``sharing``
    consecutive units have in common. With ``causal`` row i of the last ``rows`` positions meets passing rows up to its
    own, and the last tile of a unit starts first, or of so many units ``together``. ``resident`` programs run at once,
    and walk ``backwards`` if so; with ``turns`` every other so many of them walk the other way. With ``drops_reads``
    and ``drops_writes`` kept rows are loaded and stored as the first to be evicted: they take no room.

    ``updated_bytes`` of a passing row are added to where they are (sums of a gradient, say), in memory that launches
    share, each from the place of its ``first_updated`` unit on. ``swept_bytes`` of what passes are of a tensor that a
    ``Sweep`` reads as well, where units of a launch count from ``first_unit``. For each row that is kept and each that
    passes it ``spilled_bytes`` are written (dS, say), or ``fetched_bytes`` read. Kept rows that are ``scanned``
    were read by a ``Sweep`` before.
    """

    units: int
    rows: int
    passing: int
    tile: int
    resident: int
    read_bytes: int
    written_bytes: int
    passing_bytes: int
    updated_bytes: int = 0
    first_updated: int = 0
    swept_bytes: int = 0
    first_unit: int = 0
    spilled_bytes: int = 0
    fetched_bytes: int = 0
    scanned: bool = False
    sharing: int = 1
    causal: bool = False
    together: int = 1
    backwards: bool = False
    turns: bool = False
    drops_reads: bool = False
    drops_writes: bool = False

    def __post_init__(self) -> None:
        for name in ("units", "rows", "passing", "tile", "resident", "sharing", "together"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} of a grid is {getattr(self, name):,}; give at least 1")

    @property
    def tiles(self) -> int:
        """Tiles of rows of one unit."""
        return -(-self.rows // self.tile)

    @property
    def sweep_bytes(self) -> int:
        """What passes a program of a dense grid."""
        return self.passing * (self.passing_bytes + self.updated_bytes)

    @property
    def live_bytes(self) -> int:
        """What passes programs that run together (a wave may begin within a unit), and the output that they leave."""
        shared = -(-self.units // self.sharing)
        passing = min(shared, (self.resident - 1) // (self.tiles * self.sharing) + 2) * self.sweep_bytes
        written = 0 if self.drops_writes else self.written_bytes
        return passing + min(self.resident, self.units * self.tiles) * self.tile * written

    def turned(self, cache_bytes: int, *, partitions: int = PARTITIONS) -> "Grid":
        """The same programs, in turns where the cache cannot hold what passes, and all forwards where it can.

        Where it fits, a row met last would be needed last: turning costs a few percent there.
        """
        return replace(self, turns=self.live_bytes > cache_bytes // partitions)

    def tolerated_spread(self, cache_bytes: int, *, partitions: int = PARTITIONS) -> float:
        """How far apart the speeds of programs may lie, as a share, before they lose what others have read.

        In every wave the fastest gains that share of a sweep on the slowest; once they are further apart than the cache
        holds, each reads for itself. A kernel beyond this has to keep its programs in pace.

        >>> sketch = Grid(units=1, rows=2**18, passing=2**18, tile=128, resident=132, read_bytes=256, written_bytes=264,
        ...               passing_bytes=512)
        >>> round(sketch.tolerated_spread(60 * 2**20), 4)
        0.0146
        """
        waves = max(1, -(-self.units * self.tiles // self.resident))
        return cache_bytes / partitions / (waves * self.sweep_bytes)

    @property
    def compulsory_bytes(self) -> int:
        """Everything once; what is updated is read and written."""
        kept = self.units * self.rows * (self.read_bytes + self.written_bytes)
        met = (self.program(index)[1:3] for index in range(self.units * self.tiles))
        kept += (self.spilled_bytes + self.fetched_bytes) * sum(rows * passing for rows, passing in met)
        return kept + -(-self.units // self.sharing) * self.passing * (self.passing_bytes + 2 * self.updated_bytes)

    def program(self, index: int) -> tuple[int, int, int, int]:
        """The unit's passing rows, rows kept, passing rows met, and whether they are met backwards (0 or 1)."""
        first = index // (self.tiles * self.together) * self.together
        place, unit = divmod(index - first * self.tiles, min(self.together, self.units - first))
        unit, tile = first + unit, self.tiles - 1 - place
        kept = min(self.rows, (tile + 1) * self.tile) - tile * self.tile
        met = (
            max(1, min(self.passing, self.passing - self.rows + (tile + 1) * self.tile))
            if self.causal
            else self.passing
        )
        turned = self.turns and index // self.resident % 2 == 1
        return unit // self.sharing, kept, met, int(turned != self.backwards)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A kernel between launches of a ``Grid``, which meets every passing row of some units once; sizes are of one row.

    Units that are ``done`` have ``updated_bytes`` of sums, from which ``written_bytes`` are made; ``following`` units,
    from ``first_unit`` on, have theirs cleared, in the same memory from ``first_updated`` on, and ``read_bytes`` read,
    ``swept_bytes`` of them for the next launch. What else is read and written takes no room. Before, it may scan
    ``kept_rows`` of ``kept_bytes`` of each unit that follows, by tiles of so many as programs keep. With the
    ``last_first`` it begins with what the launch before has left in the cache.
    """

    done: int
    following: int
    first_unit: int
    passing: int
    read_bytes: int
    written_bytes: int
    swept_bytes: int
    updated_bytes: int
    first_updated: int = 0
    kept_rows: int = 0
    kept_bytes: int = 0
    kept_tile: int = 1
    last_first: bool = False


def kernel_of(fields: dict[str, Any]) -> Grid | Sweep:
    """A kernel from the fields that ``dataclasses.asdict`` gave."""
    return Sweep(**fields) if "done" in fields else Grid(**fields)


def traffic(*grids: Grid | Sweep, cache_bytes: int, partitions: int = PARTITIONS) -> Traffic:
    """Bytes that kernels which follow each other move below a cache of this size that starts empty.

    >>> rows = {"rows": 65536, "passing": 65536, "tile": 128, "resident": 132}
    >>> widths = {"read_bytes": 256, "written_bytes": 264, "passing_bytes": 512}
    >>> plain, turning = (Grid(units=1, turns=turns, **rows, **widths) for turns in (False, True))
    >>> [round(traffic(grid, cache_bytes=60 * 2**20).moved_bytes / 1e6) for grid in (plain, turning)]
    [164, 96]
    >>> round(plain.compulsory_bytes / 1e6)
    68
    """
    cache = _Cache(cache_bytes / partitions, partitions)
    for number, grid in enumerate(grids):
        if isinstance(grid, Sweep):
            _sweep(grid, cache, number)
        else:
            _run(grid, cache, number)
    return Traffic(round(cache.read), round(cache.written))


class _Cache:
    """The bytes that one partition holds, the longest unused first."""

    def __init__(self, capacity: float, partitions: int) -> None:
        self.capacity, self.partitions = capacity, partitions
        self.held: OrderedDict[object, tuple[float, float]] = OrderedDict()
        self.used = self.read = self.written = 0.0

    def touch(self, what: object, size: float, *, missing: float = 0.0, dirty: float = 0.0) -> None:
        """Use an entry; where it is not held ``missing`` bytes are read, and ``dirty`` ones written once evicted."""
        if what in self.held:
            self.held.move_to_end(what)
            self.held[what] = size, max(dirty, self.held[what][1])
            return
        self.read += missing
        self.held[what] = size, dirty
        self.used += size
        while self.used > self.capacity:
            _, (freed, written) = self.held.popitem(last=False)
            self.used -= freed
            self.written += written

    def add_to(self, what: object, size: float, *, missing: float, dirty: float) -> None:
        """Use an entry that only one partition holds."""
        self.touch(what, size / self.partitions, missing=missing, dirty=dirty)


class _Together(NamedTuple):
    """Programs that began in the same step and meet the same rows: they stay together."""

    shared: int
    chunks: int
    backwards: int
    started: int


def _run(grid: Grid, cache: _Cache, number: int) -> None:
    """Let ``resident`` programs at a time meet their rows, a chunk in each step."""
    chunk = _chunk(grid.passing)
    waiting = (grid.program(index) for index in range(grid.units * grid.tiles))
    running: dict[_Together, tuple[int, int]] = {}  # programs, and rows that they keep
    step, free, scanned = 0, grid.resident, Counter[int]()
    while True:
        begun = _begun(waiting, free, chunk, step)
        running |= begun
        for program, (count, rows) in begun.items():
            size = rows * grid.read_bytes
            if grid.scanned:
                for tile in range(scanned[program.shared], scanned[program.shared] + count):
                    what = "scanned", grid.first_unit + program.shared, tile
                    cache.touch(what, size / count, missing=size / count)
                scanned[program.shared] += count
            else:
                cache.touch((number, "read", program), 0 if grid.drops_reads else size, missing=size)
        if not running:
            return
        free = 0
        for program in list(running):
            at = step - program.started
            place = program.chunks - 1 - at if program.backwards else at
            passing, (count, rows) = min(chunk, grid.passing - place * chunk), running[program]
            _pass(grid, cache, number, program.shared, place, passing)
            spilled, fetched = (rows * passing * size for size in (grid.spilled_bytes, grid.fetched_bytes))
            if spilled or fetched:
                cache.touch((number, program, place), spilled + fetched, missing=fetched, dirty=spilled)
            if at == program.chunks - 1:
                del running[program]
                free += count
                written = rows * grid.written_bytes
                cache.touch((number, "written", program), 0 if grid.drops_writes else written, dirty=written)
        step += 1


def _pass(grid: Grid, cache: _Cache, number: int, unit: int, place: int, rows: int) -> None:
    """Some rows of a unit pass."""
    own, swept, updated = (
        rows * size for size in (grid.passing_bytes - grid.swept_bytes, grid.swept_bytes, grid.updated_bytes)
    )
    cache.touch((number, unit, place), own, missing=own)
    if swept:
        cache.touch(("swept", grid.first_unit + unit, place), swept, missing=swept)
    if updated:
        cache.add_to(("updated", grid.first_updated + unit, place), updated, missing=updated, dirty=updated)


def _sweep(sweep: Sweep, cache: _Cache, number: int) -> None:
    """Unit after unit, chunk after chunk."""
    chunk = _chunk(sweep.passing)
    for unit in range(sweep.following if sweep.kept_rows else 0):
        for tile in range(-(-sweep.kept_rows // sweep.kept_tile)):
            size = min(sweep.kept_tile, sweep.kept_rows - tile * sweep.kept_tile) * sweep.kept_bytes
            cache.touch(("scanned", sweep.first_unit + unit, tile), size, missing=size)
    order = reversed if sweep.last_first else iter
    for unit in order(range(max(sweep.done, sweep.following))):
        for place in order(range(-(-sweep.passing // chunk))):
            rows = min(chunk, sweep.passing - place * chunk)
            updated = rows * sweep.updated_bytes
            missing, dirty = (updated * (unit < count) for count in (sweep.done, sweep.following))
            cache.add_to(("updated", sweep.first_updated + unit, place), updated, missing=missing, dirty=dirty)
            if unit < sweep.done:
                cache.touch((number, "written", unit, place), 0, dirty=rows * sweep.written_bytes)
            if unit < sweep.following:
                swept, alone = rows * sweep.swept_bytes, rows * (sweep.read_bytes - sweep.swept_bytes)
                cache.touch(("swept", sweep.first_unit + unit, place), swept, missing=swept)
                cache.touch((number, "read", unit, place), 0, missing=alone)


def _chunk(passing: int) -> int:
    """Rows that move at once."""
    return max(_LEAST_CHUNK, -(-passing // _CHUNKS))


def _begun(
    waiting: Iterator[tuple[int, int, int, int]], free: int, chunk: int, step: int
) -> dict[_Together, tuple[int, int]]:
    """The next programs, put together."""
    begun: dict[_Together, tuple[int, int]] = {}
    for shared, kept, met, backwards in islice(waiting, free):
        program = _Together(shared, -(-met // chunk), backwards, step)
        count, rows = begun.get(program, (0, 0))
        begun[program] = count + 1, rows + kept
    return begun
