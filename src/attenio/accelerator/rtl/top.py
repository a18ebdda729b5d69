"""The accelerator: controller, PE array, EXP unit, KV buffer and HBM port, wired."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value

from attenio.accelerator.rtl.array_control import ArrayControl
from attenio.accelerator.rtl.controller import TRACED, Controller
from attenio.accelerator.rtl.delay import delayed
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.exp_control import ExpControl
from attenio.accelerator.rtl.exp_unit import ExpUnit
from attenio.accelerator.rtl.hbm_port import HbmPort
from attenio.accelerator.rtl.kv_buffer import KvBlock
from attenio.accelerator.rtl.mac import control_of
from attenio.accelerator.rtl.machine_ports import machine_ports
from attenio.accelerator.rtl.parts import Library, Part
from attenio.accelerator.rtl.pe_array import PeArray
from attenio.accelerator.step import Engine


class Accelerator(Part):
    """The whole. Words of queries and outputs pass line by line, those of keys and values as many as arrive at once."""

    def __init__(self, library: Library, design: Design) -> None:
        self.library, self.design = library, design
        super().__init__(machine_ports(design))

    def elaborate(self, _platform: object) -> Module:
        """Parts and wires."""
        m, design, place = Module(), self.design, self.library.place
        controller = place(m, "controller", "controller", Controller(design.nest))
        control = place(m, "array_control", "array_control", ArrayControl(design))
        exp_control = place(m, "exp_control", "exp_control", ExpControl(design))
        port = place(m, "hbm_port", "hbm_port", HbmPort(design))
        pe = design.hardware.pe
        array = place(m, "pe_array", "pe_array", PeArray(self.library, design))
        unit = ExpUnit(
            self.library,
            modules=design.hardware.exp.modules,
            lines=pe.lines,
            macs_per_line=pe.macs_per_line,
            fill=pe.silicon.exp_fill_cycles,
        )
        exp = place(m, "exp_unit", "exp_unit", unit)
        for name in (f"{engine.name.lower()}_{each}" for engine in Engine for each in TRACED):
            m.d.comb += getattr(self, name).eq(getattr(controller, name))
        for target, engine in ((control, "pe"), (exp_control, "exp"), (port, "hbm")):
            for name in ("place", "phase", "active"):
                m.d.comb += getattr(target, name).eq(getattr(controller, f"{engine}_{name}"))
        m.d.comb += [control.last.eq(controller.pe_last), exp_control.last.eq(controller.exp_last)]
        m.d.comb += control.rescaled_passes.eq(self._rescaled(m, exp_control, control.begins))
        m.d.comb += [exp_control.begins.eq(control.begins), exp_control.gives.eq(control.gives)]
        self._array(m, array, control, exp_control, port)
        m.d.comb += exp.slot.eq(exp_control.slot)
        for line in range(pe.lines):
            for name in ("minuend", "subtrahend"):
                m.d.comb += getattr(exp, f"{name}_{line}").eq(getattr(array, f"{name}_{line}"))
            m.d.comb += getattr(array, f"loaded_{line}").eq(getattr(self, f"queries_{line}"))
            m.d.comb += getattr(self, f"outputs_{line}").eq(getattr(array, f"outputs_{line}"))
        for module in range(design.hardware.exp.modules):
            m.d.comb += getattr(array, f"result_{module}").eq(getattr(exp, f"result_{module}"))
        self._kv(m, array, control, port)
        m.d.comb += [self.take_queries.eq(port.load_queries), self.give_outputs.eq(port.store)]
        m.d.comb += self.take_kv.eq(port.load_key | port.load_value)
        m.d.comb += self.late.eq(control.late | self._clash(m, array, control))
        return m

    def _array(self, m: Module, array: Any, control: Any, exp_control: Any, port: Any) -> None:
        """What the lines are told: MACs as much later as their operands reach them, rows when exponentials come."""
        silicon = self.design.hardware.pe.silicon
        told = tuple(name for name in control_of(silicon) if name not in ("take_p", "take_alpha", "give_step"))
        told += (
            "sum_pass",
            "output_pass",
            "capture_pass",
            "capture_shared",
            "geometry",
            "level",
            "low",
            "high",
            "turn",
        )
        for name in told:
            m.d.comb += getattr(array, name).eq(delayed(m, getattr(control, name), silicon.fill_cycles, name))
        m.d.comb += [array.shared.eq(control.shared), array.heard_geometry.eq(control.geometry)]
        for name in ("take_p", "take_alpha", "take_shared", "take_pass", "take_base", "take_geometry"):
            m.d.comb += getattr(array, name).eq(delayed(m, getattr(exp_control, name), silicon.exp_fill_cycles, name))
        m.d.comb += [array.give_step.eq(exp_control.give_step), array.give_pass.eq(exp_control.give_pass)]
        m.d.comb += array.load.eq(port.load_queries)
        m.d.comb += array.query_address.eq(Mux(control.score, control.address, 0))
        uses_outputs = control.output | control.divide
        m.d.comb += array.output_address.eq(Mux(uses_outputs, control.address, Mux(port.store, port.address, 0)))
        m.d.comb += array.load_address.eq(Mux(port.load_queries, port.address, 0))
        written = control.output | (control.divide & (control.turn == silicon.macs_a_divider - 1))
        address = Mux(written, control.address, 0)
        m.d.comb += array.write_outputs.eq(delayed(m, written, silicon.latency_cycles, "written"))
        m.d.comb += array.write_address.eq(delayed(m, address, silicon.latency_cycles, "write_address"))

    def _clash(self, m: Module, array: Any, control: Any) -> Value:
        """Whether an output was ever read and another written in the same half of the banks, even or odd addresses.

        Where results come an odd number of cycles later they never are, so that halves of one port would do.
        """
        silicon, clash = self.design.hardware.pe.silicon, Signal()
        if silicon.latency_cycles % 2 and silicon.multipliers > 1:
            same = control.address[0] == array.write_address[0]
            with m.If(control.output & array.write_outputs & same):
                m.d.sync += clash.eq(1)
        return clash

    def _rescaled(self, m: Module, exp_control: Any, begins: Value) -> Value:
        """Passes whose factors have come, as late as they come; none as soon as the next begin."""
        passes: Value = exp_control.rescaled_passes
        for number in range(self.design.hardware.pe.silicon.exp_fill_cycles):
            later = Signal(passes.shape(), name=f"rescaled_{number}")
            m.d.sync += later.eq(Mux(begins, 0, passes))
            passes = later
        return passes

    def _kv(self, m: Module, array: Any, control: Any, port: Any) -> None:
        """The two blocks of the KV buffer; scores hear the key, outputs the value."""
        design = self.design
        blocks = []
        for name, width, strobe in (
            ("key_block", design.widths[0], port.load_key),
            ("value_block", design.widths[1], port.load_value),
        ):
            block = KvBlock(words=width, ways=array_ways(design), arriving=design.arriving)
            placed = self.library.place(m, name, name, block)
            m.d.comb += [placed.element.eq(control.element), placed.write_element.eq(port.element)]
            m.d.comb += [placed.write.eq(strobe), placed.write_words.eq(self.kv)]
            blocks.append(placed)
        key, value = blocks
        for way in range(array_ways(design)):
            given = Mux(control.score, getattr(key, f"given_{way}"), getattr(value, f"given_{way}"))
            m.d.comb += getattr(array, f"element_{way}").eq(given)


def array_ways(design: Design) -> int:
    """The most elements that are broadcast at once."""
    return max(design.ways(width) for width in design.widths)
