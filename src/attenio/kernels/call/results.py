"""What kernels return, and what a backward pass begins with."""

from typing import NamedTuple

from torch import Tensor


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
