"""A MAC on any three words of the scratchpad: the units of the other machine, and a choice between their results."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.along_rows.operations import Kind, Mode
from attenio.accelerator.rtl.arithmetic.divide import Divide
from attenio.accelerator.rtl.arithmetic.floats import HALF
from attenio.accelerator.rtl.arithmetic.maximum import Maximum
from attenio.accelerator.rtl.arithmetic.multiply import Multiply
from attenio.accelerator.rtl.arithmetic.multiply_add import MultiplyAdd
from attenio.accelerator.rtl.parts import Library, Part

KIND_BITS = 3
MODE_BITS = 3


class WordMac(Part):
    """One result a cycle, without a register: what is accumulated lies in the scratchpad."""

    clocked = False

    def __init__(self, library: Library) -> None:
        self.library = library
        super().__init__({"kind": In(KIND_BITS), **{name: In(16) for name in "abc"}, "result": Out(16)})

    def elaborate(self, _platform: object) -> Module:
        """Units, and which of them is heard."""
        m, place = Module(), self.library.place
        fma = place(m, "fp16_multiply_add", "fma", MultiplyAdd())
        multiply = place(m, "fp16_multiply", "multiply", Multiply())
        divide = place(m, "fp16_divide", "divide_by_sum", Divide())
        maximum = place(m, "fp16_maximum", "maximum", Maximum())
        scales = self.kind == Kind.SUM.value
        divides = self.kind == Kind.DIVIDE.value
        m.d.comb += [fma.a.eq(self.a), fma.b.eq(Mux(scales, HALF.one, self.b))]
        m.d.comb += fma.c.eq(Mux(scales, multiply.result, self.c))
        m.d.comb += [multiply.a.eq(self.c), multiply.b.eq(self.b), maximum.a.eq(self.a), maximum.b.eq(self.c)]
        # the divider stands still while nothing is divided
        m.d.comb += [divide.a.eq(Mux(divides, self.c, 0)), divide.b.eq(Mux(divides, self.b, 0))]
        m.d.comb += self.result.eq(fma.result)
        for kind, unit in ((Kind.TIMES, multiply), (Kind.MAXIMUM, maximum), (Kind.DIVIDE, divide)):
            with m.If(self.kind == kind.value):
                m.d.comb += self.result.eq(unit.result)
        return m


def operand(m: Module, word: Value, mode: Value, fresh: Value) -> Value:
    """A word, or the number that its mode puts in its place."""
    read = Signal(16)
    m.d.comb += read.eq(word)
    numbers = {Mode.ZERO: 0, Mode.ONE: HALF.one, Mode.MINUS_INFINITY: HALF.minus_infinity}
    for which, number in numbers.items():
        with m.If(mode == which.value):
            m.d.comb += read.eq(number)
    for which, number in ((Mode.ZERO_IF_FRESH, 0), (Mode.MINUS_INFINITY_IF_FRESH, HALF.minus_infinity)):
        with m.If((mode == which.value) & fresh):
            m.d.comb += read.eq(number)
    return read
