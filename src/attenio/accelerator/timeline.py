"""What a program takes: cycles, busy cycles of every engine, and every idle cycle with its reason."""

from dataclasses import dataclass
from fractions import Fraction

from attenio.accelerator.step import Engine

# Reasons that are no step: before an engine's first, and after its last.
RAMP = "ramp"
DRAIN = "drain"

Cycles = Fraction


@dataclass(frozen=True, kw_only=True)
class Idle:
    """Cycles in which an engine waited, and for what."""

    engine: Engine
    reason: str
    cycles: Cycles


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The time of a program. Busy and idle cycles of an engine add up to all cycles, exactly."""

    cycles: Cycles
    busy: tuple[tuple[Engine, Cycles], ...]
    idle: tuple[Idle, ...]

    def busy_cycles(self, engine: Engine) -> Cycles:
        """Cycles in which the engine worked."""
        return dict(self.busy).get(engine, Fraction(0))

    def utilisation(self, engine: Engine) -> float:
        """The share of all cycles in which the engine worked."""
        return float(self.busy_cycles(engine) / self.cycles) if self.cycles else 0.0

    def idle_by_reason(self, engine: Engine) -> dict[str, Cycles]:
        """Idle cycles of an engine by reason, the longest first."""
        return {idle.reason: idle.cycles for idle in self.idle if idle.engine is engine}

    @classmethod
    def of_ticks(
        cls, ticks_per_cycle: int, end: int, busy: dict[Engine, int], idle: dict[tuple[Engine, str], int]
    ) -> "Timeline":
        """The timeline counted in whole ticks; what an engine did not account for is its drain."""
        waits = {key: ticks for key, ticks in idle.items() if ticks}
        for engine in Engine:
            known = busy[engine] + sum(ticks for (of, _), ticks in waits.items() if of is engine)
            if end > known:
                waits[engine, DRAIN] = waits.get((engine, DRAIN), 0) + end - known
        order = {engine: number for number, engine in enumerate(Engine)}
        ranked = sorted(waits.items(), key=lambda entry: (order[entry[0][0]], -entry[1], entry[0][1]))
        return cls(
            cycles=Fraction(end, ticks_per_cycle),
            busy=tuple((engine, Fraction(busy[engine], ticks_per_cycle)) for engine in Engine),
            idle=tuple(
                Idle(engine=engine, reason=reason, cycles=Fraction(ticks, ticks_per_cycle))
                for (engine, reason), ticks in ranked
            ),
        )
