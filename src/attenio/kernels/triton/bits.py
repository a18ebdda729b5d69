"""Keys and values of 8 bits as half precision, exactly: e4m3 numbers and 8-bit integers.

A GPU has few conversions a cycle, so they are counted: PTX takes four bytes of a register at once, where there is a GPU
to compile for. What runs elsewhere is written in Triton, one byte at a time.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

# 0x6400 | u is 1024 + u in half precision: the bits of u + 128 beside 0x64, less 1152, are the integer u.
_INTEGERS = (
    ".reg .b32 x, l, h, c; xor.b32 x, $2, 0x80808080; mov.b32 c, 0x64646464; prmt.b32 l, x, c, {low};"
    " prmt.b32 h, x, c, {high}; mov.b32 c, 0x64806480; sub.rn.f16x2 $0, l, c; sub.rn.f16x2 $1, h, c;"
)
_NEIGHBOURS = tl.constexpr("{ " + _INTEGERS.format(low="0x4140", high="0x4342") + " }")
_PAIRS_OF_INTEGERS = tl.constexpr("{ " + _INTEGERS.format(low="0x4240", high="0x4341") + " }")
_PAIRS_OF_E4M3 = tl.constexpr(
    "{ .reg .b32 x; .reg .b16 l, h; prmt.b32 x, $2, 0, 0x3120; mov.b32 {l, h}, x; cvt.rn.f16x2.e4m3x2 $0, l;"
    " cvt.rn.f16x2.e4m3x2 $1, h; }"
)


@triton.jit
def halves(byte, FLOATS: tl.constexpr, PTX: tl.constexpr):
    """Bytes as half precision: 2^-8 times an e4m3 number, or an 8-bit integer."""
    if PTX and not FLOATS:
        return tl.inline_asm_elementwise(_NEIGHBOURS, "=r,=r,r", [byte], dtype=tl.float16, is_pure=True, pack=4)
    return _half(byte.to(tl.int16), FLOATS)


@triton.jit
def halves_of_pairs(pairs, FLOATS: tl.constexpr, PTX: tl.constexpr):
    """The low and the high bytes of 16-bit integers as half precision; e4m3 numbers times 2^-8 unless by PTX."""
    both: tl.constexpr = (tl.float16, tl.float16)
    if PTX and FLOATS:
        return tl.inline_asm_elementwise(_PAIRS_OF_E4M3, "=r,=r,r", [pairs], dtype=both, is_pure=True, pack=2)
    if PTX:
        return tl.inline_asm_elementwise(_PAIRS_OF_INTEGERS, "=r,=r,r", [pairs], dtype=both, is_pure=True, pack=2)
    return _half(pairs & 0xFF, FLOATS), _half((pairs >> 8) & 0xFF, FLOATS)


@triton.jit
def _half(byte, FLOATS: tl.constexpr):
    """Bytes in 16-bit integers as half precision; exponents of e4m3 and of half precision differ by 8."""
    if FLOATS:
        return (((byte & 0x80) << 8) | ((byte & 0x7F) << 7)).to(tl.float16, bitcast=True)
    return ((byte ^ 0x80) | 0x6400).to(tl.float16, bitcast=True) - 1152.0
