"""A quotient, rounded once."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from attenio.accelerator.rtl.arithmetic.floats import leading_zeros, named, rounded, unpack
from attenio.accelerator.rtl.arithmetic.unit import BinaryUnit


class Divide(BinaryUnit):
    """a / b, and a itself where b is zero: one subtraction a digit, all of them in a row."""

    def elaborate(self, _platform: object) -> Module:
        """The unit, without registers."""
        m, form = Module(), self.form
        nothing = self.b[: form.bits - 1] == 0
        divisor = Signal(form.bits)
        m.d.comb += divisor.eq(Mux(nothing, form.one, self.b))
        (top, top_exponent, sign), (bottom, bottom_exponent, other) = (
            self._normalised(m, number) for number in (self.a, divisor)
        )
        # digits + 3 of the quotient, which is at least a half; what is left makes the lowest bit one
        quotient: list[Value] = []
        rest: Value = top
        for number in range(form.digits + 3):
            less, after = named(m, f"less_{number}", rest - bottom), Signal(form.digits + 1, name=f"rest_{number}")
            quotient.append(~less[-1])
            m.d.comb += after.eq(Mux(less[-1], rest, less)[: form.digits] << 1)
            rest = after
        digits = Cat(rest.any(), *reversed(quotient))
        # the first digit has the weight of the exponents' difference, the lowest bit digits + 3 below
        lowest = named(m, "lowest", top_exponent - bottom_exponent - (form.digits + 3))
        width = 2 * form.bias + 3 * form.digits
        magnitude = Signal(width)
        m.d.comb += magnitude.eq(Mux(self.a[: form.bits - 1] == 0, 0, digits))
        m.d.comb += self.result.eq(rounded(m, form, magnitude, lowest, sign ^ other))
        return m

    def _normalised(self, m: Module, number: Value) -> tuple[Value, Value, Value]:
        """Significand with its first bit set, exponent and sign."""
        parts = unpack(m, self.form, number)
        zeros, significand = Signal(range(2 * self.form.digits)), Signal(self.form.digits)
        m.d.comb += zeros.eq(leading_zeros(m, parts.significand))
        m.d.comb += significand.eq(parts.significand << zeros)
        return significand, named(m, "exponent", parts.exponent - zeros), parts.sign
