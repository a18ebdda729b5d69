"""Laws of the floating-point units, in Amaranth's simulator: every word is that of exact arithmetic, rounded once."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat
from amaranth.sim import Simulator
from numpy.typing import NDArray

from attenio.accelerator.functional.exponential import exponential
from attenio.accelerator.rtl.arithmetic.add import Add
from attenio.accelerator.rtl.arithmetic.divide import Divide
from attenio.accelerator.rtl.arithmetic.exponential import Exponential
from attenio.accelerator.rtl.arithmetic.floats import HALF, Format
from attenio.accelerator.rtl.arithmetic.maximum import Maximum
from attenio.accelerator.rtl.arithmetic.multiply import Multiply
from attenio.accelerator.rtl.arithmetic.multiply_add import MultiplyAdd

TINY = Format(exponent_bits=2, fraction_bits=1)
SAMPLES = 120


def results(unit: Any, inputs: Sequence[str], given: Sequence[tuple[int, ...]]) -> list[int]:
    """What a unit without registers gives for each of many inputs."""
    packed, found = Cat(*(getattr(unit, name) for name in inputs)), []
    bits = len(getattr(unit, inputs[0]))

    async def bench(ctx: Any) -> None:
        for numbers in given:
            ctx.set(packed, sum(number << bits * at for at, number in enumerate(numbers)))
            found.append(ctx.get(unit.result))

    simulator = Simulator(unit)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def value(form: Format, code: int) -> Fraction:
    field, fraction = code >> form.fraction_bits & (1 << form.exponent_bits) - 1, code & (1 << form.fraction_bits) - 1
    significand = fraction + ((1 << form.fraction_bits) if field else 0)
    size = Fraction(significand) * Fraction(2) ** (max(field, 1) - form.bias - form.fraction_bits)
    return -size if code >> form.bits - 1 else size


def nearest(form: Format, exact: Fraction, zero_sign: int) -> int:
    """The code nearest to an exact number, ties to even, by comparing with every code of a sign."""
    sign = int(exact < 0) if exact else zero_sign
    size = min(abs(exact), value(form, form.largest))
    low, high = 0, form.largest
    while low < high:  # codes of one sign are in the order of their values
        middle = (low + high + 1) // 2
        low, high = (middle, high) if value(form, middle) <= size else (low, middle - 1)
    if low < form.largest:
        below, above = size - value(form, low), value(form, low + 1) - size
        low += above < below or (above == below and low % 2 == 1)
    return low | sign << form.bits - 1


def fused(form: Format, a: int, b: int, c: int) -> int:
    signs = [code >> form.bits - 1 for code in (a, b, c)]
    exact = value(form, a) * value(form, b) + value(form, c)
    vanished = value(form, a) * value(form, b) == 0 and value(form, c) == 0
    return nearest(form, exact, (signs[0] ^ signs[1]) & signs[2] if vanished else 0)


def drawn(seed: int, count: int) -> NDArray[np.uint16]:
    """Codes of all sizes, of numbers near one, and of subnormal numbers, with either sign."""
    rng = np.random.default_rng(seed)
    codes = np.stack(
        [
            rng.integers(0, 0x7C00, count),
            rng.normal(size=count).astype(np.float16).view(np.uint16),
            rng.integers(0, 2048, count),
        ]
    )
    signs = rng.integers(0, 2, count) << 15
    return (codes[rng.integers(0, 3, count), np.arange(count)] ^ signs).astype(np.uint16)


def test_a_multiply_add_of_few_bits_rounds_every_triple_once() -> None:
    finite = [code for code in range(1 << TINY.bits) if (code & TINY.largest | code) & 0b111 <= TINY.largest]
    assert len(finite) == 12
    triples = list(product(finite, repeat=3))
    assert results(MultiplyAdd(TINY), "abc", triples) == [fused(TINY, *each) for each in triples]


def test_a_multiply_add_of_half_precision_is_that_of_exact_rationals() -> None:
    a, b, c = (drawn(seed, SAMPLES).tolist() for seed in range(3))
    # sums that nearly vanish
    for at in range(0, SAMPLES, 4):
        c[at] = nearest(HALF, -value(HALF, a[at]) * value(HALF, b[at]), 0)
    triples = list(zip(a, b, c, strict=True))
    assert results(MultiplyAdd(), "abc", triples) == [fused(HALF, *each) for each in triples]


def test_a_hidden_score_stays_hidden() -> None:
    assert results(MultiplyAdd(), "abc", [(0x3C00, 0x3C00, 0xFC00)]) == [0xFC00]
    assert results(Add(), "ab", [(0xFC00, 0x7BFF)]) == [0xFC00]


@pytest.mark.parametrize(
    ("unit", "exact"),
    [
        (Multiply, lambda a, b: (a * b, None)),
        (Add, lambda a, b: (a + b, "both")),
        (Divide, lambda a, b: (a / (b or 1), None)),
    ],
    ids=["product", "sum", "quotient"],
)
def test_a_unit_is_exact_arithmetic_rounded_once(
    unit: Any, exact: Callable[[Fraction, Fraction], tuple[Fraction, str | None]]
) -> None:
    count = SAMPLES // 2
    a, b = drawn(5, count).tolist(), drawn(6, count).tolist()
    if unit is Divide:
        b = [code & 0x7FFF for code in b]  # sums of exponentials; nothing divides by the first
        b[0] = 0
    if unit is Add:
        b[:10] = [code ^ 0x8000 for code in a[:10]]
    pairs = list(zip(a, b, strict=True))
    wanted = []
    for one, other in pairs:
        result, rule = exact(value(HALF, one), value(HALF, other))
        signs = (one >> 15, other >> 15)
        wanted.append(nearest(HALF, result, signs[0] & signs[1] if rule else signs[0] ^ signs[1]))
    assert results(unit(), "ab", pairs) == wanted


def test_the_larger_of_two_numbers_is_taken() -> None:
    codes = [*drawn(7, 40).tolist(), 0xFC00]
    pairs = [(a, b) for a, b in zip(codes, reversed(codes), strict=True) if (a | b) & 0x7FFF]
    floats = np.array(pairs, dtype=np.uint16).view(np.float16)
    assert results(Maximum(), "ab", pairs) == floats.max(axis=1).view(np.uint16).tolist()


def test_an_exponential_is_the_word_of_the_functional_model() -> None:
    codes = np.concatenate([drawn(8, 400) | 0x8000, np.array([0x0000, 0x8000, 0xFC00], dtype=np.uint16)])
    wanted = exponential(codes.view(np.float16)).view(np.uint16).tolist()
    assert results(Exponential(), "x", [(code,) for code in codes.tolist()]) == wanted
