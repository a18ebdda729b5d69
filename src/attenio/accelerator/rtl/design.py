"""What is built: a plan's program on an accelerator, and the sizes that its parts take from both."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from attenio.accelerator.controller import program_of
from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Program
from attenio.accelerator.rtl.along_rows.layout import words_of
from attenio.accelerator.rtl.along_rows.store import ControlStore
from attenio.accelerator.rtl.geometry import Geometry
from attenio.accelerator.rtl.nest import Nest, Place
from attenio.accelerator.simulate import plan_for
from attenio.accelerator.step import Engine, Operation
from attenio.catalogue import as_machine
from attenio.elements import ElementType
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.masks.patterns import Band
from attenio.parts import SiliconParts
from attenio.planning import Dataflow, Plan
from attenio.planning.costs import problems_of
from attenio.quantities import show_words
from attenio.workload import Direction, Workload

# One machine for AttenIO, with rows at rest on their MACs, and one for all that take softmax along rows.
ALONG_ROWS = (Dataflow.STANDARD, Dataflow.FLAT, Dataflow.FLASH_ATTENTION_2)
BUILT = (Dataflow.ATTENIO, *ALONG_ROWS)
# A tile of queries may take this many passes over the array: every MAC has statistics for each.
_MOST_PASSES = 32


def without_refresh(machine: Machine | str) -> Machine:
    """The machine with a memory that needs no refresh: its average is a fraction of a cycle, which no clock has."""
    machine = as_machine(machine)
    if machine.accelerator is None:
        return machine
    parts = replace(machine.accelerator, hbm=replace(machine.accelerator.hbm, refresh_ns=0))
    return replace(machine, accelerator=parts)


@dataclass(frozen=True, eq=False)
class Design:
    """A plan on the accelerator of a machine."""

    plan: Plan
    machine: Machine

    @classmethod
    def of(cls, workload: Workload, machine: Machine | str, dataflow: Dataflow | str = Dataflow.ATTENIO) -> "Design":
        """The design that runs a workload; what cannot be built is refused in one line."""
        machine, dataflow = without_refresh(machine), Dataflow.named(dataflow)
        if dataflow not in BUILT:
            known = ", ".join(each.value for each in BUILT)
            raise InvalidInput(f"{dataflow.value} is simulated, and not built; use one of {known}")
        if workload.direction is not Direction.FORWARD or workload.dtype is not ElementType.FP16:
            raise InvalidInput("the array is built for the forward pass in fp16; use --direction forward, --dtype fp16")
        design = cls(plan_for(workload, machine, dataflow), machine)
        design.check()
        return design

    def check(self) -> None:
        """Refuse what the hardware cannot do."""
        self._check_silicon()
        if self.along_rows:
            self._check_along_rows()
            return
        pe, exp = self.hardware.pe, self.hardware.exp
        if self.plan.tiles["key_tile"] != 1:
            raise InvalidInput("the array is built for one key at a time; use a plan with key_tile=1")
        if pe.macs % exp.modules:
            raise InvalidInput(
                f"{exp.modules:,} EXP modules do not divide {pe.macs:,} MACs: every module serves equally many;"
                f" use {max(each for each in range(1, exp.modules + 1) if pe.macs % each == 0):,}"
            )
        if not isinstance(self.pattern, Band):
            raise InvalidInput("the controller hides scores outside a band; use a dense, causal or window mask")
        if self.passes > _MOST_PASSES:
            raise DoesNotFit(
                f"{self.plan.tiles['query_tile']:,} rows take {self.passes:,} passes over {pe.macs:,} MACs, and a MAC"
                f" has statistics for {_MOST_PASSES}; use a larger array or a smaller cache"
            )
        for place in self.nest.places[Engine.HBM]:
            self._check_transfer(place)

    def _check_silicon(self) -> None:
        if self.along_rows and self.hardware.pe.silicon != SiliconParts():
            raise InvalidInput(
                f"the machine of {self.plan.dataflow.value} is built with the silicon of the published cycles, and"
                " simulated with any other; leave silicon out of the machine file"
            )

    def _check_along_rows(self) -> None:
        """Refuse what the machine of the other dataflows cannot do; its control store is made, and may not fit."""
        _ = self.control_store
        for place in self.nest.places[Engine.HBM]:
            words, cycles = words_of(place, self.widths)[1], int(place.step.cycles)
            if words > cycles * self.hardware.pe.macs:
                raise DoesNotFit(
                    f"the memory moves {show_words(words)} in {cycles:,} cycles, and {self.hardware.pe.macs:,}"
                    " MACs take as"
                    " many words a cycle; use a slower memory or a larger array"
                )

    @cached_property
    def control_store(self) -> ControlStore:
        """What units are told, where softmax runs along rows."""
        return ControlStore(self.nest, self.plan.dataflow, self.widths, self.hardware)

    @property
    def along_rows(self) -> bool:
        """Whether softmax runs along rows: the machine with a scratchpad."""
        return self.plan.dataflow in ALONG_ROWS

    def _check_transfer(self, place: Place) -> None:
        step = place.step
        if step.operation in (Operation.LOAD_QUERIES, Operation.STORE_OUTPUTS):
            addresses = self.addresses(place)
            if addresses > step.cycles:
                raise DoesNotFit(
                    f"the memory moves {step.rows:,} rows in {int(step.cycles):,} cycles, and the banks of"
                    f" {self.hardware.pe.macs:,} MACs take {addresses:,}; use a slower memory or a larger array"
                )

    @cached_property
    def hardware(self) -> Hardware:
        """The engines."""
        return Hardware.of(self.machine)

    @cached_property
    def program(self) -> Program:
        """The program that the simulator runs, too."""
        return program_of(self.plan, self.hardware)

    @cached_property
    def nest(self) -> Nest:
        """The program as the controller walks it."""
        return Nest(self.program)

    @cached_property
    def pattern(self) -> Band:
        """Which scores are visible; one pattern for all heads."""
        patterns = problems_of(self.plan.workload, self.plan.dataflow).counts.patterns
        if len(patterns) != 1 or not isinstance(patterns[0][0], Band):
            raise InvalidInput("the controller hides scores outside one band; use a dense, causal or window mask")
        return patterns[0][0]

    @cached_property
    def masked(self) -> bool:
        """Whether some score is hidden."""
        return not bool(self.pattern.is_dense)

    @property
    def widths(self) -> tuple[int, int]:
        """Elements of a key and of a value."""
        return self.plan.workload.d, self.plan.workload.value_dim

    @cached_property
    def geometries(self) -> list[Geometry]:
        """Tiles of rows of every size in the program."""
        places = (place for places in self.nest.places.values() for place in places)
        rows = sorted({place.step.rows for place in places if place.step.rows})
        return [self.geometry_of(each) for each in rows]

    def geometry_of(self, rows: int) -> Geometry:
        """So many rows on the array."""
        return Geometry(rows=rows, lines=self.hardware.pe.lines, macs_per_line=self.hardware.pe.macs_per_line)

    def geometry_number(self, place: Place) -> int:
        """Which of the geometries a place is about; steps that know no rows do not ask."""
        return self.geometries.index(self.geometry_of(place.step.rows)) if place.step.rows else 0

    @cached_property
    def passes(self) -> int:
        """The most passes of a tile."""
        return max(each.passes for each in self.geometries)

    @property
    def slots(self) -> int:
        """Groups of rows of a pass, one to a cycle of the EXP unit."""
        return self.hardware.pe.macs // self.hardware.exp.modules

    def depth(self, width: int) -> int:
        """Addresses of a bank for vectors of a width."""
        return max(each.steps(width) for each in self.geometries)

    def ways(self, width: int) -> int:
        """The most MACs that share a row."""
        return max(each.ways(width) for each in self.geometries)

    def addresses(self, place: Place) -> int:
        """Addresses that a transfer of queries or outputs goes through."""
        width = self.widths[0 if place.step.operation is Operation.LOAD_QUERIES else 1]
        return self.geometry_of(place.step.rows).steps(width)

    @cached_property
    def arriving(self) -> int:
        """Words of keys and values that arrive in a cycle."""
        if self.along_rows:
            loads = [place for place in self.nest.places[Engine.HBM] if place.step.name.startswith("load")]
            return max(ceil(words_of(place, self.widths)[1] / int(place.step.cycles)) for place in loads)
        widths = {Operation.LOAD_KEYS: self.widths[0], Operation.LOAD_VALUES: self.widths[1]}
        places = [place.step for place in self.nest.places[Engine.HBM]]
        return max(
            (ceil(widths[step.operation] / int(step.cycles)) for step in places if step.operation in widths), default=1
        )

    def kv_beats(self, width: int) -> int:
        """Cycles in which a key or a value arrives."""
        return ceil(width / self.arriving)
