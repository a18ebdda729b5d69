"""PyTorch's own fused kernel, where it runs the planned order and tiles of matrix products can gain nothing on it.

It is the same nest as AttenIO's: a tile of queries stays while keys pass. In single precision it computes its products
with the same library; its exponential, inside the kernel, takes half the time of the one that tensors have. It knows
neither stacked groups nor split keys nor prefixes, computes reduced precisions without a fast product, and gives one
thread to each head. So it is called for many rows in single precision, all scores or those of a top-left causal mask,
with short queries and keys (its log-sum-exp would lose a sum next to large scores); backward where every thread has
a head.
"""

import torch
from torch import Tensor

from attenio.kernels.cpu.online_softmax import LOG2_E
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED

__all__ = ["can_fuse", "can_fuse_backward", "fused", "fused_backward"]


def can_fuse(problem: KernelProblem) -> bool:
    """Whether the fused kernel computes this, apart from the lengths of queries and keys."""
    visible = problem.visible
    data = (visible.first, visible.query_ids, visible.blocks, visible.bias, problem.dropout)
    band = visible.below <= -UNBOUNDED and visible.above in (0, UNBOUNDED)
    plain = problem.query.dtype == torch.float32 and problem.group == 1
    widths = problem.query.shape[-1] == problem.value.shape[-1]
    return plain and band and widths and all(given is None for given in data)


def can_fuse_backward(problem: KernelProblem, largest: Tensor) -> bool:
    """The same for gradients: scores were short, for nothing was subtracted, and there is a head for every thread."""
    heads = problem.batch * problem.kv_heads
    return can_fuse(problem) and heads >= torch.get_num_threads() and not bool(largest.any())


def fused(problem: KernelProblem) -> tuple[Tensor, Tensor]:
    """Output and, as a sum of weights, the exponential of its log-sum-exp."""
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *_readable(problem.query[:, :, 0], problem.key, problem.value),
        0.0,
        problem.visible.above == 0,
        attn_mask=None,
        scale=problem.scale,
    )
    return output[:, :, None], torch.exp2(lse * LOG2_E)[:, :, None]


def fused_backward(
    problem: KernelProblem, output: Tensor, total: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values."""
    of_query, of_key, of_value = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *_readable(gradient[:, :, 0], problem.query[:, :, 0], problem.key, problem.value, output[:, :, 0]),
        torch.log2(total[:, :, 0]) / LOG2_E,
        0.0,
        problem.visible.above == 0,
        attn_mask=None,
        scale=problem.scale,
    )
    return of_query[:, :, None], of_key, of_value


def _readable(*tensors: Tensor) -> list[Tensor]:
    """The kernel takes rows to be contiguous without asking."""
    return [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]
