"""Approximate attention on the CPU: the runner of ``attenio.approximation``, as a backend."""

import torch
from torch import Tensor

from attenio.approximation.polynomials import Kind
from attenio.approximation.running.attention import centre_as_function
from attenio.approximation.running.formula import Formula
from attenio.approximation.running.function import PolynomialAttention
from attenio.approximation.running.tensors import certificate_of, reach_of, sum_length, terms_for
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.promise import Promise, on_grid


def promise_for(problem: KernelProblem, tolerance: float, *, causal: bool) -> Promise:
    """The certificate of these data, which may say to use exact; InvalidInput where they have none."""
    queries, keys, values = stacked_heads(problem)
    with torch.no_grad():
        reach = reach_of(queries.flatten(1, 2), keys, scale=problem.scale, centre=True, dtype=problem.precision)
        reach = on_grid(reach)
        terms = terms_for(tolerance, Kind.MINIMAX, values.dtype, causal=causal)
        return Promise(certificate=certificate_of(reach, values, terms, d=queries.shape[-1]), reach=reach)


def approximate_operations(problem: KernelProblem, degree: int, *, causal: bool) -> int:
    """Multiplications and additions of a run: features, their products with [1, V] or the state, and causal tiles."""
    d, width = int(problem.query.shape[-1]), int(problem.value.shape[-1])
    formula = Formula(coefficients=(1.0,) * (degree + 1), d=d, scale=problem.scale, causal=causal)
    rows = problem.keys + problem.group * problem.queries
    count = rows * formula.monomials.count * (2 * width + 3)
    if causal:
        tile, _ = formula.tiles(problem.group)
        count += 2 * problem.group * problem.queries * min(tile, problem.queries) * (d + degree + width + 1)
    return problem.batch * problem.kv_heads * count


def attend_by_features(problem: KernelProblem, promise: Promise, *, causal: bool) -> Tensor:
    """Output (batch, KV heads, group, queries, width) within the certificate."""
    queries, keys, values = stacked_heads(problem)
    centre = promise.reach.centre
    if centre is not None:
        centre = centre_as_function(keys, centre)
    polynomial = promise.certificate.polynomial
    assert polynomial is not None
    formula = Formula(
        coefficients=polynomial.coefficients, d=int(problem.query.shape[-1]), scale=problem.scale, causal=causal,
        sum_length=sum_length(promise.certificate),
    )  # fmt: skip
    output: Tensor = PolynomialAttention.apply(queries, keys, values, centre, promise.reach.balance, formula)
    return output.unflatten(0, problem.query.shape[:2])


def stacked_heads(problem: KernelProblem) -> tuple[Tensor, Tensor, Tensor]:
    """One KV head after the other, with the group of query heads that share it."""
    return problem.query.flatten(0, 1), problem.key.flatten(0, 1), problem.value.flatten(0, 1)
