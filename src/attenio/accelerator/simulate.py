"""A plan run on an accelerator: cycles, utilisation, stalls, words and joules.

>>> from attenio.catalogue import machine_named
>>> done = simulate(Workload(n=131072, d=64), machine_named("attenio-512k"), dataflow="attenio")
>>> done.moved_words == done.plan.moved_words
True
>>> round(100 * done.pe_utilisation), round(100 * done.exp_utilisation, 1)
(84, 19.5)
"""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from attenio.accelerator.controller import SWITCHED, check_has_program, program_of
from attenio.accelerator.energy import Energy, energy_of
from attenio.accelerator.events import event_timeline
from attenio.accelerator.hardware import Hardware
from attenio.accelerator.periodic import periodic_timeline
from attenio.accelerator.program import Program
from attenio.accelerator.programs.attenio import Switches
from attenio.accelerator.step import Engine
from attenio.accelerator.timeline import RAMP, Timeline
from attenio.catalogue import as_machine
from attenio.display import Shown
from attenio.machine import Machine
from attenio.names import checked_kind
from attenio.plain_values import plain_fields
from attenio.planning import Dataflow, Plan, Tiles, best_plan, plan_with, published_plan
from attenio.planning.costs import cost
from attenio.workload import Workload, checked_workload


@dataclass(frozen=True, kw_only=True)
class Simulation(Shown):
    """A plan, the program it became, and what that took."""

    plan: Plan
    machine: Machine
    hardware: Hardware
    switches: Switches
    program: Program
    timeline: Timeline
    energy: Energy

    @property
    def whole_cycles(self) -> int:
        """Cycles as they are printed: one that has begun is one more."""
        return ceil(self.cycles)

    @property
    def cycles(self) -> Fraction:
        """Cycles of the whole program, exactly."""
        return self.timeline.cycles

    @property
    def seconds(self) -> float:
        """The same at the accelerator's clock."""
        return float(self.cycles) / self.hardware.clock_hz

    @property
    def moved_words(self) -> int:
        """Words between cache and memory."""
        return self.program.work.moved_words

    @property
    def pe_utilisation(self) -> float:
        """Share of cycles in which the array works."""
        return self.timeline.utilisation(Engine.PE)

    @property
    def exp_utilisation(self) -> float:
        """Share of cycles in which the EXP unit works."""
        return self.timeline.utilisation(Engine.EXP)

    @property
    def mac_utilisation(self) -> float:
        """Products over what the MACs could have done."""
        return float(self.program.work.macs / (self.cycles * self.hardware.pe.macs)) if self.cycles else 0.0

    @property
    def stall_cycles(self) -> Fraction:
        """Cycles in which the array waits for memory, before its first step included."""
        memory = self.program.causes(Engine.HBM) | {RAMP}
        waits = self.timeline.idle_by_reason(Engine.PE)
        return sum((cycles for reason, cycles in waits.items() if reason in memory), Fraction(0))

    @property
    def stall_fraction(self) -> float:
        """The same as a share of all cycles."""
        return float(self.stall_cycles / self.cycles) if self.cycles else 0.0

    def facts(self) -> dict[str, Any]:
        """Cycles, utilisation, words and energy."""
        return {
            "workload": str(self.plan.workload),
            "machine": self.machine.name,
            "dataflow": self.plan.dataflow.value,
            "tiles": str(self.plan.tiles),
            "cycles": self.whole_cycles,
            **plain_fields(self, "seconds", "pe_utilisation", "exp_utilisation", "stall_fraction", "moved_words"),
            "energy_joules": self.energy.total_joules,
        }

    def to_json(self) -> dict[str, Any]:
        """The simulation as plain values."""
        idle: dict[str, dict[str, float]] = {}
        for wait in self.timeline.idle:
            idle.setdefault(wait.engine.value, {})[wait.reason] = _plain(wait.cycles)
        return {
            "workload": str(self.plan.workload),
            "machine": self.machine.name,
            **plain_fields(self.plan, "dataflow", "tiles"),
            "tile_rule": self.plan.rule.value,
            "switches": vars(self.switches) if self.plan.dataflow in SWITCHED else None,
            "cycles": self.whole_cycles,
            **plain_fields(self, "seconds", "pe_utilisation", "exp_utilisation", "mac_utilisation"),
            "hbm_utilisation": self.timeline.utilisation(Engine.HBM),
            **plain_fields(self, "stall_fraction", "moved_words"),
            "energy_joules": self.energy.total_joules,
            "energy_by_component_joules": {part.value: joules for part, joules in self.energy.joules},
            "idle": idle,
            "steps": self.program.steps,
        }


def simulate(
    workload: Workload,
    machine: Machine | str,
    *,
    dataflow: Dataflow | str = Dataflow.ATTENIO,
    switches: Switches | None = None,
) -> Simulation:
    """Run a dataflow with its published tiles, or the best where these do not fit, on a machine's accelerator."""
    machine = as_machine(machine)
    return simulate_plan(plan_for(workload, machine, dataflow), machine, switches=switches)


def plan_for(workload: Workload, machine: Machine | str, dataflow: Dataflow | str) -> Plan:
    """The plan that is run when none is given: the paper's tiles, or those of fewest words that suit the array."""
    checked_workload(workload)
    machine, dataflow = as_machine(machine), Dataflow.named(dataflow)
    check_has_program(dataflow)
    hardware = Hardware.of(machine)  # a machine without an accelerator is refused before anything is planned
    if dataflow is Dataflow.KEY_STATIONARY and (filling := _filling_rows(workload, machine, hardware)) is not None:
        return filling
    plan = published_plan(workload, machine, dataflow) or best_plan(workload, machine, dataflow=dataflow)
    width = max(workload.d, workload.value_dim)
    if dataflow is not Dataflow.STACKED_GROUPS or plan.tiles["key_tile"] * width <= hardware.kv.words:
        return plan
    # the planner has the whole cache for keys; the array takes them from the KV buffer, and words do not depend on it
    fitting = {**plan.tiles, "key_tile": max(1, hardware.kv.words // width)}
    return plan_with(workload, machine, dataflow, Tiles.of(**fitting))


def _filling_rows(workload: Workload, machine: Machine, hardware: Hardware) -> Plan | None:
    """A gradient's plan with a row for every MAC of a line and the largest tile of keys beside them, if that fits.

    The plan of fewest words has as few rows as it can, one at worst, and dQ, a sum over keys, would use a MAC a line.
    """

    def held(keys: int) -> int:
        return cost(workload, Dataflow.KEY_STATIONARY, tiles(keys)).peak_words

    def tiles(keys: int) -> Tiles:
        return Tiles.of(query_tile=min(hardware.pe.macs_per_line, workload.queries), key_tile=keys)

    sizes = range(1, workload.keys + 1)
    fitting = bisect_right(sizes, hardware.cache.words, key=held)
    return plan_with(workload, machine, Dataflow.KEY_STATIONARY, tiles(fitting)) if fitting else None


def simulate_plan(
    plan: Plan, machine: Machine | str, *, switches: Switches | None = None, by_events: bool = False
) -> Simulation:
    """Run a plan, in the periodic mode or, to the same result, event by event."""
    checked_kind(plan, Plan, "plan", "a Plan, such as that of plan_for(workload, machine, 'attenio')")
    machine = as_machine(machine)
    if switches is not None:
        checked_kind(switches, Switches, "switches", "Switches, or leave them out")
    hardware, chosen = Hardware.of(machine), Switches() if switches is None else switches
    program = program_of(plan, hardware, chosen)
    timeline = event_timeline(program) if by_events else periodic_timeline(program)
    return Simulation(
        plan=plan,
        machine=machine,
        hardware=hardware,
        switches=chosen,
        program=program,
        timeline=timeline,
        energy=energy_of(hardware, program.work, timeline.cycles),
    )


def _plain(cycles: Fraction) -> float:
    return cycles.numerator if cycles.denominator == 1 else float(cycles)
