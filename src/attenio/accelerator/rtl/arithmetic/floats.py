"""A binary floating-point format and what every unit does with it: unpack, count leading zeros, round and pack.

Numbers round to nearest, ties to even, subnormals included; what would overflow stays at the largest finite number.
The one infinity is -inf, which hides a score: it goes in as an addend and comes out as it is.
"""

from dataclasses import dataclass

from amaranth.hdl import C, Cat, Module, Mux, Shape, Signal, Value, signed


@dataclass(frozen=True, kw_only=True)
class Format:
    """Bits of the exponent and of the fraction; a format of few bits is small enough to be tried exhaustively."""

    exponent_bits: int = 5
    fraction_bits: int = 10

    @property
    def bits(self) -> int:
        """Bits of a number."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def digits(self) -> int:
        """Bits of a significand, the hidden one included."""
        return self.fraction_bits + 1

    @property
    def bias(self) -> int:
        """What is added to an exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def largest(self) -> int:
        """The code of the largest finite number."""
        return (((1 << self.exponent_bits) - 1) << self.fraction_bits) - 1

    @property
    def one(self) -> int:
        """The code of 1."""
        return self.bias << self.fraction_bits

    @property
    def minus_zero(self) -> int:
        """The code of what added to any number leaves it as it is, its sign too."""
        return 1 << (self.bits - 1)

    @property
    def minus_infinity(self) -> int:
        """The code of -inf."""
        return ((1 << (self.exponent_bits + 1)) - 1) << self.fraction_bits


HALF = Format()


@dataclass(frozen=True)
class Unpacked:
    """A number as sign, significand and exponent field; a subnormal number has the exponent field 1."""

    sign: Value
    exponent: Value
    significand: Value


def unpack(m: Module, form: Format, number: Value) -> Unpacked:
    """The fields of a finite number."""
    field, fraction = number[form.fraction_bits : form.bits - 1], number[: form.fraction_bits]
    exponent, significand = Signal(form.exponent_bits), Signal(form.digits)
    m.d.comb += [exponent.eq(Mux(field == 0, 1, field)), significand.eq(Cat(fraction, field != 0))]
    return Unpacked(number[form.bits - 1], exponent, significand)


def leading_zeros(m: Module, value: Value) -> Value:
    """Zeros before the first one of a number that has one, by a tree of halves."""
    width = 1 << (len(value) - 1).bit_length()
    nodes: list[tuple[Value, list[Value]]] = [(~bit, []) for bit in reversed(list(value))]
    nodes += [(C(0, 1), [])] * (width - len(value))
    while len(nodes) > 1:
        joined: list[tuple[Value, list[Value]]] = []
        for (none_left, left), (none_right, right) in zip(nodes[::2], nodes[1::2], strict=True):
            # kept in signals: an expression that is used twice is computed twice
            count, none = Signal(len(left) + 1), Signal()
            m.d.comb += none.eq(none_left & none_right)
            m.d.comb += count.eq(Cat(*(Mux(none_left, b, a) for a, b in zip(left, right, strict=True)), none_left))
            joined.append((none, list(count)))
        nodes = joined
    return Cat(*nodes[0][1])


def named(m: Module, name: str, value: Value) -> Signal:
    """A value as a signal that is exactly as wide: a wider one would be made of its own sign, which looks circular."""
    signal = Signal(value.shape(), name=name)
    m.d.comb += signal.eq(value)
    return signal


def rounded(m: Module, form: Format, magnitude: Value, exponent: Value, sign: Value) -> Value:
    """The number nearest to magnitude * 2^exponent; below its lowest bit there is nothing but what that bit stands for.

    The magnitude is wide enough that its highest bit is above the largest subnormal number at every exponent.
    """
    width = len(magnitude)
    zeros = Signal(range(width + 1))
    m.d.comb += zeros.eq(leading_zeros(m, magnitude))
    room, shift = Signal(Shape(len(exponent) + 1)), Signal(range(width + 1))
    m.d.comb += [room.eq(exponent + (width - 1 + form.bias - 1)), shift.eq(Mux(zeros > room, room, zeros))]
    moved, field = Signal(width), Signal(signed(len(exponent) + 2))
    m.d.comb += [moved.eq(magnitude << shift), field.eq(exponent + (width - 1 + form.bias) - shift)]
    kept, rest = moved[width - form.digits :], moved[: width - form.digits]
    up, packed = Signal(), Signal(form.bits)
    m.d.comb += up.eq(rest[-1] & (rest[:-1].any() | kept[0]))
    # a carry out of the fraction raises the exponent, as it should
    exponent_field = Mux(kept[-1], field, 0)[: form.exponent_bits + 1]
    m.d.comb += packed.eq(Cat(kept[:-1], exponent_field) + up)
    limit = 2**form.exponent_bits - 1
    over = (packed[form.fraction_bits :] >= limit) | (kept[-1] & (field >= limit))
    return Cat(Mux(over, form.largest, packed)[: form.bits - 1], sign)
