"""The larger of two numbers."""

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.floats import HALF, Format
from attenio.accelerator.rtl.parts import Part


class Maximum(Part):
    """The larger of a and b, -inf included; of two zeros either."""

    clocked = False

    def __init__(self, form: Format = HALF) -> None:
        self.form = form
        super().__init__({**{name: In(form.bits) for name in "ab"}, "result": Out(form.bits)})

    def elaborate(self, _platform: object) -> Module:
        """The unit, without registers: codes of positive numbers are in order, those of negative ones the other way."""
        m, last = Module(), self.form.bits - 1
        a, b = self.a, self.b
        a_wins = Mux(a[last], b[last] & (a[:last] <= b[:last]), b[last] | (a[:last] >= b[:last]))
        m.d.comb += self.result.eq(Mux(a_wins, a, b))
        return m
