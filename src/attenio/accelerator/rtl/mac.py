"""A MAC: a fused multiply-add with what surrounds it, and the statistics of the rows that it has, one a pass.

    score   acc = q * x + acc                        one element of a key is broadcast as x
    join    acc = partner + acc                      partial sums of MACs that share a row
    capture s = acc, or -inf if hidden; the old maximum is kept; m = max(m, s)
    sum     l = p + l * alpha
    output  o = p * x + o * alpha                    one element of a value is broadcast as x
    divide  o = o / l

Where an adder takes several cycles, a row has as many partial sums, in turn; ``hold`` keeps one until ``pair`` adds the
next to it. Where there is one multiplier, ``scale`` says that an output or a sum is scaled, in a cycle before.

``fresh`` says that no key was seen yet: sums and outputs are zero then, and maxima -inf.
"""

from typing import Any, cast

from amaranth.hdl import Array, C, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.divide import Divide
from attenio.accelerator.rtl.arithmetic.floats import HALF
from attenio.accelerator.rtl.arithmetic.maximum import Maximum
from attenio.accelerator.rtl.arithmetic.multiply import Multiply
from attenio.accelerator.rtl.arithmetic.multiply_add import MultiplyAdd
from attenio.accelerator.rtl.delay import delayed
from attenio.accelerator.rtl.parts import Library, Part
from attenio.parts import SiliconParts

_LOWEST = 0x8000 | HALF.largest

# What all MACs are told alike, with the bits of each.
CONTROL = {"first": 1, "join": 1, "score": 1, "output": 1, "sum": 1, "divide": 1, "fresh": 1, "capture": 1}
CONTROL |= {"take_p": 1, "take_alpha": 1, "give_step": 1}
# The pass that each is about.
PASSES = ("sum_pass", "output_pass", "capture_pass", "take_pass", "give_pass")


def control_of(silicon: SiliconParts) -> dict[str, int]:
    """What all MACs are told: with slow adders when partial sums meet, with one multiplier when it scales."""
    more = {"hold": 1, "pair": 1} if silicon.adder_cycles > 1 else {}
    return CONTROL | more | ({"scale": 1} if silicon.multipliers == 1 else {})


class Mac(Part):
    """One MAC with statistics for so many passes."""

    def __init__(self, library: Library, *, passes: int, silicon: SiliconParts | None = None) -> None:
        self.library, self.passes, self.silicon = library, passes, silicon or SiliconParts()
        divides = self.silicon.macs_a_divider == 1
        words = ("q", "x", "partner", "o", "taken", *(() if divides else ("quotient",)))
        given = ("acc", "o_new", "minuend", "subtrahend", *(() if divides else ("dividend", "divisor")))
        super().__init__(
            {
                **{name: In(bits) for name, bits in control_of(self.silicon).items()},
                **{name: In(range(max(2, passes))) for name in PASSES},
                **{name: In(16) for name in words},
                "hidden": In(1),
                "enable_take": In(1),
                **{name: Out(16) for name in given},
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Units and registers."""
        m, place = Module(), self.library.place
        fma = place(m, "fp16_multiply_add", "fma", MultiplyAdd())
        maximum = place(m, "fp16_maximum", "maximum", Maximum())
        lowest = place(m, "fp16_maximum", "lowest", Maximum())
        s, m_old, m_new, p, alpha, row_sum = (
            Array(Signal(16, name=f"{name}_{at}") for at in range(self.passes))
            for name in ("s", "m_old", "m_new", "p", "alpha", "sum")
        )
        q, o = (delayed(m, getattr(self, name), self.silicon.fill_cycles, name) for name in "qo")
        at = Signal(len(self.sum_pass))
        m.d.comb += at.eq(Mux(self.sum, self.sum_pass, self.output_pass))
        before = Mux(self.fresh, 0, Mux(self.sum, row_sum[at], o))
        sums, partial = self._partial_sums(m)
        m.d.comb += fma.a.eq(Mux(self.score, q, Mux(self.join, self.partner, Mux(partial, self._kept, p[at]))))
        m.d.comb += fma.b.eq(Mux(self.score | self.output, self.x, HALF.one))
        before = self._scaled(m, fma, before, alpha[at])
        m.d.comb += fma.c.eq(Mux(sums, Mux(self.first, 0, self.acc), before))
        quotient = self._quotient(m, Mux(self.fresh, 0, o), Mux(self.fresh, 0, row_sum[at]))
        # an adder of several cycles: registers behind it, and what its sums are for
        slow = self.silicon.adder_cycles - 1
        result = delayed(m, fma.result, slow, "result")
        is_score, is_sum = delayed(m, sums, slow, "is_score"), delayed(m, self.sum, slow, "is_sum")
        then = delayed(m, at, slow, "at")
        with m.If(is_score):
            m.d.sync += self.acc.eq(result)
        with m.If(is_sum):
            m.d.sync += row_sum[then].eq(result)
        is_quotient = delayed(m, self.divide, slow, "is_quotient")
        m.d.comb += self.o_new.eq(Mux(is_quotient, delayed(m, quotient, slow, "quotient"), result))
        score, seen = Signal(16), Signal(16)
        m.d.comb += score.eq(Mux(self.hidden, HALF.minus_infinity, self.acc))
        m.d.comb += seen.eq(Mux(self.fresh, HALF.minus_infinity, m_new[self.capture_pass]))
        m.d.comb += [maximum.a.eq(seen), maximum.b.eq(score)]
        with m.If(self.capture):
            m.d.sync += [s[self.capture_pass].eq(score), m_old[self.capture_pass].eq(seen)]
            m.d.sync += m_new[self.capture_pass].eq(maximum.result)
        with m.If(self.enable_take & self.take_p):
            m.d.sync += p[self.take_pass].eq(self.taken)
        with m.If(self.enable_take & self.take_alpha):
            m.d.sync += alpha[self.take_pass].eq(self.taken)
        m.d.comb += self.minuend.eq(Mux(self.give_step, m_old[self.give_pass], s[self.give_pass]))
        # a row that has seen no score has the lowest number in place of -inf, so that -inf less it is -inf
        m.d.comb += [lowest.a.eq(m_new[self.give_pass]), lowest.b.eq(_LOWEST), self.subtrahend.eq(lowest.result)]
        return m

    def _partial_sums(self, m: Module) -> tuple[Value, Value]:
        """Whether a sum goes to the accumulator, and whether it is one of two partial sums, the first of them kept."""
        if self.silicon.adder_cycles == 1:
            self._kept = Signal(16)
            return self.score | self.join, C(0, 1)
        self._kept = Signal(16, name="kept")
        with m.If(self.hold):
            m.d.sync += self._kept.eq(self.acc)
        return self.score | self.join | self.pair, self.pair

    def _scaled(self, m: Module, fma: Any, before: Value, alpha: Value) -> Value:
        """What products are added to: scaled by a multiplier of its own, or else by the fused one in another cycle."""
        if self.silicon.multipliers > 1:
            multiply = self.library.place(m, "fp16_multiply", "multiply", Multiply())
            m.d.comb += [multiply.a.eq(before), multiply.b.eq(alpha)]
            return cast(Value, multiply.result)
        with m.If(self.scale):
            m.d.comb += [fma.a.eq(before), fma.b.eq(alpha)]
        return Mux(self.scale, HALF.minus_zero, before)

    def _quotient(self, m: Module, dividend: Value, divisor: Value) -> Value:
        """Of a divider of its own, or of one of the line's."""
        if self.silicon.macs_a_divider > 1:
            m.d.comb += [self.dividend.eq(dividend), self.divisor.eq(divisor)]
            return cast(Value, self.quotient)
        divide = self.library.place(m, "fp16_divide", "divide_by_sum", Divide())
        m.d.comb += [divide.a.eq(dividend), divide.b.eq(divisor)]
        return cast(Value, divide.result)
