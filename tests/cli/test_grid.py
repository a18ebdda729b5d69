"""Laws of options with many numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cli.grid import names, numbers, sizes
from attenio.errors import InvalidInput

laws = settings(deadline=None, derandomize=True, max_examples=20)


@laws
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8, unique=True))
def test_a_list_is_its_numbers_in_order(values: list[int]) -> None:
    assert numbers(", ".join(map(str, values)), "n") == tuple(values)
    with pytest.raises(InvalidInput, match=f"has {values[0]:,} more than once; leave one of them out"):
        numbers(",".join(map(str, values * 2)), "n")


@laws
@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(1, 50))
def test_a_range_of_sums_is_python_s(first: int, span: int, step: int) -> None:
    assert numbers(f"{first}:{first + span}:+{step}", "n") == tuple(range(first, first + span + 1, step))


@laws
@given(st.integers(1, 1000), st.integers(2, 9), st.integers(0, 12))
def test_a_range_of_products_multiplies_and_includes_its_end(first: int, factor: int, count: int) -> None:
    expected = tuple(first * factor**power for power in range(count + 1))
    assert numbers(f"{first}:{expected[-1]}:x{factor}", "n") == expected


@laws
@given(st.integers(1, 100), st.fractions("1.01", 4), st.integers(100, 10**6))
def test_a_fractional_factor_stays_in_range_and_never_repeats(first: int, factor: object, last: int) -> None:
    found = numbers(f"{first}:{last}:x{factor}", "n")
    assert found[0] == first
    assert list(found) == sorted(set(found))
    assert found[-1] <= last


def test_units_work_in_ranges() -> None:
    assert sizes("64KB:256KB:x2", "fast-bytes") == (65536, 131072, 262144)
    assert numbers("1K:3K:+1K,8K", "n") == (1024, 2048, 3072, 8192)


def test_names_are_given_once_and_between_commas() -> None:
    assert (names("a, b", "machine"), names(None, "machine")) == (["a", "b"], [])
    with pytest.raises(InvalidInput, match="machine 'a,b,a' has a more than once; leave one of them out"):
        names("a,b,a", "machine")


@pytest.mark.parametrize("text", ["1,", ",1", "1,,2"])
def test_a_comma_without_a_value_is_said(text: str) -> None:
    for values in (names, numbers, sizes):
        with pytest.raises(InvalidInput, match=f"n '{text}' has a comma without a value beside it; add it, or"):
            values(text, "n")


@pytest.mark.parametrize("factor", ["1", "1.005", "0", "-2", "1e300"])
def test_a_factor_out_of_range_is_told_both_ends_of_it(factor: str) -> None:
    with pytest.raises(InvalidInput, match=f"factor of n is {factor}; give one from 1.01 to 1,099,511,627,776"):
        numbers(f"1:1K:x{factor}", "n")


@pytest.mark.parametrize(
    "text",
    ["", ",", "1,", "a", "1:2", "1:2:3", "1:2:x", "1:2:x1", "1:2:x0", "1:2:x-2", "1:2:xnan", "1:2:x1/0", "2:1:x2",
     "0:5:+1", "1:5:+0", "1:5:+-1", "1:2:3:4", "1:nan:x2", "1:1G:+1", "-5:5:+1"],
)  # fmt: skip
def test_a_range_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        numbers(text, "n")
