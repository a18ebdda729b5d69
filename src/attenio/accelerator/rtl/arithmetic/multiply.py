"""A product, rounded."""

from amaranth.hdl import Module, Signal

from attenio.accelerator.rtl.arithmetic.floats import named, rounded, unpack
from attenio.accelerator.rtl.arithmetic.unit import BinaryUnit


class Multiply(BinaryUnit):
    """a * b; a zero has the sign of the product."""

    def elaborate(self, _platform: object) -> Module:
        """The unit, without registers."""
        m, form = Module(), self.form
        a, b = (unpack(m, form, number) for number in (self.a, self.b))
        magnitude = Signal(3 * form.digits + 6)
        m.d.comb += magnitude.eq((a.significand * b.significand) << 3)
        lowest = named(m, "lowest", a.exponent + b.exponent - (2 * (form.bias + form.fraction_bits) + 3))
        m.d.comb += self.result.eq(rounded(m, form, magnitude, lowest, a.sign ^ b.sign))
        return m
