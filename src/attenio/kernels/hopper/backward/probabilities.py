"""P in 16 bits, with the digits that dS needs of it: as accurate as an untiled computation has them.

dV takes P in the type of the heads. From that alone errors of dQ and dK would be up to half as large again. So where
there are registers P is kept in two parts, or shared in fp16, which has three bits more than bf16.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# P is held times 2 to this: fp16 is subnormal below 2^-14, where P of many keys is, and ends at 2^16. So dS of bf16 has
# fewer digits where P is below 2^-28, and vanishes below 2^-38; dV ends at 2^114. The largest P is 1 if fp32 tells
# scores apart. Where these are so large that it does not (2^25), P saturates just below 4: infinite, it would make all
# that it meets NaN, and integer accumulators anything.
SHIFT = gl.constexpr(14)


@gluon.jit
def as_fp16(numbers):
    """Numbers as fp16 has them, saturated: infinite, P would make what it meets NaN."""
    return gl.inline_asm_elementwise(
        "cvt.rn.satfinite.f16x2.f32 $0, $2, $1;", "=r,r,r", [numbers], dtype=gl.float16, is_pure=True, pack=2
    )


@gluon.jit
def rounded(numbers, dtype: gl.constexpr):
    """Numbers as dV takes them, and what dS needs besides: of bf16 the numbers in fp16, of fp16 what is lost, in bf16.

    Neighbours are in one register: as tensors of 16 bits they would not stay in one.
    """
    first, second = numbers.reshape([64, numbers.shape[1] // 2, 2]).split()
    if dtype == gl.bfloat16:
        coarse, fine = gl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $3, $2; cvt.rn.satfinite.f16x2.f32 $1, $3, $2;", "=&r,=r,r,r", [first, second],
            dtype=(gl.int32, gl.int32), is_pure=True, pack=1,
        )  # fmt: skip
    else:
        coarse, fine = gl.inline_asm_elementwise(
            """{
            .reg .b16 low, high;
            .reg .f32 first, second;
            cvt.rn.satfinite.f16x2.f32 $0, $3, $2;
            mov.b32 {low, high}, $0;
            cvt.f32.f16 first, low;
            cvt.f32.f16 second, high;
            sub.f32 first, $2, first;
            sub.f32 second, $3, second;
            cvt.rn.bf16x2.f32 $1, second, first;
            }""", "=&r,=r,r,r", [first, second], dtype=(gl.int32, gl.int32), is_pure=True, pack=1,
        )  # fmt: skip
    return coarse, fine


@gluon.jit
def unpacked(pairs, dtype: gl.constexpr):
    """The numbers of pairs."""
    both = gl.join(pairs.to(gl.int16), (pairs >> 16).to(gl.int16))
    return both.reshape([64, pairs.shape[1] * 2]).to(dtype, bitcast=True)


@gluon.jit
def for_ds(coarse, fine, dtype: gl.constexpr):
    """The numbers that were rounded, with the digits that dS needs."""
    if dtype == gl.bfloat16:
        numbers = unpacked(fine, gl.float16).to(gl.float32)
    else:
        numbers = unpacked(coarse, gl.float16).to(gl.float32) + unpacked(fine, gl.bfloat16).to(gl.float32)
    return numbers
