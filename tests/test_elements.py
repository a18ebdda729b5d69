"""Laws of element types."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.elements import ElementType
from attenio.errors import InvalidInput

laws = settings(deadline=None, derandomize=True, max_examples=20)
types = st.sampled_from(list(ElementType))
# significant bits kept, and the smallest normal exponent
_PRECISION = {
    ElementType.FP32: (24, -126),
    ElementType.FP16: (11, -14),
    ElementType.BF16: (8, -126),
    ElementType.FP8: (4, -6),
}


def test_widths_are_those_of_the_formats() -> None:
    assert {element.value: element.bytes for element in ElementType} == {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


@laws
@given(types, st.floats(-400, 400, width=32))
def test_rounding_errs_by_at_most_half_a_unit_in_the_last_place(element: ElementType, value: float) -> None:
    bits, least = _PRECISION[element]
    exponent = max(int(np.floor(np.log2(abs(value)))) if value else least, least)
    error = abs(float(element.rounded(np.array([value]))[0]) - value)
    assert error <= 2.0 ** (exponent - bits)


@laws
@given(types, st.lists(st.floats(-400, 400, width=32), min_size=1, max_size=8))
def test_rounding_twice_is_rounding_once(element: ElementType, values: list[float]) -> None:
    once = element.rounded(np.array(values))
    assert once.dtype == np.float32
    np.testing.assert_array_equal(element.rounded(once), once)


@pytest.mark.parametrize("element", list(ElementType))
def test_a_type_is_found_by_its_name_in_any_case(element: ElementType) -> None:
    assert ElementType.named(element.value.upper()) is element
    assert ElementType.named(element) is element


@pytest.mark.parametrize("name", ["fp64", "", "int8"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidInput, match="fp32, fp16, bf16, fp8"):
        ElementType.named(name)


def test_overflow_to_infinity_is_quiet_in_half_precision() -> None:
    np.testing.assert_array_equal(ElementType.FP16.rounded(np.array([1e6, -1e6])), [np.inf, -np.inf])


def test_fp8_saturates_where_it_has_no_infinity():
    rounded = ElementType.FP8.rounded(np.array([500.0, -1e30, np.inf, 448.0]))
    assert rounded.tolist() == [448.0, -448.0, 448.0, 448.0]
