"""Numbers that grow from round to round are what they are in every round."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.growth import Growing, Listed

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
def test_sums_differences_and_multiples_hold_in_every_round(one: Growing, other: Growing, by: int) -> None:
    for number in ROUNDS:
        assert (one + other).at(number) == one.at(number) + other.at(number)
        assert (one - other).at(number) == one.at(number) - other.at(number)
        assert (one + by).at(number) == one.at(number) + by
        assert one.times(by).at(number) == by * one.at(number)
    assert one - one == Growing(0)


@settings(max_examples=40)
@given(NUMBERS)
def test_rounds_a_period_apart_differ_by_a_constant_and_none_is_below_the_least(number: Growing) -> None:
    values = number.values(np.array(ROUNDS))
    assert values.tolist() == [number.at(each) for each in ROUNDS]
    assert number.least(len(ROUNDS)) <= values.min()
    assert len({number.at(each + number.period) - number.at(each) for each in ROUNDS}) == 1


@given(st.integers(-30, 200), st.integers(-9, 9), st.integers(1, 30))
def test_a_number_is_its_quotient_and_its_rest(first: int, growth: int, by: int) -> None:
    number = Growing(first, growth)
    listed = Listed(number.values(np.array(ROUNDS)))
    for whole, rest in (number.divided(by), listed.divided(by)):
        assert [(whole.at(each), rest.at(each)) for each in ROUNDS] == [divmod(number.at(each), by) for each in ROUNDS]
