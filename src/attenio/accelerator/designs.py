"""Designs of the accelerator, many at once: their area and power, and the cycles that AttenIO takes on each.

Everything that is not swept is as on a machine that the designs start from: clock, timings of the memory, the rate of a
channel. Bandwidth grows by channels, as that of HBM stacks does; the KV buffer holds one tile of keys.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.energy import Component, area_of, peak_power_watts
from attenio.accelerator.hardware import WORD_BYTES, Hardware
from attenio.accelerator.many_timelines import Counts, ManyLoops, ManyNodes, ManyRamps, ManySteps, many_cycles
from attenio.accelerator.step import Engine
from attenio.catalogue import as_machine
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.masks.patterns import Band
from attenio.planning.costs import problems_of
from attenio.planning.plan import Dataflow
from attenio.quantities import show_count, show_words
from attenio.workload import Direction, Workload

_BEFORE_SCORES = ("load Q", "load K", "outputs", "normalise")
_BEFORE_OUTPUTS = ("load V", "row sums", "store O")
_MOST_TICKS = 2.0**61
MOST_DESIGNS = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Designs:
    """Sizes of the parts, an entry for each design."""

    base: Machine
    pe_lines: Counts
    macs_per_line: Counts
    exp_modules: Counts
    cache_bytes: Counts
    channels: Counts
    key_tile: int = 1  # keys that are taken at a time, and that the KV buffer holds

    @classmethod
    def product(cls, base: Machine | str, *, key_tile: int = 1, **sizes: Iterable[int]) -> "Designs":
        """Every combination of some sizes; parts that are not named are as on the base."""
        base = as_machine(base)
        own = _sizes_of(base)
        unknown = set(sizes) - set(own)
        assert not unknown, unknown
        wanted = {name: sorted(set(sizes.get(name, (size,)))) for name, size in own.items()}
        every = prod(len(values) for values in wanted.values())
        if every > MOST_DESIGNS:
            raise InvalidInput(f"{every:,} designs are more than {MOST_DESIGNS:,}; use larger steps or fewer sizes")
        for name, values in wanted.items():
            for value in (values[0], values[-1]):
                machine_of(base, {**own, name: value}, 0)  # says which size no machine can have
        axes = [np.asarray(values, dtype=np.int64) for values in wanted.values()]
        grid = np.meshgrid(*axes, indexing="ij")
        return cls(base=base, key_tile=key_tile, **{name: axis.ravel() for name, axis in zip(own, grid, strict=True)})

    def __len__(self) -> int:
        return len(self.pe_lines)

    def of(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Designs":
        """Some of them."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _sizes_of(self.base)})

    @property
    def macs(self) -> Counts:
        """Multiply-accumulate units."""
        return self.pe_lines * self.macs_per_line

    def costs(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Area in square millimetres and power at full activity in watts, for heads of width ``d``.

        A part's cost depends on its own size, and the cache's power on the array it feeds as well; each pair of sizes
        that occurs is priced once.
        """
        priced = np.stack([self.macs, self.cache_bytes, self.exp_modules])
        _, first, where = np.unique(priced, axis=1, return_index=True, return_inverse=True)
        areas, powers = [], []
        for number in first.tolist():
            hardware = Hardware.of(machine_of(self.base, self.sizes(number), d * self.key_tile))
            areas.append(area_of(hardware).total_mm2)
            powers.append(sum(watts for part, watts in peak_power_watts(hardware).items() if part is not Component.HBM))
        at = where.ravel()
        return np.asarray(areas)[at], np.asarray(powers)[at]

    def sizes(self, number: int) -> dict[str, int]:
        """The sizes of one of them."""
        return {name: int(getattr(self, name)[number]) for name in _sizes_of(self.base)}


def _sizes_of(machine: Machine) -> dict[str, int]:
    parts, cache = machine.accelerator, machine.levels[0].capacity_bytes
    if parts is None:
        Hardware.of(machine)  # says so
    assert parts is not None and cache is not None
    return {
        "pe_lines": parts.pe_lines,
        "macs_per_line": parts.macs_per_line,
        "exp_modules": parts.exp_modules,
        "cache_bytes": cache,
        "channels": parts.hbm.channels,
    }


def machine_of(base: Machine, sizes: dict[str, int], kv_words: int) -> Machine:
    """A design as a machine, which everything else takes, with a KV buffer of at least so many words."""
    parts, memory = base.accelerator, base.levels[1]
    assert parts is not None and memory.bandwidth_bytes_per_s is not None
    channel_rate = Fraction(round(memory.bandwidth_bytes_per_s), parts.hbm.channels)
    kv_buffer_bytes = max(parts.kv_buffer_bytes, WORD_BYTES * kv_words)
    if kv_buffer_bytes > sizes["cache_bytes"]:
        raise InvalidInput(
            f"a cache of {show_count(sizes['cache_bytes'], 'byte')} is smaller than the KV buffer of"
            f" {kv_buffer_bytes:,}; use larger caches"
        )
    resized = replace(
        parts,
        pe_lines=sizes["pe_lines"],
        macs_per_line=sizes["macs_per_line"],
        exp_modules=sizes["exp_modules"],
        kv_buffer_bytes=kv_buffer_bytes,
        hbm=replace(parts.hbm, channels=sizes["channels"]),
    )
    cache = replace(base.levels[0], capacity_bytes=sizes["cache_bytes"])
    rate = float(round(channel_rate * sizes["channels"]))
    return Machine(
        name=f"like {base.name}",
        levels=(cache, MemoryLevel(name=memory.name, bandwidth_bytes_per_s=rate)),
        accelerator=resized,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """AttenIO on every design: its ticks, -1 where no row fits, the rows of a tile, and the ticks of a cycle."""

    ticks: Counts
    query_tile: Counts
    ticks_per_cycle: int


class Tiling(Enum):
    """Which tile of queries a design runs with."""

    PUBLISHED = "published"  # as many rows as fit beside a tile of keys
    FASTEST = "fastest"  # that, or the largest that leaves no MAC without a row, whichever takes fewer cycles


def attenio_runs(designs: Designs, workload: Workload, tiling: Tiling = Tiling.PUBLISHED) -> Runs:
    """Run AttenIO's program on every design."""
    if not is_vectorised(workload, Dataflow.ATTENIO, designs.key_tile):
        raise InvalidInput(
            f"AttenIO runs on many designs at once where attention is dense, or causal with as many queries as keys and"
            f" one key at a time; this is {workload} with {designs.key_tile:,}"
        )
    d, dv = workload.d, workload.value_dim
    keys = min(designs.key_tile, workload.keys)
    room = designs.cache_bytes // WORD_BYTES - keys * max(d, dv)
    rows = np.minimum(room // (d + dv + 3 + keys), workload.queries)
    fits = rows >= 1
    if not fits.any():
        raise DoesNotFit(
            f"no design has a cache for one row of {d:,} and {show_words(dv)} beside a key; use larger caches"
        )
    fitting = designs.of(fits)
    shape = _Shapes(designs=fitting, workload=workload)
    taken, tile = many_cycles(shape.program(rows[fits]), len(fitting)), rows[fits]
    if tiling is Tiling.FASTEST:
        filling = filling_tiles(fitting, tile)
        other = many_cycles(shape.program(filling), len(fitting))
        taken, tile = np.minimum(taken, other), np.where(other < taken, filling, tile)
    ticks, query_tile = np.full(len(designs), -1, dtype=np.int64), np.zeros(len(designs), dtype=np.int64)
    ticks[fits], query_tile[fits] = taken, tile
    return Runs(ticks=ticks, query_tile=query_tile, ticks_per_cycle=shape.ticks_per_cycle)


def filling_tiles(designs: Designs, most: Counts) -> Counts:
    """The largest tile up to ``most`` rows that fills the array: whole arrays of rows, or rows that more MACs share."""
    ways = designs.pe_lines // -(-most // designs.macs_per_line) + 1
    shared = designs.pe_lines // ways * designs.macs_per_line
    whole = most // designs.macs * designs.macs
    chosen = np.where(whole > 0, whole, shared)
    return np.where(chosen > 0, np.minimum(chosen, most), most)


def is_vectorised(workload: Workload, dataflow: Dataflow, key_tile: int) -> bool:
    """Whether a workload runs on many designs at once: AttenIO on dense heads, or on causal ones one key at a time."""
    if dataflow is not Dataflow.ATTENIO or workload.direction is not Direction.FORWARD:
        return False
    problems = problems_of(workload, dataflow)
    return (problems.counts.is_dense and len(problems.counts.patterns) == 1) or (_is_causal(workload) and key_tile == 1)


def _is_causal(workload: Workload) -> bool:
    patterns = problems_of(workload, Dataflow.ATTENIO).counts.patterns
    return len(patterns) == 1 and patterns[0][0] == Band.causal(workload.queries, workload.queries)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shapes:
    """AttenIO's program on many designs: the same steps, each design's own cycles."""

    designs: Designs
    workload: Workload

    @property
    def _channel_burst(self) -> Fraction:
        """Cycles of one burst on a channel, refresh included: the same on all designs."""
        hbm = Hardware.of(self.designs.base).hbm
        return hbm.burst_cycles * hbm.refresh_factor

    @property
    def ticks_per_cycle(self) -> int:
        return lcm(self._channel_burst.denominator, Hardware.of(self.designs.base).hbm.miss_cycles.denominator)

    def program(self, rows: Counts) -> ManyNodes:
        """All heads: tiles of rows, the last one with what is left; queries of the next tile load meanwhile."""
        tiles, rest = self.workload.queries // rows, self.workload.queries % rows
        ragged, several = np.maximum(rest, 1), (rest > 0).astype(np.int64)
        self._check_ticks(rows)
        once = ManyLoops(count=several, body=(self._load("load Q", ragged * self.workload.d, ("outputs",)),))
        if _is_causal(self.workload):
            # every tile needs as many keys more as it has rows
            growing = (
                *self._round(rows, 1, jump=True),
                ManyLoops(count=rows - 1, growth=rows, body=self._round(rows, 1, jump=False)),
                self._load("load Q", rows * self.workload.d, ("outputs",)),
                *self._finish(rows),
            )
            whole: ManyNodes = (ManyRamps(count=tiles - 1, body=growing), *self._keys(rows, tiles * rows))
        else:
            whole = self._whole_tiles(rows, tiles)
        body: ManyNodes = (
            self._load("load Q", rows * self.workload.d, ("store O",)),
            *whole,
            once,
            *self._finish(rows),
            ManyLoops(count=several, body=(*self._keys(ragged), *self._finish(ragged))),
        )
        heads = np.full_like(rows, self.workload.heads * self.workload.batch)
        return (ManyLoops(count=heads, body=body),)

    def _whole_tiles(self, rows: Counts, tiles: Counts) -> ManyNodes:
        """All tiles of so many rows, the last without what comes after its keys."""
        body = (*self._keys(rows), self._load("load Q", rows * self.workload.d, ("outputs",)), *self._finish(rows))
        return (ManyLoops(count=tiles - 1, body=body), *self._keys(rows))

    def _check_ticks(self, rows: Counts) -> None:
        work = self.workload
        tiles = -(-work.queries // rows) * float(work.heads * work.batch)
        operations = 2 * (work.d + work.value_dim) + 5  # of a row on a key: products, twice for waits, and maps
        most = float((tiles * work.keys * operations * (rows // self.designs.macs + 1)).max())
        if most * self.ticks_per_cycle > _MOST_TICKS:
            raise InvalidInput(
                "the smallest designs would run for more cycles than are counted exactly; use a smaller n"
            )

    def _keys(self, rows: Counts, needed: Counts | None = None) -> ManyNodes:
        """All keys of a tile, or its own number of them one by one."""
        if needed is not None:
            others = ManyLoops(count=needed - 1, body=self._round(rows, 1, jump=False))
            return (*self._round(rows, 1, jump=True), others)
        tile = min(self.designs.key_tile, self.workload.keys)
        whole, rest = divmod(self.workload.keys, tile)
        rounds = ManyLoops(count=np.full_like(rows, whole - 1), body=self._round(rows, tile, jump=False))
        ragged = self._round(rows, rest, jump=False) if rest else ()
        return (*self._round(rows, tile, jump=True), rounds, *ragged)

    def _round(self, rows: Counts, keys: int, *, jump: bool) -> ManyNodes:
        d, dv, designs = self.workload.d, self.workload.value_dim, self.designs
        exponentials, rescaling = -(-rows * keys // designs.exp_modules), -(-rows // designs.exp_modules)
        exp = Hardware.of(designs.base).exp
        group = np.minimum(np.minimum(rows, designs.macs), designs.exp_modules)
        maps = 2 * rows * keys + 3 * rows - (exp.filling_cycles + exp.draining_cycles) * group
        pe = Hardware.of(designs.base).pe
        silicon = pe.silicon
        scores = keys * self._broadcast(rows, d) + self._summing(rows, d)
        maxima = np.full_like(rows, exp.filling_cycles)
        sums = np.full_like(rows, exp.draining_cycles + pe.draining_cycles)
        once = self._broadcast(rows, dv)
        outputs = once + (keys - 1) * np.maximum(once, silicon.adder_cycles) + silicon.latency_cycles
        if silicon.multipliers == 1:
            outputs = outputs + np.maximum(once, 1 + silicon.latency_cycles)
        if keys > 1:
            joining = self._joining(rows, keys)
            maxima = maxima + self._broadcast(rows, keys) - self._broadcast(rows, 1) + joining
            sums = sums + silicon.adder_cycles * joining
        return (
            self._load("load K", np.full_like(rows, keys * d), _BEFORE_OUTPUTS, jump=jump),
            self._step("scores", Engine.PE, scores, _BEFORE_SCORES),
            self._load("load V", np.full_like(rows, keys * dv), _BEFORE_SCORES, jump=jump),
            self._step("maxima", Engine.PE, maxima, ("scores",)),
            self._step("exponentials", Engine.EXP, exponentials, ("maxima",)),
            self._step("rescaling", Engine.EXP, rescaling, ("maxima",)),
            self._step("maps", Engine.PE, -(-maps // designs.macs), ("maxima",)),
            self._step("row sums", Engine.PE, sums, ("exponentials", "rescaling")),
            self._step("outputs", Engine.PE, outputs, _BEFORE_OUTPUTS),
        )

    def _finish(self, rows: Counts) -> ManyNodes:
        dv, silicon = self.workload.value_dim, Hardware.of(self.designs.base).pe.silicon
        quotients = silicon.macs_a_divider * self._broadcast(rows, dv) + silicon.latency_cycles
        return (
            self._step("normalise", Engine.PE, quotients, ("outputs",)),
            self._load("store O", rows * dv, ("normalise",)),
        )

    def _step(self, name: str, engine: Engine, cycles: Counts, after: tuple[str, ...]) -> ManySteps:
        return ManySteps(name=name, engine=engine, ticks=cycles * self.ticks_per_cycle, after=after)

    def _load(self, name: str, words: Counts, after: tuple[str, ...], *, jump: bool = False) -> ManySteps:
        hbm = Hardware.of(self.designs.base).hbm
        bursts = -(-words * WORD_BYTES // hbm.parts.burst_bytes)
        ticks = -(-bursts // self.designs.channels) * int(self._channel_burst * self.ticks_per_cycle)
        missed = int(hbm.miss_cycles * self.ticks_per_cycle) if jump else 0
        return ManySteps(name=name, engine=Engine.HBM, ticks=ticks + missed, after=after)

    def _ways(self, rows: Counts) -> Counts:
        return np.maximum(1, self.designs.pe_lines // -(-rows // self.designs.macs_per_line))

    def _joining(self, rows: Counts, steps: int) -> Counts:
        last = rows % self.designs.macs
        sharing = -(-steps // -(-steps // self._ways(np.maximum(last, 1))))
        depth: Counts = np.frexp(sharing - 1)[1].astype(np.int64)
        return np.where(last > 0, depth, 0)

    def _summing(self, rows: Counts, steps: int) -> Counts:
        silicon = Hardware.of(self.designs.base).pe.silicon
        least, more = silicon.adder_cycles, silicon.pairing_cycles
        whole, rest = np.divmod(rows, self.designs.macs)
        last = more + np.maximum(least - -(-steps // self._ways(np.maximum(rest, 1))), 0)
        met = whole * (more + max(0, least - steps)) + np.where(rest > 0, last, 0)
        return silicon.fill_cycles + met + least * self._joining(rows, steps)

    def _broadcast(self, rows: Counts, steps: int) -> Counts:
        whole, rest = np.divmod(rows, self.designs.macs)
        shared = -(-steps // self._ways(np.maximum(rest, 1)))
        return whole * steps + np.where(rest > 0, shared, 0)
