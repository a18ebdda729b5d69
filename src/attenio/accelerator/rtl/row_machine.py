"""The machine: controller, control store, MACs, tree of adders, EXP modules and HBM port around one scratchpad.

Its ports are those of the other machine, so that the same bench runs both. All that is loaded comes as ``kv``; queries
have no port of their own.
"""

from math import ceil
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.memory import Memory

from attenio.accelerator.rtl.along_rows.store import Table
from attenio.accelerator.rtl.along_rows.word_mac import WordMac, operand
from attenio.accelerator.rtl.arithmetic.add import Add
from attenio.accelerator.rtl.arithmetic.floats import HALF
from attenio.accelerator.rtl.arithmetic.maximum import Maximum
from attenio.accelerator.rtl.controller import TRACED, Controller
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.exp_unit import ExpModule
from attenio.accelerator.rtl.machine_ports import machine_ports
from attenio.accelerator.rtl.parts import Library, Part
from attenio.accelerator.rtl.row_position import Position
from attenio.accelerator.step import Engine, Operation

_LOWEST = 0x8000 | HALF.largest
_STORES = (Operation.STORE_OUTPUTS, Operation.STORE_TILE)


class RowMachine(Part):
    """The whole, for dataflows that take softmax along rows."""

    def __init__(self, library: Library, design: Design) -> None:
        self.library, self.design = library, design
        self.store = design.control_store
        super().__init__(machine_ports(design))

    def elaborate(self, _platform: object) -> Module:
        """Parts and wires."""
        m, design = Module(), self.design
        controller = self.library.place(m, "controller", "controller", Controller(design.nest))
        for name in (f"{engine.name.lower()}_{each}" for engine in Engine for each in TRACED):
            m.d.comb += getattr(self, name).eq(getattr(controller, name))
        m.submodules.scratchpad = self._scratchpad = Memory(shape=16, depth=self.store.layout.words, init=[])
        where = self.library.place(m, "position", "position", Position(design, self.store.layout.score_stride))
        for name in ("pe_place", "pe_last", "hbm_place", "hbm_last"):
            m.d.comb += getattr(where, name).eq(getattr(controller, name))
        self._array(m, controller, where)
        self._exponentials(m, controller, where)
        self._port(m, controller, where)
        return m

    def _read(self, m: Module, address: Value) -> Value:
        port = self._scratchpad.read_port(domain="comb")
        m.d.comb += port.addr.eq(address)
        return port.data

    def _write(self, m: Module, enable: Value, address: Value, word: Value) -> None:
        port = self._scratchpad.write_port()
        m.d.comb += [port.en.eq(enable), port.addr.eq(address), port.data.eq(word)]

    def _told(self, m: Module, table: Table, index: Value, name: str) -> list[dict[str, Value]]:
        """The fields of all units in the words of the store at hand; every unit has a memory of its own beside it."""
        told, ones = [], (1 << table.unit_bits) - 1
        for unit in range(table.units):
            base = unit * table.unit_bits
            words = [word >> base & ones for word in table.words]
            memory = Memory(shape=table.unit_bits, depth=max(2, len(words)), init=words)
            m.submodules[f"{name}_{unit}"] = memory
            port = memory.read_port(domain="comb")
            m.d.comb += port.addr.eq(index)
            told.append({f.name: port.data[f.first : f.first + f.bits] for f in table.fields})
        return told

    def _index(self, m: Module, controller: Any, engine: str, starts: list[int], words: int) -> Signal:
        """The word of the store that an engine is at; the first if it has nothing to do."""
        index = Signal(range(max(2, words)), name=f"{engine}_index")
        with m.If(getattr(controller, f"{engine}_active")), m.Switch(getattr(controller, f"{engine}_place")):
            for number, start in enumerate(starts):
                with m.Case(number):
                    m.d.comb += index.eq(start + getattr(controller, f"{engine}_phase"))
        return index

    def _operand(self, m: Module, told: dict[str, Value], name: str, where: Any) -> Value:
        address = told[name] + Mux(told[f"{name}_shifted"], where.offset, 0)
        return operand(m, self._read(m, address), told[f"{name}_mode"], where.fresh)

    def _result(self, m: Module, told: dict[str, Value], word: Value, where: Any) -> None:
        """Write a word where it belongs; a score that the mask hides is -inf."""
        if self.design.masked:
            band = self.design.pattern
            lag = Signal(signed(len(where.lag) + 1))
            m.d.comb += lag.eq(where.lag + told["lag"].as_signed())
            outside = (lag > int(band.shift) + int(band.right)) | (lag < int(band.shift) - int(band.left))
            word = Mux(told["hides"] & outside, HALF.minus_infinity, word)
        self._write(m, told["writes"], told["to"] + Mux(told["to_shifted"], where.offset, 0), word)

    def _array(self, m: Module, controller: Any, where: Any) -> None:
        """MACs, and the tree behind them: every level a cycle later, wherever the program is by then."""
        table = self.store.array
        index = self._index(m, controller, "pe", self.store.array_first, len(table.words))
        for number, told in enumerate(self._told(m, table, index, "array_store")):
            mac = self.library.place(m, "word_mac", f"mac_{number}", WordMac(self.library))
            m.d.comb += mac.kind.eq(told["kind"])
            for name in "abc":
                m.d.comb += getattr(mac, name).eq(self._operand(m, told, name, where))
            self._result(m, told, mac.result, where)
        for level, table in enumerate(self.store.tree):
            later = Signal(len(index), name=f"index_{level}")
            then = SimpleNamespace(
                offset=Signal(len(where.offset), name=f"offset_{level}"),
                lag=Signal(signed(len(where.lag)), name=f"lag_{level}"),
                fresh=where.fresh,
            )
            m.d.sync += [later.eq(index), then.offset.eq(where.offset), then.lag.eq(where.lag)]
            index, where = later, then
            for number, told in enumerate(self._told(m, table, index, f"tree_store_{level}")):
                adder = self.library.place(m, "fp16_add", f"adder_{level}_{number}", Add())
                m.d.comb += [getattr(adder, name).eq(self._operand(m, told, name, where)) for name in "ab"]
                self._result(m, told, adder.result, where)

    def _exponentials(self, m: Module, controller: Any, where: Any) -> None:
        """Modules; what they are given in a cycle is written in the next."""
        table = self.store.exponentials
        index = self._index(m, controller, "exp", self.store.exp_first, len(table.words))
        for number, told in enumerate(self._told(m, table, index, "exp_store")):
            module = self.library.place(m, "exp_module", f"module_{number}", ExpModule(self.library))
            # a row that has seen no score has the lowest number in place of -inf, so that -inf less it is -inf
            lowest = self.library.place(m, "fp16_maximum", f"lowest_{number}", Maximum())
            m.d.comb += [lowest.a.eq(self._operand(m, told, "b", where)), lowest.b.eq(_LOWEST)]
            m.d.comb += [module.minuend.eq(self._operand(m, told, "a", where)), module.subtrahend.eq(lowest.result)]
            writes, to = Signal(name=f"writes_{number}"), Signal(self.store.address_bits, name=f"to_{number}")
            m.d.sync += [writes.eq(told["writes"]), to.eq(told["to"] + Mux(told["to_shifted"], where.offset, 0))]
            self._write(m, writes, to, module.result)

    def _port(self, m: Module, controller: Any, where: Any) -> None:
        """Transfers: words come in the last cycles of a load, and leave in the first of a store."""
        design, arriving, macs = self.design, self.design.arriving, self.design.hardware.pe.macs
        active, phase = controller.hbm_active, controller.hbm_phase
        first, words, at = (Signal(self.store.address_bits + 1, name=f"transfer_{n}") for n in ("first", "words", "at"))
        hides = Signal(name="hides_scores")
        with m.Switch(controller.hbm_place):
            for place in design.nest.places[Engine.HBM]:
                begin, count = self.store.transfer(place)
                with m.Case(place.number):
                    m.d.comb += [first.eq(begin), words.eq(count)]
                    m.d.comb += hides.eq(place.step.operation is Operation.LOAD_SCORES)
                    if place.step.operation in _STORES:
                        m.d.comb += [self.give_outputs.eq(active & (phase < ceil(count / macs))), at.eq(phase * macs)]
                    else:
                        waits = int(place.step.cycles) - ceil(count / arriving)
                        begun: Value = phase >= waits if waits else C(1)
                        m.d.comb += [self.take_kv.eq(active & begun), at.eq((phase - waits) * arriving)]
        for lane in range(arriving):
            word: Value = self.kv.word_select(lane, 16)
            if design.masked:
                band, lag = design.pattern, Signal(signed(len(where.row) + 2), name=f"lag_of_{lane}")
                m.d.comb += lag.eq(at + lane - where.row)
                outside = (lag > int(band.shift) + int(band.right)) | (lag < int(band.shift) - int(band.left))
                word = Mux(hides & outside, HALF.minus_infinity, word)
            self._write(m, self.take_kv & (at + lane < words), first + at + lane, word)
        given = []
        for lane in range(macs):
            word = self._read(m, Mux(self.give_outputs & (at + lane < words), first + at + lane, 0))
            given.append(Mux(where.fresh & where.clears, 0, word))
        width = design.hardware.pe.macs_per_line
        for line in range(design.hardware.pe.lines):
            m.d.comb += getattr(self, f"outputs_{line}").eq(Cat(given[line * width : (line + 1) * width]))
