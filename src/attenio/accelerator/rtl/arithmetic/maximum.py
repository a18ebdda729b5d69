"""The larger of two numbers."""

from amaranth.hdl import Module, Mux

from attenio.accelerator.rtl.arithmetic.unit import BinaryUnit


class Maximum(BinaryUnit):
    """The larger of a and b, -inf included; of two zeros either."""

    def elaborate(self, _platform: object) -> Module:
        """The unit, without registers: codes of positive numbers are in order, those of negative ones the other way."""
        m, last = Module(), self.form.bits - 1
        a, b = self.a, self.b
        a_wins = Mux(a[last], b[last] & (a[:last] <= b[:last]), b[last] | (a[:last] >= b[:last]))
        m.d.comb += self.result.eq(Mux(a_wins, a, b))
        return m
