"""What a module of the EXP unit computes, bit for bit as the functional model has it: a shift and a table of chords."""

import numpy as np
from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.floats import HALF
from attenio.accelerator.rtl.parts import Part

# Fraction bits of log2(e) and of the table: the fewest tried that give every word of the functional model.
_FACTOR_BITS = 24
_TABLE_BITS = 20
_FRACTION_BITS = 16
_CHORD_BITS = 5
_WITHIN_BITS = _FRACTION_BITS - _CHORD_BITS
_LOWEST = 18

_ENDS = np.exp2(np.arange(2**_CHORD_BITS + 1, dtype=np.int64) / 2**_CHORD_BITS)
_VALUES = [int(value) for value in np.rint(_ENDS[:-1] * 2**_TABLE_BITS)]
_RISES = [int(rise) for rise in np.rint((_ENDS[1:] - _ENDS[:-1]) * 2**_TABLE_BITS)]
_FACTOR = round(float(np.log2(np.e)) * 2**_FACTOR_BITS)
_LOWEST_FIXED = int(np.rint(_LOWEST * np.log2(np.e) * 2**_FRACTION_BITS))


class Exponential(Part):
    """exp(x) of a half-precision number that is not positive, -inf included; the sign is not looked at."""

    clocked = False

    def __init__(self) -> None:
        super().__init__({"x": In(HALF.bits), "result": Out(HALF.bits)})

    def elaborate(self, _platform: object) -> Module:
        """The unit, without registers."""
        m = Module()
        field, fraction = self.x[10:15], self.x[:10]
        exponent, significand = Signal(5), Signal(11)
        m.d.comb += [exponent.eq(Mux(field == 0, 1, field)), significand.eq(Cat(fraction, field != 0))]
        # |x| log2(e) in fixed point, to nearest
        product, point = Signal(11 + _FACTOR_BITS + 1), Signal(6)
        m.d.comb += [product.eq(significand * _FACTOR), point.eq(25 + _FACTOR_BITS - _FRACTION_BITS - exponent)]
        wide = Signal(70)
        m.d.comb += wide.eq((product << 33) >> point)
        up = wide[32] & (wide[:32].any() | wide[33])
        small = (exponent > 19) | ((exponent == 19) & (significand > 64 * _LOWEST))
        fixed, negative = Signal(23), Signal(signed(24))
        m.d.comb += [fixed.eq(Mux(small, _LOWEST_FIXED, wide[33:] + up)), negative.eq(-fixed)]
        interval, within = negative[_WITHIN_BITS:_FRACTION_BITS], negative[:_WITHIN_BITS]
        whole = Signal(signed(8))
        m.d.comb += whole.eq(negative[_FRACTION_BITS:].as_signed())
        value, rise = Signal(_TABLE_BITS + 1), Signal(max(_RISES).bit_length())
        m.d.comb += value.eq(Array(C(each, _TABLE_BITS + 1) for each in _VALUES)[interval])
        m.d.comb += rise.eq(Array(C(each, len(rise)) for each in _RISES)[interval])
        chord_bits = _TABLE_BITS + _WITHIN_BITS + 1
        chord = Signal(chord_bits)
        m.d.comb += chord.eq((value << _WITHIN_BITS) + rise * within)
        # 2^whole, rounded to half precision; below 2^-14 fewer bits are left
        drop, moved = Signal(range(32)), Signal(chord_bits + 16)
        m.d.comb += [drop.eq(Mux(whole >= -14, 0, -14 - whole)), moved.eq((chord << 16) >> drop)]
        kept, rest = moved[-11:], moved[:-11]
        up_again = rest[-1] & (rest[:-1].any() | kept[0])
        m.d.comb += self.result.eq(Cat(kept[:10], Mux(kept[10], whole + 15, 0)[:5]) + up_again)
        return m
