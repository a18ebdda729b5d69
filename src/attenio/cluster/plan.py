"""A plan for many devices: a grid, where its ranks sit, what they send, hold and wait for.

>>> plan = plan_grid(Workload(n=65536, d=128, heads=8), Grid(heads=8, queries=4, keys=2), Cluster(devices=64))
>>> plan.words_per_device, plan.bound_words_per_device
(12066816, 11257620)
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from attenio.bounds.lower_bound import LowerBound
from attenio.cluster.balance import imbalance
from attenio.cluster.bounds import cluster_bounds
from attenio.cluster.grid import Grid, check_grid, checked_devices
from attenio.cluster.loads import stage_loads
from attenio.cluster.memory import memory_words
from attenio.cluster.partition import Sharding, sharding_for
from attenio.cluster.placement import Placement
from attenio.cluster.topology import Topology
from attenio.cluster.words import Shares, Stage, exchanged, passes_of, stage_widths
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.quantities import bytes_of, show_bytes, words_in
from attenio.workload import Direction, Workload

REPEATED = (Stage.GATHER_KEYS, Stage.REDUCE_KEYS)  # once for each pass over the keys


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The devices to plan for. ``memory_bytes`` is what one holds; without a topology words are counted and no time."""

    devices: int
    memory_bytes: int | None = None
    topology: Topology | None = None
    machine: Machine | None = None

    def __post_init__(self) -> None:
        checked_devices(self.devices)
        if self.topology is not None and self.topology.devices < self.devices:
            raise InvalidInput(
                f"topology {self.topology.name} joins {self.topology.devices:,} devices and {self.devices:,} are asked"
                " for; use a larger topology or fewer devices"
            )

    def memory_words(self, workload: Workload) -> int | None:
        """Words of one device's memory."""
        return None if self.memory_bytes is None else words_in(self.memory_bytes, element_bytes=workload.dtype.bytes)


@dataclass(frozen=True, kw_only=True)
class LevelWords:
    """What crosses one level of links: by the device that sends most over it, and by all; seconds of all stages."""

    name: str
    words_per_device: int
    total_words: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """A stage of a pass: words that the busiest device sends, and the seconds of the level that takes longest."""

    direction: Direction
    stage: Stage
    words_per_device: int
    seconds: float | None
    overlaps_compute: bool


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """A grid on a cluster: everything that is counted about it."""

    workload: Workload
    cluster: Cluster
    grid: Grid
    sharding: Sharding
    placement: Placement
    passes: int
    words_per_device: int
    total_words: int
    memory_words: int
    imbalance: Fraction
    levels: tuple[LevelWords, ...]
    stages: tuple[StageTime, ...] = field(repr=False)
    compute_seconds: float | None

    @cached_property
    def bounds(self) -> tuple[LowerBound, ...]:
        """What devices must exchange for work as even as this plan's, and with their memory."""
        memory = self.cluster.memory_words(self.workload)
        return cluster_bounds(
            self.workload, self.cluster.devices, memory_words=memory, imbalance=max(self.imbalance, Fraction(1))
        )

    @property
    def bound(self) -> LowerBound:
        """The largest of them."""
        return max(self.bounds, key=lambda bound: bound.words)

    @property
    def bound_words_per_device(self) -> int:
        """Words that the busiest device must send: the mean of the bound, rounded up."""
        return -(-self.bound.words // self.cluster.devices)

    @property
    def gap(self) -> float | None:
        """Words of the busiest device over the bound's; None where nothing must be sent."""
        bound = self.bound_words_per_device
        return self.words_per_device / bound if bound else (1.0 if self.words_per_device == 0 else None)

    @property
    def exchange_seconds(self) -> float | None:
        """Seconds of all stages one after the other; None without a topology."""
        each = [stage.seconds for stage in self.stages]
        return None if None in each else float(sum(second for second in each if second is not None))

    @property
    def seconds(self) -> float | None:
        """Seconds with keys coming in, and their sums going out, behind the arithmetic of the same pass."""
        if self.exchange_seconds is None:
            return None
        total = 0.0
        for direction in dict.fromkeys(stage.direction for stage in self.stages):
            of_pass = [stage for stage in self.stages if stage.direction is direction]
            hidden = sum(stage.seconds or 0.0 for stage in of_pass if stage.overlaps_compute)
            shown = sum(stage.seconds or 0.0 for stage in of_pass if not stage.overlaps_compute)
            total += shown + max(hidden, self._compute(direction))
        return total

    def _compute(self, direction: Direction) -> float:
        if self.compute_seconds is None:
            return 0.0
        return self.compute_seconds * self.workload.towards(direction).flops / self.workload.flops


def plan_grid(
    workload: Workload,
    grid: Grid,
    cluster: Cluster,
    *,
    placement: Placement | None = None,
    sharding: Sharding | None = None,
) -> ClusterPlan:
    """What a grid sends, holds and takes on a cluster, in as few passes over the keys as its memory allows."""
    check_grid(grid, workload)
    chosen = Placement() if placement is None else placement
    spread = sharding_for(workload.mask) if sharding is None else sharding
    passes, memory = _passes(workload, grid, cluster)
    # shares of any sharding differ in which rank has a token more, not in how many have one
    times, sent, levels = [], np.zeros(grid.devices, dtype=np.int64), _Levels(cluster, workload)
    shares = Shares.of(workload, grid)
    for part, stages in passes_of(workload):
        for stage in stages:
            each = exchanged(part, grid, shares, stage, stage_widths(part, stage))
            repeats = passes if each.stage in REPEATED else 1
            sent += each.sent * repeats
            seconds = levels.add(part, grid, each.stage, chosen, repeats)
            times.append(
                StageTime(
                    direction=part.direction,
                    stage=each.stage,
                    words_per_device=int(each.sent.max()) * repeats,
                    seconds=seconds,
                    overlaps_compute=each.stage in REPEATED,
                )
            )
    uneven = imbalance(workload, grid, spread)
    return ClusterPlan(
        workload=workload,
        cluster=cluster,
        grid=grid,
        sharding=spread,
        placement=chosen,
        passes=passes,
        words_per_device=int(sent.max()),
        total_words=int(sent.sum()),
        memory_words=memory,
        imbalance=uneven,
        levels=levels.summed(),
        stages=tuple(times),
        compute_seconds=_compute_seconds(workload, cluster, uneven),
    )


def _passes(workload: Workload, grid: Grid, cluster: Cluster) -> tuple[int, int]:
    """The fewest passes whose rows fit beside everything else, and the memory that they take."""
    room, needed = cluster.memory_words(workload), 0
    for passes in sorted({-(-grid.keys // columns) for columns in range(1, grid.keys + 1)}):
        needed = int(memory_words(workload, grid, passes=passes).max())
        if room is None or needed <= room:
            return passes, needed
    assert cluster.memory_bytes is not None
    size, given = show_bytes(bytes_of(needed, element_bytes=workload.dtype.bytes)), show_bytes(cluster.memory_bytes)
    raise DoesNotFit(
        f"a grid of {grid} needs {size} a device and there are {given}; use more devices or more memory",
        needed_words=needed,
    )


def _compute_seconds(workload: Workload, cluster: Cluster, uneven: Fraction) -> float | None:
    rate = None if cluster.machine is None else cluster.machine.flops_per_s.get(workload.dtype)
    return None if rate is None else workload.flops * float(uneven) / (cluster.devices * rate)


class _Levels:
    """Words and seconds of every level, stage after stage."""

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        self._topology, self._bytes = cluster.topology, workload.dtype.bytes
        levels = 0 if self._topology is None else len(self._topology.links)
        self._sent = np.zeros((levels, cluster.devices), dtype=np.int64)
        self._seconds = [0.0] * levels

    def add(self, workload: Workload, grid: Grid, stage: Stage, placement: Placement, repeats: int) -> float | None:
        """Count a stage; the seconds of the level that takes longest."""
        topology = self._topology
        if topology is None:
            return None
        slowest = 0.0
        for index, load in enumerate(stage_loads(workload, grid, stage, placement, topology)):
            link = topology.links[index]
            moving = bytes_of(load.busiest_words, element_bytes=self._bytes) / link.bandwidth_bytes_per_s
            seconds = repeats * (moving + load.busiest_messages * link.latency_s)
            self._sent[index] += load.words * repeats
            self._seconds[index] += seconds
            slowest = max(slowest, seconds)
        return slowest

    def summed(self) -> tuple[LevelWords, ...]:
        links = () if self._topology is None else self._topology.links
        return tuple(
            LevelWords(
                name=link.name,
                words_per_device=int(self._sent[index].max()),
                total_words=int(self._sent[index].sum()),
                seconds=self._seconds[index],
            )
            for index, link in enumerate(links)
        )
