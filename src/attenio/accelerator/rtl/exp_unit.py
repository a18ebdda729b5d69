"""The EXP unit: modules that subtract and then exponentiate, a register between, one result a cycle each."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.add import Add
from attenio.accelerator.rtl.arithmetic.exponential import Exponential
from attenio.accelerator.rtl.delay import delayed
from attenio.accelerator.rtl.parts import Library, Part


class ExpModule(Part):
    """exp(a - b), of what was given in the cycle before, or ``fill`` cycles earlier still."""

    def __init__(self, library: Library, *, fill: int = 0) -> None:
        self.library, self.fill = library, fill
        super().__init__({"minuend": In(16), "subtrahend": In(16), "result": Out(16)})

    def elaborate(self, _platform: object) -> Module:
        """Subtract, keep, exponentiate."""
        m, place = Module(), self.library.place
        less = place(m, "fp16_add", "less", Add())
        power = place(m, "fp16_exponential", "exponential", Exponential())
        kept = Signal(16)
        m.d.comb += [less.a.eq(self.minuend), less.b.eq(Cat(self.subtrahend[:15], ~self.subtrahend[15]))]
        m.d.sync += kept.eq(less.result)
        m.d.comb += [power.x.eq(kept), self.result.eq(delayed(m, power.result, self.fill, "result"))]
        return m


class ExpUnit(Part):
    """All modules, each with the MACs that it serves: one of them in every slot of a pass."""

    def __init__(self, library: Library, *, modules: int, lines: int, macs_per_line: int, fill: int = 0) -> None:
        self.library, self.modules, self.lines, self.macs, self.fill = library, modules, lines, macs_per_line, fill
        self.slots = lines * macs_per_line // modules
        buses = {f"{name}_{line}": In(16 * self.macs) for name in ("minuend", "subtrahend") for line in range(lines)}
        results = {f"result_{module}": Out(16) for module in range(modules)}
        super().__init__({"slot": In(range(max(2, self.slots))), **buses, **results})

    def elaborate(self, _platform: object) -> Module:
        """Modules and what they are given."""
        m = Module()
        for number in range(self.modules):
            module = self.library.place(m, "exp_module", f"module_{number}", ExpModule(self.library, fill=self.fill))
            rows = [slot * self.modules + number for slot in range(self.slots)]
            for name in ("minuend", "subtrahend"):
                words = Array(
                    getattr(self, f"{name}_{row // self.macs}").word_select(row % self.macs, 16) for row in rows
                )
                m.d.comb += getattr(module, name).eq(words[self.slot])
            m.d.comb += getattr(self, f"result_{number}").eq(module.result)
        return m
