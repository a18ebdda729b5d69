"""Shapes and types of what the operators give, for ``torch.compile`` and others that do not compute."""

from typing import Any

import torch
from torch import Tensor

from attenio.kernels.torch_operator.schema import Arguments, BackwardArguments


def fake_results(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Output, largest scores and sums of weights, uninitialised."""
    given = Arguments(*arguments)
    query, rows = given.query, given.query.shape[:-1]
    precision = torch.float64 if query.dtype == torch.float64 else torch.float32
    statistics = (query.new_empty(rows, dtype=precision), query.new_empty(rows, dtype=precision))
    return query.new_empty((*rows, given.value.shape[-1])), *statistics


def fake_gradients(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Those of queries, keys, values, and of the bias (empty unless asked for), uninitialised."""
    given = BackwardArguments(*arguments)
    bias = given.bias
    of_bias = bias.new_empty(bias.shape) if given.with_bias and bias is not None else given.query.new_empty(0)
    return *(tensor.new_empty(tensor.shape) for tensor in (given.query, given.key, given.value)), of_bias
