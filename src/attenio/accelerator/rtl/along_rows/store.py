"""The control store as memories: the operations of units as fields of words, a word for every cycle of every step."""

from dataclasses import dataclass
from functools import cached_property

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.rtl.along_rows.code import Coder
from attenio.accelerator.rtl.along_rows.layout import Layout, layout_of, words_of
from attenio.accelerator.rtl.along_rows.operations import Operation, StepCode
from attenio.accelerator.rtl.along_rows.word_mac import KIND_BITS, MODE_BITS
from attenio.accelerator.rtl.nest import Nest, Place
from attenio.accelerator.step import Engine
from attenio.errors import DoesNotFit
from attenio.planning import Dataflow

# Bits of the store that are still written out in seconds.
_MOST_BITS = 2**23
LAG_BITS = 12


@dataclass(frozen=True, kw_only=True)
class Field:
    """Bits of a word that belong together."""

    name: str
    first: int
    bits: int


@dataclass(frozen=True, kw_only=True)
class Table:
    """Words of a store; ``units`` equal groups of fields side by side in each. The first word has nothing to do."""

    fields: tuple[Field, ...]
    units: int
    words: list[int]

    @property
    def unit_bits(self) -> int:
        """Bits of one unit's fields."""
        return sum(each.bits for each in self.fields)


class ControlStore:
    """All that units are told, step by step."""

    def __init__(self, nest: Nest, dataflow: Dataflow, widths: tuple[int, int], hardware: Hardware) -> None:
        self.widths, self.hardware, pe = widths, hardware, hardware.pe
        self.layout: Layout = layout_of(nest, dataflow, widths, pe.macs)
        coder = Coder(
            layout=self.layout,
            dataflow=dataflow,
            widths=widths,
            lines=pe.lines,
            macs_per_line=pe.macs_per_line,
            modules=hardware.exp.modules,
        )
        places = nest.places[Engine.PE]
        cycles = sum(int(place.step.cycles) for place in places)
        bits = cycles * pe.macs * self._unit_bits
        if bits > _MOST_BITS:
            raise DoesNotFit(
                f"the control store would have {bits:,} bits for {cycles:,} cycles of steps on {pe.macs:,} MACs, and"
                f" {_MOST_BITS:,} are built; use a smaller array or shorter rows"
            )
        self.array_code: list[StepCode] = [coder.array(places, number) for number in range(len(places))]
        self.exp_code = [coder.exponentials(place) for place in nest.places[Engine.EXP]]

    @property
    def address_bits(self) -> int:
        """Bits of an address of the scratchpad."""
        return self.layout.words.bit_length()

    @property
    def _unit_bits(self) -> int:
        return 4 * (self.address_bits + 1) + 3 * MODE_BITS + KIND_BITS + LAG_BITS + 2

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of an operation."""
        sizes = {"writes": 1, "kind": KIND_BITS, "hides": 1, "lag": LAG_BITS}
        for name in ("a", "b", "c", "to"):
            sizes |= {name: self.address_bits, f"{name}_shifted": 1}
            sizes |= {f"{name}_mode": MODE_BITS} if name != "to" else {}
        fields, first = [], 0
        for name, bits in sizes.items():
            fields.append(Field(name=name, first=first, bits=bits))
            first += bits
        return tuple(fields)

    @cached_property
    def array(self) -> Table:
        """What MACs are told."""
        rows = [cycle for code in self.array_code for cycle in code.array]
        return self._table(rows, self.hardware.pe.macs)

    @cached_property
    def tree(self) -> list[Table]:
        """What the adders of every level of the tree are told."""
        levels = 1 + max((level for code in self.array_code for level, _ in code.tree), default=-1)
        tables = []
        for level in range(levels):
            rows = [
                dict(enumerate(code.tree.get((level, cycle), [])))
                for code in self.array_code
                for cycle in range(code.cycles)
            ]
            tables.append(self._table(rows, max(len(row) for row in rows)))
        return tables

    @cached_property
    def exponentials(self) -> Table:
        """What EXP modules are told."""
        rows = [cycle for code in self.exp_code for cycle in code]
        return self._table(rows, self.hardware.exp.modules)

    @cached_property
    def array_first(self) -> list[int]:
        """The word of the first cycle of every place of the array."""
        return _starts([code.cycles for code in self.array_code])

    @cached_property
    def exp_first(self) -> list[int]:
        """The same of the EXP unit."""
        return _starts([len(code) for code in self.exp_code])

    def transfer(self, place: Place) -> tuple[int, int]:
        """The first word that a transfer fills or empties, and how many."""
        region, words = words_of(place, self.widths)
        return self.layout.first[region], words

    def _table(self, rows: list[dict[int, Operation]], units: int) -> Table:
        unit_bits = sum(each.bits for each in self.fields)
        words = [0]
        for row in rows:
            words.append(sum(self._word(operation) << unit * unit_bits for unit, operation in row.items()))
        return Table(fields=self.fields, units=units, words=words)

    def _word(self, operation: Operation) -> int:
        numbers = {"writes": 1, "kind": operation.kind.value, "hides": int(operation.hides is not None)}
        numbers["lag"] = (operation.hides or 0) & ((1 << LAG_BITS) - 1)
        for name in ("a", "b", "c", "to"):
            at = getattr(operation, name)
            numbers |= {name: at.address, f"{name}_shifted": int(at.shifted)}
            numbers |= {f"{name}_mode": at.mode.value} if name != "to" else {}
        return sum(numbers[each.name] << each.first for each in self.fields)


def _starts(lengths: list[int]) -> list[int]:
    """Where steps of so many words begin, after the word that has nothing to do."""
    starts, at = [], 1
    for length in lengths:
        starts.append(at)
        at += length
    return starts
