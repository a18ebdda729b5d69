"""PyTorch's own fused kernel, where it runs the planned order and tiles of matrix products can gain nothing on it.

It is the same nest as AttenIO's: a tile of queries stays while keys pass. In single precision it computes its products
with the same library; its exponential, inside the kernel, takes half the time of the one that tensors have. It knows
neither stacked groups nor split keys nor prefixes, computes reduced precisions without a fast product, and gives one
thread to each head of a backward pass. So it is called for many rows in single precision, all scores or those of a
top-left causal mask, with short queries and keys (its log-sum-exp would lose a sum next to large scores). Where a
backward pass has fewer heads than threads it is called for runs of rows, a thread each, and what they give to keys and
values is added up in one order.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.choice import note_launch
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.call.visibility import UNBOUNDED, ProblemTile
from attenio.kernels.cpu.online_softmax import Sums
from attenio.kernels.cpu.tiles import cuts, readable, stacked_rows
from attenio.kernels.cpu.workers import run_all


def can_fuse(problem: KernelProblem) -> bool:
    """Whether the fused kernel computes this, apart from the lengths of queries and keys."""
    visible = problem.visible
    data = (visible.first, visible.query_ids, visible.blocks, visible.bias, problem.dropout)
    band = visible.below <= -UNBOUNDED and visible.above in (0, UNBOUNDED)
    plain = problem.query.dtype == torch.float32 and problem.group == 1
    widths = problem.query.shape[-1] == problem.value.shape[-1]
    # It hides scores before it scales them: -inf times a scale of 0 is NaN, and of less than 0 no longer hidden.
    hides = visible.above < UNBOUNDED and problem.scale <= 0.0
    return plain and band and widths and not hides and not problem.softcap and all(given is None for given in data)


def can_fuse_rows(problem: KernelProblem) -> bool:
    """Whether the fused kernel computes stacked rows that see all keys."""
    same = problem.query.shape[-1] == problem.value.shape[-1]
    return bool(problem.query.dtype == torch.float32 and same and not problem.softcap)


def fused(problem: KernelProblem) -> tuple[Tensor, Tensor]:
    """Output and, as a sum of weights, the exponential of its log-sum-exp."""
    note_launch("fused", part=problem.everything)
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *map(readable, (problem.query[:, :, 0], problem.key, problem.value)),
        0.0,
        problem.visible.above == 0,
        attn_mask=None,
        scale=problem.scale,
    )
    return output[:, :, None], torch.exp2(lse * LOG2_E)[:, :, None]


def fused_rows(problem: KernelProblem, part: ProblemTile) -> Sums:
    """The sums of the stacked rows of a part over all its keys: already divided, so that each row's total is 1."""
    note_launch("fused_rows", part=part)
    rows = stacked_rows(problem.query[part.batch, part.heads, :, part.positions], torch.float32)
    key, value = (x[part.batch, part.heads, part.keys].flatten(0, 1) for x in (problem.key, problem.value))
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        rows[None], readable(key)[None], readable(value)[None], 0.0, False, attn_mask=None, scale=problem.scale
    )
    largest = (lse[0] * LOG2_E)[..., None]
    return Sums(output=output[0], largest=largest, total=torch.ones_like(largest), subtracts=True)


def fused_backward(
    problem: KernelProblem, output: Tensor, total: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values."""
    note_launch("fused_backward", part=problem.everything)
    gradient, query, output = map(readable, (gradient[:, :, 0], problem.query[:, :, 0], output[:, :, 0]))
    rows = _FusedRows(gradient, query, output, torch.log2(total[:, :, 0]) / LOG2_E)
    key, value = readable(problem.key), readable(problem.value)
    heads, threads, causal = problem.batch * problem.kv_heads, torch.get_num_threads(), problem.visible.above == 0
    if heads >= threads:
        of_query, of_key, of_value = rows.gradients(key, value, problem.scale, causal=causal)
        return of_query[:, :, None], of_key, of_value
    # Late rows of a causal mask see more: pieces short enough that threads end together.
    pieces = cuts(problem.queries, -(-problem.queries // (4 * threads if causal else -(-threads // heads))))

    def work(piece: slice) -> list[tuple[slice, tuple[Tensor, Tensor, Tensor]]]:
        mine, by_keys = rows.cut(piece), []
        start = min(piece.start, problem.keys) if causal else problem.keys
        for keys, diagonal in ((slice(0, start), False), (slice(start, min(piece.stop, problem.keys)), True)):
            if keys.start < keys.stop:
                given = mine.gradients(key[:, :, keys], value[:, :, keys], problem.scale, causal=diagonal)
                by_keys.append((keys, given))
        return by_keys

    of_query, of_key, of_value = (torch.zeros(x.shape, dtype=torch.float32) for x in (rows.query, key, value))
    for piece, by_keys in zip(pieces[::-1], run_all(work, pieces[::-1]), strict=True):
        for keys, (to_query, to_key, to_value) in by_keys:
            of_query[:, :, piece] += to_query
            of_key[:, :, keys] += to_key
            of_value[:, :, keys] += to_value
    return of_query[:, :, None], of_key, of_value


class _FusedRows(NamedTuple):
    """Rows of all heads as the fused backward pass takes them."""

    gradient: Tensor
    query: Tensor
    output: Tensor
    lse: Tensor

    def cut(self, positions: slice) -> "_FusedRows":
        """Some positions."""
        gradient, query, output, lse = (x[:, :, positions] for x in self)
        return _FusedRows(gradient, query, output, lse.contiguous())

    def gradients(self, key: Tensor, value: Tensor, scale: float, *, causal: bool) -> tuple[Tensor, Tensor, Tensor]:
        """What these rows give to queries, keys and values over some keys."""
        of_rows: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            self.gradient, self.query, key, value, self.output, self.lse, 0.0, causal, attn_mask=None, scale=scale
        )
        return of_rows
