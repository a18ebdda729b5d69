"""dQ in fixed point: sums of integers do not depend on their order.

Blocks add their parts of dQ in any order. Sums of floating-point numbers then differ in their last bits from run to
run, those of integers do not. So every part is multiplied with a fixed-point scale of its row and rounded before it is
added. The scale is so small that no row can reach 2^31:

    |dQ_ic| / scale = |sum_j P_ij (dP_ij - D_i) K_jc|                     with  P_ij >= 0,  sum_j P_ij = 1
                   <= sum_j P_ij (|dO_i| |V_j| + |D_i|) max_c |K_jc|
                   <= |dO_i| max_j (|V_j| max_c |K_jc|) + |D_i| max_jc |K_jc|

and so is every sum of some of the terms. The scale is the largest power of two that maps 1.5 times as much to 2^31 at
most: half as much again for what rounding adds to P and dS, and a power so that what is exact stays exact. The two
maxima are those of a batch x KV head: ``maxima_kernel`` computes them in one pass over K and V, which the gradients of
that head then find in L2, if launches follow each other.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.arguments import common_factor
from attenio.kernels.replay.launches import launch_specialized
from attenio.kernels.triton.visible import aligned

# Programs of a head that look for its maxima, and keys that each polls at once.
_PARTS, _KEYS = 64, 64

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
    longest = tl.where(largest < _TINY, _TINY, largest)
    parts = vectors / longest[:, None]
    return longest * tl.sqrt(tl.sum(parts * parts, 1))


# Another length, batch or number of heads runs what is compiled: of strides only what divides them is known.
_ANY_NUMBER = ["k_b", "k_h", "k_n", "v_b", "v_h", "v_n", "kv_heads", "keys", "keys_per_part", "first_head"]


@triton.jit(do_not_specialize=_ANY_NUMBER)
def maxima_kernel(
    K, V, MaximaBits, k_b, k_h, k_n, v_b, v_h, v_n, kv_heads, keys, keys_per_part, first_head,
    KEYS: tl.constexpr, PARTS: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
    ALIGN: tl.constexpr,
):  # fmt: skip
    """A program takes ``keys_per_part`` keys of a head, and writes max |V_j| max_c |K_jc| and max |K_jc|."""
    k_b, k_h, k_n = aligned((k_b, k_h, k_n), ALIGN)
    v_b, v_h, v_n = aligned((v_b, v_h, v_n), ALIGN)
    part, batch_head = tl.program_id(0) % PARTS, (first_head + tl.program_id(0) // PARTS).to(tl.int64)
    K += batch_head // kv_heads * k_b + batch_head % kv_heads * k_h
    V += batch_head // kv_heads * v_b + batch_head % kv_heads * v_h
    columns = tl.arange(0, PADDED)[None, :]
    # The product of two may be too small for fp32, with a gradient that is large enough.
    product, largest = tl.full([KEYS], _TINY_BITS, tl.int32), tl.zeros([KEYS], tl.int32)
    for first in range(part * keys_per_part, tl.minimum(part * keys_per_part + keys_per_part, keys), KEYS):
        rows = first + tl.arange(0, KEYS).to(tl.int64)[:, None]
        k = tl.load(K + rows * k_n + columns, mask=(rows < keys) & (columns < D), other=0.0)
        v = tl.load(V + rows * v_n + columns, mask=(rows < keys) & (columns < WIDTH), other=0.0)
        of_key = tl.max(_bits(k.to(tl.float32)), 1)
        product = tl.maximum(product, _bits(_number(of_key) * _norm(v.to(tl.float32))))
        largest = tl.maximum(largest, of_key)
    at = MaximaBits + (batch_head * PARTS + part) * 2
    tl.store(at, tl.max(product, 0))
    tl.store(at + 1, tl.max(largest, 0))


@triton.jit
def fixed_point_scale(gradient, delta, MaximaBits, batch_head, PARTS: tl.constexpr):
    """For rows with these gradients of their output; NaN where they have no bound, as they will be."""
    at = MaximaBits + (batch_head * PARTS + tl.arange(0, PARTS)) * 2
    product, largest = _number(tl.max(tl.load(at), 0)), _number(tl.max(tl.load(at + 1), 0))
    most = _norm(gradient) * product + tl.abs(delta) * largest
    factor = tl.where(most < 2.0**-70, 2.0**100, 2.0**31 / 1.5 / most)
    return tl.where(most < float("inf"), _number(_bits(factor) & 0x7F800000), float("nan"))


class Maxima(NamedTuple):
    """Those of every batch x KV head, as the bits of two numbers for each part of its keys."""

    key: Tensor
    value: Tensor
    bits: Tensor

    @classmethod
    def of(cls, problem: KernelProblem) -> "Maxima":
        """With room for them."""
        key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (problem.key, problem.value))
        batch_heads = problem.batch * problem.kv_heads
        return cls(key, value, torch.empty(batch_heads, _PARTS, 2, dtype=torch.int32, device=key.device))

    def compute(self, batch_heads: range) -> None:
        """Of some batch x KV heads."""
        key, value = self.key, self.value
        (_, kv_heads, keys, d), width = key.shape, value.shape[-1]
        launch_specialized(
            maxima_kernel, len(batch_heads) * _PARTS, (
                key, value, self.bits, *key.stride()[:3], *value.stride()[:3], kv_heads, keys,
                -(-keys // (_PARTS * _KEYS)) * _KEYS, batch_heads.start,
            ), (_KEYS, _PARTS, d, width, max(16, 1 << (max(d, width) - 1).bit_length()), common_factor(key, value)),
        )  # fmt: skip


def fixed_point_suffices(problem: KernelProblem) -> bool:
    """Whether rounding to fixed point is lost in the rounding of gradients to their type, with some reserve for
    outliers.

    Every 128 keys add half a unit in the last place at most, and a random row of dQ shrinks by the root of their
    number: at 8,192 keys it is off by 7e-6 of its norm, in proportion to keys. Rounding costs bf16 2.3e-3 and fp16
    2.9e-4. Keys of a large product |V_j| max |K_j| that a row hardly sees make its scale smaller than need be, by so
    much as they stand out.
    """
    visible = problem.visible
    passing = min(problem.keys, visible.above - visible.below + 1)
    return passing <= (2**16 if problem.query.dtype == torch.bfloat16 else 2**13)
