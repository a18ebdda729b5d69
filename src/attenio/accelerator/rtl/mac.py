"""A MAC: a fused multiply-add with what surrounds it, and the statistics of the rows that it has, one a pass.

    score   acc = q * x + acc                        one element of a key is broadcast as x
    join    acc = partner + acc                      partial sums of MACs that share a row
    capture s = acc, or -inf if hidden; the old maximum is kept; m = max(m, s)
    sum     l = p + l * alpha
    output  o = p * x + o * alpha                    one element of a value is broadcast as x
    divide  o = o / l

``fresh`` says that no key was seen yet: sums and outputs are zero then, and maxima -inf.
"""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.divide import Divide
from attenio.accelerator.rtl.arithmetic.floats import HALF
from attenio.accelerator.rtl.arithmetic.maximum import Maximum
from attenio.accelerator.rtl.arithmetic.multiply import Multiply
from attenio.accelerator.rtl.arithmetic.multiply_add import MultiplyAdd
from attenio.accelerator.rtl.parts import Library, Part

_LOWEST = 0x8000 | HALF.largest

# What all MACs are told alike, with the bits of each.
CONTROL = {"first": 1, "join": 1, "score": 1, "output": 1, "sum": 1, "divide": 1, "fresh": 1, "capture": 1}
CONTROL |= {"take_p": 1, "take_alpha": 1, "give_step": 1}
# The pass that each is about.
PASSES = ("sum_pass", "output_pass", "capture_pass", "take_pass", "give_pass")


class Mac(Part):
    """One MAC with statistics for so many passes."""

    def __init__(self, library: Library, *, passes: int) -> None:
        self.library, self.passes = library, passes
        words = ("q", "x", "partner", "o", "taken")
        super().__init__(
            {
                **{name: In(bits) for name, bits in CONTROL.items()},
                **{name: In(range(max(2, passes))) for name in PASSES},
                **{name: In(16) for name in words},
                "hidden": In(1),
                "enable_take": In(1),
                **{name: Out(16) for name in ("acc", "o_new", "minuend", "subtrahend")},
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Units and registers."""
        m, place = Module(), self.library.place
        fma = place(m, "fp16_multiply_add", "fma", MultiplyAdd())
        multiply = place(m, "fp16_multiply", "multiply", Multiply())
        divide = place(m, "fp16_divide", "divide_by_sum", Divide())
        maximum = place(m, "fp16_maximum", "maximum", Maximum())
        lowest = place(m, "fp16_maximum", "lowest", Maximum())
        s, m_old, m_new, p, alpha, row_sum = (
            Array(Signal(16, name=f"{name}_{at}") for at in range(self.passes))
            for name in ("s", "m_old", "m_new", "p", "alpha", "sum")
        )
        at = Signal(len(self.sum_pass))
        m.d.comb += at.eq(Mux(self.sum, self.sum_pass, self.output_pass))
        before = Mux(self.fresh, 0, Mux(self.sum, row_sum[at], self.o))
        m.d.comb += [multiply.a.eq(before), multiply.b.eq(alpha[at])]
        m.d.comb += fma.a.eq(Mux(self.score, self.q, Mux(self.join, self.partner, p[at])))
        m.d.comb += fma.b.eq(Mux(self.score | self.output, self.x, HALF.one))
        scaled = Mux(self.first, 0, self.acc)
        m.d.comb += fma.c.eq(Mux(self.score | self.join, scaled, multiply.result))
        with m.If(self.score | self.join):
            m.d.sync += self.acc.eq(fma.result)
        with m.If(self.sum):
            m.d.sync += row_sum[at].eq(fma.result)
        m.d.comb += [divide.a.eq(Mux(self.fresh, 0, self.o)), divide.b.eq(Mux(self.fresh, 0, row_sum[at]))]
        m.d.comb += self.o_new.eq(Mux(self.divide, divide.result, fma.result))
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
