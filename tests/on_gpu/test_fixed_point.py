"""Deterministic gradients of narrow heads on a Hopper GPU: the same bits in any order, and NaN where they belong."""

import pytest
import torch

from attenio.kernels import hopper
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.hopper import backward


def heads_of(n, d, above=UNBOUNDED):
    q, k, v, gradient = (torch.randn(1, 8, n, d, device="cuda").to(torch.bfloat16) for _ in range(4))
    problem = KernelProblem.of_heads(q, k, v, Visibility(group=1, above=above), d**-0.5, deterministic=True)
    return problem, gradient[:, :, None]


def query_gradient(problem, gradient):
    return backward.gradients(problem, (*hopper.attend(problem)[:3], gradient)).query


@pytest.mark.parametrize("above", [0, UNBOUNDED])
@pytest.mark.parametrize("d", [64, 128])
def test_bits_are_the_same_beside_other_work(d, above):
    problem, gradient = heads_of(4096, d, above)
    first, beside = query_gradient(problem, gradient), torch.cuda.Stream()
    square = torch.randn(2048, 2048, device="cuda")
    for products in range(10):
        with torch.cuda.stream(beside):
            for _ in range(products):
                square @ square
        assert torch.equal(query_gradient(problem, gradient), first)


@pytest.mark.parametrize("d", [64, 128])
def test_a_row_without_a_bound_is_nan_and_no_other(d):
    problem, gradient = heads_of(512, d)
    problem.query[0, 2, 0, 7, 0] = torch.nan
    gradient[0, 3, 0, 70, 5] = torch.inf
    problem.value[0, 5, 9, 1] = torch.inf
    found = query_gradient(problem, gradient).isnan()[0, :, 0]
    right = torch.zeros(8, 512, dtype=torch.bool, device="cuda")
    right[2, 7], right[3, 70], right[5] = True, True, True
    assert torch.equal(found.all(-1), right) and torch.equal(found.any(-1), right)


def test_small_gradients_keep_their_digits():
    problem, gradient = heads_of(512, 64)
    large = query_gradient(problem, gradient)
    assert torch.equal(query_gradient(problem, gradient * 2.0**-60), large * 2.0**-60)
