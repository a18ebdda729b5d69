"""A sum, rounded once."""

from amaranth.hdl import Cat, Module, Mux, Signal

from attenio.accelerator.rtl.arithmetic.floats import named, rounded, unpack
from attenio.accelerator.rtl.arithmetic.unit import BinaryUnit


class Add(BinaryUnit):
    """a + b; the smaller is shifted to the larger, and what falls out is one bit. If a is -inf, so is the sum."""

    def elaborate(self, _platform: object) -> Module:
        """The unit, without registers."""
        m, form = Module(), self.form
        a_is_larger = self.a[: form.bits - 1] >= self.b[: form.bits - 1]
        codes = Signal(2 * form.bits)
        m.d.comb += codes.eq(Mux(a_is_larger, Cat(self.a, self.b), Cat(self.b, self.a)))
        large, small = (unpack(m, form, part) for part in (codes[: form.bits], codes[form.bits :]))
        width = form.digits + 4  # a carry above, three bits below
        shift, below = Signal(form.exponent_bits), Signal(form.digits + 3)
        m.d.comb += [shift.eq(large.exponent - small.exponent), below.eq((small.significand << 3) >> shift)]
        lost = Signal()
        m.d.comb += lost.eq((below << shift)[: form.digits + 3] != (small.significand << 3))
        magnitude, opposite = Signal(width), large.sign ^ small.sign
        wide = large.significand << 3
        m.d.comb += magnitude.eq(Mux(opposite, wide - (below | lost), wide + (below | lost)))
        lowest = named(m, "lowest", large.exponent - (form.bias + form.fraction_bits + 3))
        sign = Mux(magnitude.any(), large.sign, large.sign & small.sign)
        result = rounded(m, form, magnitude, lowest, sign)
        m.d.comb += self.result.eq(Mux(self.a == form.minus_infinity, form.minus_infinity, result))
        return m
