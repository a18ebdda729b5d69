"""Numbers that grow from round to round are what they are in every round."""

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.growth import Growing

ROUNDS = range(40)
NUMBERS = st.builds(
    lambda constant, slope, parts: sum(
        (
            Growing.quotient(first=first, growth=growth, units=units).times(weight)
            for first, growth, units, weight in parts
        ),
        Growing(constant, slope),
    ),
    st.integers(-30, 30),
    st.integers(-3, 3),
    st.lists(st.tuples(st.integers(-20, 40), st.integers(-9, 9), st.integers(1, 9), st.integers(-3, 3)), max_size=3),
)


@given(st.integers(-20, 40), st.integers(-9, 9), st.integers(1, 9))
def test_a_quotient_is_rounded_up_in_every_round(first: int, growth: int, units: int) -> None:
    found = Growing.quotient(first=first, growth=growth, units=units)
    assert [found.at(number) for number in ROUNDS] == [-(-(first + growth * number) // units) for number in ROUNDS]


@given(NUMBERS, NUMBERS, st.integers(-5, 5))
def test_sums_differences_multiples_and_shifts_hold_in_every_round(one: Growing, other: Growing, by: int) -> None:
    for number in ROUNDS:
        assert (one + other).at(number) == one.at(number) + other.at(number)
        assert (one - other).at(number) == one.at(number) - other.at(number)
        assert one.times(by).at(number) == by * one.at(number)
        assert one.later(by).at(number) == one.at(number + by)
    assert one - one == Growing(0)
    assert one.later(by).later(-by) == one


@settings(max_examples=200)
@given(NUMBERS, st.integers(0, 20), st.integers(1, 20))
def test_totals_are_sums_and_bounds_hold(number: Growing, start: int, count: int) -> None:
    values = [number.at(each) for each in range(start, start + count)]
    assert number.total(start, start + count) == sum(values)
    low, high = number.sign_bounds(start, start + count)
    assert low <= min(values) and max(values) <= high
