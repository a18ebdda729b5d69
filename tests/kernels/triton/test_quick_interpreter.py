"""What is made quick in the interpreter gives what Triton gives."""

import numpy as np
import pytest
import triton.language as tl
from tests.kernels import quick_interpreter


@pytest.mark.parametrize("subnormal", [False, True])
def test_numbers_become_bf16_and_fp32_as_triton_makes_them(subnormal):
    every = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    narrow = every if subnormal else np.where(every & 0x7F80 == 0, every & 0x8000, every)
    wide = (narrow.astype(np.uint32) << 16 | every[::-1]).view(np.float32)
    wide = wide if subnormal else np.where(np.abs(wide) < 2.0**-126, np.copysign(np.float32(0), wide), wide)
    for numbers, types in ((narrow, (tl.bfloat16, tl.float32)), (wide[:, ::2], (tl.float32, tl.bfloat16))):
        quick = quick_interpreter._convert_float(numbers, *types, None)
        plain = quick_interpreter._bit_by_bit(numbers, *types, None)
        assert quick.dtype == plain.dtype
        np.testing.assert_array_equal(quick, plain)


@pytest.mark.parametrize("element", [tl.float32, tl.int1, tl.pointer_type(tl.bfloat16), tl.pointer_type(tl.int8, 3)])
def test_a_type_that_was_made_before_is_the_one_that_triton_makes(element):
    for _ in range(2):
        for shape in ([16], [4, 8], tl.tuple([tl.constexpr(8), 4])):
            quick, plain = tl.block_type(element, shape), tl.block_type.__new__(tl.block_type)
            quick_interpreter._make_type(plain, element, shape)
            assert quick == plain
            assert (quick.element_ty, str(quick), quick.numel) == (element, str(plain), plain.numel)
            value = tl.tensor(None, quick)
            assert [length.value for length in value.shape] == list(plain.shape.values)
            assert (value.numel.value, value.dtype) == (plain.numel, element)
