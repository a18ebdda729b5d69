"""What kernels on a GPU return."""

from typing import NamedTuple

from torch import Tensor


class Attended(NamedTuple):
    """Output (batch, KV heads, group, queries, width), largest score (in log2) and sum of weights of every row."""

    output: Tensor
    largest: Tensor
    total: Tensor


class Gradients(NamedTuple):
    """Gradients of queries (batch, KV heads, group, queries, d), keys, values, and of a bias if it is wanted."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
