"""A call as its arguments say it, checked and brought to four dimensions, and the problem that kernels see."""

import math
from typing import NamedTuple

from torch import Tensor

from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.checks import batch_of, check_prefix, check_switches, check_tensors, checked_scale, heads_of
from attenio.kernels.call.dropout import Dropout
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility


class Call(NamedTuple):
    """A call brought to four dimensions: (batch, heads, tokens, width), and what may be seen."""

    query: Tensor
    key: Tensor
    value: Tensor
    visible: Visibility
    scale: float
    shape: tuple[int, ...]


def call_of(query: Tensor, key: Tensor, value: Tensor, asked: CallArguments) -> Call:
    """Check a call, and bring it to four dimensions."""
    check_switches(is_causal=asked.is_causal, enable_gqa=asked.enable_gqa)
    check_tensors(query, key, value, asked.attn_mask, enable_gqa=asked.enable_gqa, dropout_p=asked.dropout_p)
    if asked.prefix is not None:
        check_prefix(asked.prefix, key.shape[-2])
    batch = batch_of(query, key, value)
    heads, key_heads, value_heads = heads_of(query, key, value)
    if not asked.enable_gqa:  # one head of keys may serve all, by broadcasting, as in matmul
        heads = max(heads, key_heads, value_heads)
        key_heads = key_heads if value.dim() > 2 and value_heads == key_heads else heads
    four_query, four_key, four_value = (
        _four(tensor, batch, count) for tensor, count in ((query, heads), (key, key_heads), (value, key_heads))
    )
    visible = visibility_of(four_query, four_key, asked, batch)
    factor = checked_scale(asked.scale, query.shape[-1])
    lead = (*batch, heads) if max(query.dim(), key.dim(), value.dim()) > 2 else ()
    return Call(four_query, four_key, four_value, visible, factor, (*lead, query.shape[-2], value.shape[-1]))


def problem_of(call: Call, prefix: int | None, dropout_p: float) -> KernelProblem:
    """A call as kernels see it, its dropout without a seed yet."""
    dropout = Dropout(probability=dropout_p, seed=0) if dropout_p > 0.0 else None
    return KernelProblem.of_heads(
        call.query, call.key, call.value, call.visible, call.scale, prefix=prefix or 0, dropout=dropout
    )


def _four(tensor: Tensor, batch: tuple[int, ...], heads: int) -> Tensor:
    """(..., tokens, width) as (batch, heads, tokens, width), without a copy where it has four dimensions."""
    if tensor.dim() == 4 and tensor.shape[:2] == (*batch, heads):
        return tensor
    whole = tensor.expand(*batch, heads, *tensor.shape[-2:])
    return whole.reshape(math.prod(batch), heads, *tensor.shape[-2:])
