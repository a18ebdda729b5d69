"""The enclosure holds every value of p(x) e^(-x), checked with exact fractions; and it is tight."""

import math
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation.enclosure import enclosure

coefficients = st.lists(st.floats(-2, 2), min_size=1, max_size=5)
ends = st.tuples(st.floats(-4, 4), st.floats(0, 3))


def value(given: list[float], x: float) -> Fraction:
    """p(x) e^(-x) with 80 digits; the polynomial itself exactly."""
    at = Fraction(x)
    exact = sum((Fraction(c) * at**k for k, c in enumerate(given)), Fraction(0))
    return exact * Fraction(Decimal(-x).exp(Context(prec=80)))


@settings(max_examples=12, deadline=None)
@given(coefficients, ends, st.floats(0, 1))
def test_no_value_lies_outside(given: list[float], end: tuple[float, float], share: float) -> None:
    low, high = end[0], end[0] + end[1]
    x = min(max(low + share * (high - low), low), high)
    least, largest = enclosure(given, low, high)
    assert Fraction(least) <= value(given, x) <= Fraction(largest)


@settings(max_examples=8, deadline=None)
@given(coefficients, ends)
def test_it_is_within_a_hundredth_of_the_range_that_a_grid_finds(given: list[float], end: tuple[float, float]) -> None:
    low, high = end[0], end[0] + end[1]
    least, largest = enclosure(given, low, high)
    grid = [float(value(given, low + (high - low) * i / 64)) for i in range(65)]
    spread = max(grid) - min(grid)
    assert min(grid) - least <= 0.01 * spread + 1e-12 * (1 + abs(least))
    assert largest - max(grid) <= 0.01 * spread + 1e-12 * (1 + abs(largest))


@pytest.mark.parametrize("degree", [8, 20, 24, 32])
def test_terms_that_cancel_beyond_all_digits_are_enclosed(degree: int) -> None:
    powers = [float(math.comb(degree, k) * (-1) ** (degree - k)) for k in range(degree + 1)]  # of (x - 1)^degree
    least, largest = enclosure(powers, 0.99, 1.01)
    for x in (0.99, 0.995, 1.0, 1.01):
        assert Fraction(least) <= value(powers, x) <= Fraction(largest)
