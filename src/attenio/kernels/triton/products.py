"""Products of tiles in the precision of their entries, on tensor cores also in single precision.

Tensor cores take no fp32. A number of fp32 is the sum of three of bf16, its head, what that leaves, and the rest. Of
the nine products of parts the six largest are taken; what is left out is about 2^-24 of a product, as a rounding is.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl


@triton.jit
def nearest_parts(x):
    """Three numbers of bf16 that sum to one of fp32; where the first is infinite, the others are 0."""
    head = x.to(tl.bfloat16)
    rounded = head.to(tl.float32)
    rest = tl.where(tl.abs(rounded) == float("inf"), 0.0, x - rounded)
    middle = rest.to(tl.bfloat16)
    return head, middle, (rest - middle.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def _cut(x):
    """The leading eight bits of a number of fp32: as large or smaller, with the same sign."""
    return (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def _cut_parts(x):
    """Three numbers of bf16 that sum to one of fp32, all with its sign and none of them 0 unless it is.

    So each times an infinite number is what x times that is, and a sum of them is no NaN.
    """
    head = _cut(x)
    rest = tl.where(tl.abs(head) == float("inf"), 0.0, x - head)
    middle = _cut(rest)
    least, last = head * 2.0**-30, rest - middle
    middle, last = tl.where(middle == 0.0, least, middle), tl.where(last == 0.0, least, last)
    return head.to(tl.bfloat16), middle.to(tl.bfloat16), last.to(tl.bfloat16)


@triton.jit
def _small_products(a, b):
    """All of the six but that of the heads, the smallest first."""
    sums = tl.dot(a[2], b[0])
    sums = tl.dot(a[0], b[2], sums)
    sums = tl.dot(a[1], b[1], sums)
    sums = tl.dot(a[1], b[0], sums)
    return tl.dot(a[0], b[1], sums)


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """a b, of infinite entries too: where a part of one makes a sum infinite or NaN, the heads alone say which."""
    if PRECISION == "bf16x6":
        heads, others = nearest_parts(a), nearest_parts(b)
        small = _small_products(heads, others)
        result = tl.dot(heads[0], others[0], tl.where(tl.abs(small) < float("inf"), small, 0.0))
    else:
        result = tl.dot(a, b, input_precision=PRECISION)
    return result


@triton.jit
def add_product(a, b, sums, PRECISION: tl.constexpr):
    """Sums and a b; where an entry of b is infinite, it is what the sum becomes.

    Tensor cores cut what they add to a sum and do not round it. So the smallest products come first, and what a tile
    gives is added to the sums by an addition that rounds: else an error would grow with the number of tiles.
    """
    if PRECISION == "bf16x6":
        heads, others = _cut_parts(a), nearest_parts(b)
        sums += tl.dot(heads[0], others[0], _small_products(heads, others))
    else:
        sums = tl.dot(a, b, sums, input_precision=PRECISION)
    return sums
