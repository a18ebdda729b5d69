"""A fused multiply-add: a * b + c with one rounding."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.floats import HALF, Format, named, rounded, unpack
from attenio.accelerator.rtl.parts import Part


class MultiplyAdd(Part):
    """The product is exact and lies three bits above the bottom; the addend is shifted to it, what falls out is kept.

    Where the addend is far above the product, the product is only the bit that says that something is there.
    """

    clocked = False

    def __init__(self, form: Format = HALF) -> None:
        self.form = form
        super().__init__({**{name: In(form.bits) for name in "abc"}, "result": Out(form.bits)})

    def elaborate(self, _platform: object) -> Module:
        """The unit, without registers."""
        m, form = Module(), self.form
        digits, offset = form.digits, form.bias + form.fraction_bits
        a, b, c = (unpack(m, form, number) for number in (self.a, self.b, self.c))
        product, sign = Signal(2 * digits), Signal()
        exponents, shift = Signal(form.exponent_bits + 1), Signal(signed(form.exponent_bits + 3))
        m.d.comb += [product.eq(a.significand * b.significand), sign.eq(a.sign ^ b.sign)]
        m.d.comb += [exponents.eq(a.exponent + b.exponent), shift.eq(c.exponent - exponents + offset)]
        furthest, width = 2 * digits + 2, 3 * digits + 6
        far = Signal()
        m.d.comb += far.eq((shift > furthest) & c.significand.any())
        left, right = Signal(range(furthest + 1)), Signal(form.exponent_bits + 2)
        m.d.comb += left.eq(Mux(far, furthest, Mux(shift < 0, 0, shift)))
        m.d.comb += right.eq(Mux(shift < 0, -shift, 0))
        below, above = Signal(digits + 3), Signal(width)
        m.d.comb += below.eq((c.significand << 3) >> right)
        lost = Signal()
        m.d.comb += lost.eq(((below << right)[: digits + 3] != (c.significand << 3)) & (shift < 0))
        m.d.comb += above.eq((c.significand << 3) << left)
        product_part, addend_part = Signal(width), Signal(width)
        m.d.comb += product_part.eq(Mux(far, product.any(), product << 3))
        m.d.comb += addend_part.eq(Mux(shift < 0, below | lost, above))
        total, difference, other = Signal(width), Signal(width + 1), Signal(width)
        m.d.comb += [total.eq(product_part + addend_part), difference.eq(product_part - addend_part)]
        m.d.comb += other.eq(addend_part - product_part)
        opposite, negative, result_sign = Signal(), Signal(), Signal()
        m.d.comb += [opposite.eq(sign ^ c.sign), negative.eq(opposite & difference[-1])]
        magnitude = Signal(width)
        m.d.comb += magnitude.eq(Mux(opposite, Mux(difference[-1], other, difference), total))
        lowest = named(m, "lowest", Mux(far, c.exponent - (offset + furthest + 3), exponents - (2 * offset + 3)))
        m.d.comb += result_sign.eq(Mux(magnitude.any(), sign ^ negative, sign & c.sign))
        result = rounded(m, form, magnitude, lowest, result_sign)
        m.d.comb += self.result.eq(Mux(self.c == form.minus_infinity, form.minus_infinity, result))
        return m
