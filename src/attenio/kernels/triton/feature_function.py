"""The feature kernels as a backend and as a function that PyTorch can differentiate."""

from typing import Any

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from attenio.approximation.running.formula import Formula
from attenio.approximation.running.function import PolynomialAttention
from attenio.errors import InvalidInput
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.promise import Promise
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.tensor_cores import approximate_operations as approximate_operations
from attenio.kernels.triton.feature_state import polynomial_sums
from attenio.kernels.triton.sizes import promise_for as promise_for

# Rows of a tile of the gradient: enough to fill a GPU, with features of some 35 MB at d = 64.
_ROWS, _CAUSAL_ROWS = 4096, 1024


def attend_by_features(problem: KernelProblem, promise: Promise, *, causal: bool) -> Tensor:
    """Output (batch, KV heads, group, queries, width) within the certificate."""
    polynomial, reach = promise.certificate.polynomial, promise.reach
    assert polynomial is not None
    inputs = (problem.query, problem.key, problem.value)
    if not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)):
        return _sums(problem, polynomial.coefficients, reach.centre, causal=causal)[0]
    formula = Formula(
        coefficients=polynomial.coefficients, d=int(problem.query.shape[-1]), scale=problem.scale, causal=causal,
        rows=_CAUSAL_ROWS if causal else _ROWS,
    )  # fmt: skip
    queries, keys, values = (tensor.flatten(0, 1) for tensor in inputs)
    centre = reach.centre
    if centre is not None and keys.requires_grad:
        mean = keys.mean(1, keepdim=True, dtype=torch.float32)
        centre = centre + (mean - mean.detach())  # the certificate's number with the mean's gradient
    output: Tensor = FeatureAttention.apply(queries, keys, values, centre, reach.balance.to(queries.device), formula)
    return output.unflatten(0, problem.query.shape[:2])


def _sums(
    problem: KernelProblem,
    coefficients: tuple[float, ...],
    centre: Tensor | None,
    *,
    causal: bool,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    try:
        return polynomial_sums(problem, coefficients, centre, causal=causal, dtype=dtype)
    except OutOfResources as lacking:
        raise InvalidInput(f"use exact: tiles of features do not fit into this GPU ({lacking})") from None


class FeatureAttention(torch.autograd.Function):
    """The kernels forwards; backwards the formula's own gradient, out of PyTorch's products."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, balance: Tensor, formula: Formula
    ) -> Tensor:
        """Query (heads, group, n, d), key and value (heads, m, width)."""
        problem = KernelProblem(
            query=query[:, None], key=key[:, None], value=value[:, None], visible=Visibility(group=query.shape[1]),
            scale=formula.scale,
        )  # fmt: skip
        middle = None if centre is None else centre.contiguous()
        output, below = _sums(problem, formula.coefficients, middle, causal=formula.causal, dtype=torch.float32)
        ctx.save_for_backward(query, key, value, centre, balance, output[:, 0], below[:, 0])
        ctx.formula = formula
        return output[:, 0].to(query.dtype)

    backward = PolynomialAttention.backward
