"""Sums that do not depend on their order: shares of dQ as whole numbers of a grain.

Blocks add to dQ in any order. Additions of floating-point numbers then differ in their last bits from run to run, those
of integers do not. So every share is counted in grains before it is added, and a grain is so large that no row can
reach 2^31 of them:

    |dQ_ic| / scale = |sum_j P_ij (dP_ij - D_i) K_jc|                     with  P_ij >= 0,  sum_j P_ij = 1
                   <= sum_j P_ij (|dO_i| |V_j| + |D_i|) max_c |K_jc|
                   <= |dO_i| max_j (|V_j| max_c |K_jc|) + |D_i| max_jc |K_jc|

and so does every sum of some of the terms. A grain is the power of two of which 2^31 are at least 1.5 times as much:
half as much again for what rounding adds to weights and slopes, and a power so that what is exact stays exact.
The two extremes are those of a KV head: ``extremes_kernel`` finds them in one pass over K and V, which the gradients of
that head then find in L2, if launches follow each other.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from attenio.kernels.hopper.launch import launch_specialized
from attenio.kernels.problem import KernelProblem

__all__ = ["Extremes", "extremes_kernel", "fineness_of", "grains_suffice"]

# Programs of a head that look for its extremes, and keys that each looks at once.
_SHARES, _KEYS = 64, 64

# The smallest normal number of fp32, and its bits.
_TINY, _TINY_BITS = tl.constexpr(2.0**-126), tl.constexpr(1 << 23)


@triton.jit
def _bits(numbers):
    """Magnitudes of fp32 numbers as integers of the same order, in which NaN is the largest."""
    return numbers.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def _number(bits):
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _norm(vectors):
    """Lengths of the rows, also where a square would not be a number of fp32."""
    largest = _number(tl.max(_bits(vectors), 1))
    unit = tl.where(largest < _TINY, _TINY, largest)
    parts = vectors / unit[:, None]
    return unit * tl.sqrt(tl.sum(parts * parts, 1))


@triton.jit(do_not_specialize=["first_unit"])
def extremes_kernel(
    K, V, Extremes, k_b, k_h, k_n, v_b, v_h, v_n, kv_heads, keys, share, first_unit,
    KEYS: tl.constexpr, SHARES: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """A program takes ``share`` keys of a head, and leaves two numbers: max |V_j| max_c |K_jc| and max |K_jc|."""
    part, unit = tl.program_id(0) % SHARES, (first_unit + tl.program_id(0) // SHARES).to(tl.int64)
    K += unit // kv_heads * k_b + unit % kv_heads * k_h
    V += unit // kv_heads * v_b + unit % kv_heads * v_h
    columns = tl.arange(0, PADDED)[None, :]
    # The product of two may be too small for fp32, with a gradient that is large enough.
    product, largest = tl.full([KEYS], _TINY_BITS, tl.int32), tl.zeros([KEYS], tl.int32)
    for first in range(part * share, tl.minimum(part * share + share, keys), KEYS):
        rows = first + tl.arange(0, KEYS).to(tl.int64)[:, None]
        k = tl.load(K + rows * k_n + columns, mask=(rows < keys) & (columns < D), other=0.0)
        v = tl.load(V + rows * v_n + columns, mask=(rows < keys) & (columns < WIDTH), other=0.0)
        of_key = tl.max(_bits(k.to(tl.float32)), 1)
        product = tl.maximum(product, _bits(_number(of_key) * _norm(v.to(tl.float32))))
        largest = tl.maximum(largest, of_key)
    at = Extremes + (unit * SHARES + part) * 2
    tl.store(at, tl.max(product, 0))
    tl.store(at + 1, tl.max(largest, 0))


@triton.jit
def fineness_of(gradient, delta, Extremes, unit, SHARES: tl.constexpr):
    """Grains in 1, for rows with these gradients of their output; NaN where they have no bound, as they will be."""
    at = Extremes + (unit * SHARES + tl.arange(0, SHARES)) * 2
    product, largest = _number(tl.max(tl.load(at), 0)), _number(tl.max(tl.load(at + 1), 0))
    most = _norm(gradient) * product + tl.abs(delta) * largest
    fineness = tl.where(most < 2.0**-70, 2.0**100, 2.0**31 / 1.5 / most)
    return tl.where(most < float("inf"), _number(_bits(fineness) & 0x7F800000), float("nan"))


class Extremes(NamedTuple):
    """Those of every KV head, as the bits of two numbers for each share of its keys, once they are found."""

    key: Tensor
    value: Tensor
    found: Tensor

    @classmethod
    def of(cls, problem: KernelProblem) -> "Extremes":
        """With room for what will be found."""
        key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (problem.key, problem.value))
        units = problem.batch * problem.kv_heads
        return cls(key, value, torch.empty(units, _SHARES, 2, dtype=torch.int32, device=key.device))

    def find(self, units: range) -> None:
        """Of some KV heads."""
        key, value = self.key, self.value
        (_, kv_heads, keys, d), width = key.shape, value.shape[-1]
        launch_specialized(
            extremes_kernel, len(units) * _SHARES, (
                key, value, self.found, *key.stride()[:3], *value.stride()[:3], kv_heads, keys,
                -(-keys // (_SHARES * _KEYS)) * _KEYS, units.start,
            ), (_KEYS, _SHARES, d, width, max(16, 1 << (max(d, width) - 1).bit_length())),
        )  # fmt: skip


def grains_suffice(problem: KernelProblem) -> bool:
    """Whether rounding to grains is lost in the rounding of gradients to their type, with some reserve for outliers.

    Every 128 keys add half a grain at most, and a random row of dQ shrinks by the root of their number: at 8,192 keys
    it is off by 7e-6 of its norm, in proportion to keys. Rounding costs bf16 2.3e-3 and fp16 2.9e-4. Keys of a large
    product |V_j| max |K_j| that a row hardly sees make its grain coarser than need be, by so much as they stand out.
    """
    seen = problem.visible
    passing = min(problem.keys, seen.above - seen.below + 1)
    return passing <= (2**16 if problem.query.dtype == torch.bfloat16 else 2**13)
