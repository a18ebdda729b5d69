"""The design space under a budget: what each design costs and takes, which ones no other beats, what to grow next.

A design is beaten if another takes no more cycles, no more area, no more power and no more channels of memory, and less
of one of them. Channels count because they are not part of the chip's area: otherwise the most would always be best.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.controller import check_has_program, check_words
from attenio.accelerator.design_runs import Progress, design_runs, simulated_design
from attenio.accelerator.designs import Designs, Tiling, is_vectorised, machine_of
from attenio.accelerator.hardware import WORD_BYTES, Hardware
from attenio.accelerator.step import Engine
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.plain_values import plain_fields
from attenio.planning import Dataflow
from attenio.quantities import show_bytes, show_words
from attenio.workload import Workload

# Designs that are run together, and the most that are run one after the other: about a minute.
_AT_ONCE = 20_000
MOST_ONE_BY_ONE = 10_000
# A part that saves less than this when it is doubled is not worth growing.
_WORTH = 0.005


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a design may take at most: area of the chip, and its power at full activity."""

    area_mm2: float = math.inf
    power_mw: float = math.inf

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InvalidInput(f"{name.replace('_', '-')} is {value:g}; a budget must be above zero")

    @classmethod
    def of(cls, machine: Machine | str) -> "Budget":
        """The area of a machine as it is."""
        (area,), _ = Designs.product(machine).costs(1)
        # a design of the same area must not fall to the last bit of a sum
        return cls(area_mm2=math.nextafter(float(area), math.inf))


@dataclass(frozen=True, kw_only=True)
class Design:
    """One design: its sizes, what it costs, and how long it takes."""

    sizes: tuple[tuple[str, int], ...]
    query_tile: int
    cycles: Fraction
    seconds: float
    area_mm2: float
    power_mw: float
    bandwidth_gb_per_s: float

    def to_json(self) -> dict[str, Any]:
        """The design as plain values."""
        return {
            **dict(self.sizes),
            **plain_fields(self, "query_tile", "bandwidth_gb_per_s"),
            "cycles": math.ceil(self.cycles),
            **plain_fields(self, "seconds", "area_mm2", "power_mw"),
        }


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What twice of one resource saves, and what it adds."""

    resource: str
    size: int
    speedup: float
    area_mm2: float

    @property
    def part(self) -> str:
        """The part as options name it."""
        return self.resource.removesuffix("_bytes").replace("_", "-")

    @property
    def shown_size(self) -> str:
        """How many or how much it would be."""
        return show_bytes(self.size) if self.resource == "cache_bytes" else f"{self.size:,}"

    def to_json(self) -> dict[str, Any]:
        """The growth as plain values."""
        return {**plain_fields(self, "resource", "size", "speedup"), "added_area_mm2": self.area_mm2}


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """What was found: the fastest design within the budget, those that no other beats, and what to grow next."""

    workload: Workload
    dataflow: Dataflow
    base: Design
    budget: Budget
    designs: int
    within: int
    best: Design
    front: tuple[Design, ...]
    growths: tuple[Growth, ...]
    advice: str

    def to_json(self) -> dict[str, Any]:
        """The exploration as plain values."""
        budget = {name: value if math.isfinite(value) else None for name, value in vars(self.budget).items()}
        return {
            "workload": str(self.workload),
            "dataflow": self.dataflow.value,
            "budget": budget,
            "designs": self.designs,
            "within_budget": self.within,
            "base": self.base.to_json(),
            "best": self.best.to_json(),
            "speedup_over_base": float(self.base.cycles / self.best.cycles),
            "front": [design.to_json() for design in self.front],
            "grow": [growth.to_json() for growth in self.growths],
            "advice": self.advice,
        }


def explore(
    designs: Designs,
    workload: Workload,
    budget: Budget | None = None,
    *,
    dataflow: Dataflow = Dataflow.ATTENIO,
    tiling: Tiling = Tiling.FASTEST,
    progress: Progress | None = None,
) -> Exploration:
    """Evaluate designs for a workload; without a budget, within the area of the machine they start from."""
    check_words(workload, Hardware.of(designs.base))
    check_has_program(dataflow)
    task = _Task(workload=workload, dataflow=dataflow, tiling=tiling)
    allowed = Budget.of(designs.base) if budget is None else budget
    every, width = len(designs), max(workload.d, workload.value_dim)
    designs = designs.of(designs.cache_bytes >= WORD_BYTES * designs.key_tile * width)
    if not len(designs):
        raise DoesNotFit(
            f"no cache holds {designs.key_tile:,} keys of {show_words(width)}; use larger caches or fewer keys"
        )
    area, watts = designs.costs(width)
    affordable = (area <= allowed.area_mm2) & (1e3 * watts <= allowed.power_mw)
    if not affordable.any():
        raise DoesNotFit(
            f"none of {every:,} designs keeps to the budget: the smallest takes {area.min():.3g} mm² and"
            f" {1e3 * watts.min():.4g} mW; raise it or sweep smaller parts"
        )
    if affordable.sum() > MOST_ONE_BY_ONE and not is_vectorised(workload, dataflow, designs.key_tile):
        raise InvalidInput(
            f"{int(affordable.sum()):,} designs within the budget are more than the {MOST_ONE_BY_ONE:,} that run one by"
            f" one with {dataflow.value} on {workload}; sweep fewer sizes, or attenio dense or causal one key at a time"
        )
    within = _Evaluated.of(designs.of(affordable), task, progress)
    # keys at a time on the machine itself: AttenIO's one, or what the KV buffer of the designs is for
    own_keys = 1 if dataflow is Dataflow.ATTENIO else designs.key_tile
    base = _Evaluated.of(Designs.product(designs.base, key_tile=own_keys), task)
    order = within.order()
    best = within.design(int(order[0]))
    growths = _growths(designs, best, task)
    return Exploration(
        workload=workload,
        dataflow=dataflow,
        base=base.design(0),
        budget=allowed,
        designs=every,
        within=len(within.ticks),
        best=best,
        front=tuple(within.design(number) for number in within.front(order)),
        growths=growths,
        advice=_advice(designs, best, growths, task),
    )


@dataclass(frozen=True, kw_only=True)
class _Task:
    """What the designs are to run."""

    workload: Workload
    dataflow: Dataflow
    tiling: Tiling

    @property
    def width(self) -> int:
        """Words of the widest key or value."""
        return max(self.workload.d, self.workload.value_dim)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evaluated:
    """Designs that run the workload, with what they take."""

    designs: Designs
    ticks: NDArray[np.int64]
    query_tile: NDArray[np.int64]
    ticks_per_cycle: int
    area: NDArray[np.float64]
    watts: NDArray[np.float64]

    @classmethod
    def of(cls, designs: Designs, task: _Task, progress: Progress | None = None) -> "_Evaluated":
        runs = []
        at_once = _AT_ONCE if is_vectorised(task.workload, task.dataflow, designs.key_tile) else len(designs)
        for start in range(0, len(designs), at_once):
            chunk = designs.of(np.arange(start, min(start + at_once, len(designs)), dtype=np.int64))
            runs.append(design_runs(chunk, task.workload, task.dataflow, task.tiling, progress))
            if progress is not None:
                progress(start + len(chunk), len(designs))
        ticks = np.concatenate([some.ticks for some in runs])
        tiles, fits = np.concatenate([some.query_tile for some in runs]), ticks >= 0
        kept = designs.of(fits)
        area, watts = kept.costs(task.width)
        return cls(
            designs=kept,
            ticks=ticks[fits],
            query_tile=tiles[fits],
            ticks_per_cycle=runs[0].ticks_per_cycle,
            area=area,
            watts=watts,
        )

    def order(self) -> NDArray[np.intp]:
        """The fastest first; of equals the smallest, the coolest, the one with fewest channels."""
        return np.lexsort((self.designs.channels, self.watts, self.area, self.ticks))

    def front(self, order: NDArray[np.intp]) -> list[int]:
        """Those that no other beats. The first of what is left is one: who beats it would come before it."""
        costs = np.stack([self.ticks, self.area, self.watts, self.designs.channels])[:, order]
        left, front = np.arange(len(order), dtype=np.int64), []
        while len(left):
            front.append(int(order[left[0]]))
            left = left[(costs[:, left] < costs[:, left[:1]]).any(axis=0)]
        return front

    def design(self, number: int) -> Design:
        sizes, base = self.designs.sizes(number), self.designs.base
        parts, rate = base.accelerator, base.levels[1].bandwidth_bytes_per_s
        assert parts is not None and rate is not None
        cycles = Fraction(int(self.ticks[number]), self.ticks_per_cycle)
        return Design(
            sizes=tuple(sizes.items()),
            query_tile=int(self.query_tile[number]),
            cycles=cycles,
            seconds=float(cycles) / parts.clock_hz,
            area_mm2=float(self.area[number]),
            power_mw=1e3 * float(self.watts[number]),
            bandwidth_gb_per_s=rate / parts.hbm.channels * sizes["channels"] / 1e9,
        )


def _growths(designs: Designs, best: Design, task: _Task) -> tuple[Growth, ...]:
    """Twice of each resource, the most saved for the area first."""
    grown = []
    for name, size in best.sizes:
        sizes = {**dict(best.sizes), name: 2 * size}
        grid = {key: (value,) for key, value in sizes.items()}
        try:
            one = Designs.product(designs.base, key_tile=designs.key_tile, **grid)
        except InvalidInput:  # no machine has that many
            continue
        larger = _Evaluated.of(one, task).design(0)
        grown.append(
            Growth(
                resource=name,
                size=2 * size,
                speedup=float(best.cycles / larger.cycles),
                area_mm2=larger.area_mm2 - best.area_mm2,
            )
        )
    return tuple(sorted(grown, key=lambda each: -_worth(each)))


def _worth(growth: Growth) -> float:
    """Saved for the area; what takes no area of the chip comes first where it saves anything."""
    gain = growth.speedup - 1 - _WORTH
    return gain / max(growth.area_mm2, 1e-9) if gain > 0 else gain


def _advice(designs: Designs, best: Design, growths: tuple[Growth, ...], task: _Task) -> str:
    """Which resource to grow next, and why."""
    machine = machine_of(designs.base, dict(best.sizes), designs.key_tile * task.width)
    done = simulated_design(machine, task.workload, task.dataflow, (best.query_tile, designs.key_tile))
    exp = float(done.timeline.idle_by_reason(Engine.PE).get("EXP unit", 0) / done.cycles)
    why = (
        f"the array works {done.pe_utilisation:.1%} of all cycles, waits {exp:.1%} for the EXP unit and"
        f" {done.stall_fraction:.1%} for memory"
    )
    first = growths[0] if growths else None
    if first is None or first.speedup - 1 <= _WORTH:
        return f"grow nothing by itself: twice of any one part saves less than {_WORTH:.1%}; {why}"
    added = f"{first.area_mm2:.2f} mm²" if first.area_mm2 > 1e-9 else "no area of the chip"
    saved = f"{1 - 1 / first.speedup:.1%}"
    return f"grow {first.part} next: {first.shown_size} take {saved} off for {added}; {why}"
