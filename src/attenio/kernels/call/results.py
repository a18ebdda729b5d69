"""What kernels return, and what a backward pass begins with."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

LOG2_E = math.log2(math.e)


class Attended(NamedTuple):
    """Output (batch, KV heads, group, queries, width), largest score (in log2) and sum of weights of every row.

    Both, rather than one log-sum-exp: next to scores of 1e8 a sum of a few weights would be lost in it.
    """

    output: Tensor
    largest: Tensor
    total: Tensor


class Saved(NamedTuple):
    """What the forward pass left, and the gradient of its output; all (batch, KV heads, group, queries, ...)."""

    output: Tensor
    largest: Tensor
    total: Tensor
    gradient: Tensor


class Gradients(NamedTuple):
    """Gradients of queries (batch, KV heads, group, queries, d), keys, values, and of a bias if it is wanted."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None


def with_sink(largest: Tensor, total: Tensor, sink: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Statistics of rows with one weight more, of a score in log2; and the share that the other weights keep.

    A sink takes weight and gives nothing: outputs shrink by this share, and gradients follow from the new statistics as
    they do without one.
    """
    higher = torch.maximum(largest, sink)
    shift = torch.where(higher == -torch.inf, 0.0, higher)
    kept = total * torch.exp2(largest - shift)
    together = kept + torch.exp2(sink - shift)
    return higher, together, kept / torch.where(together == 0.0, 1.0, together)
