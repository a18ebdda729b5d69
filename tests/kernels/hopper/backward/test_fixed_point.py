"""dQ accumulators in fixed point: bits that no order changes, no overflow, NaN where there is no bound."""

from dataclasses import replace

import pytest
import torch
from interpreted_backward import FEW_PARTS, interpret

from attenio.kernels import cpu
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.hopper import backward
from attenio.kernels.hopper.backward import fixed_point, key_stationary
from attenio.kernels.hopper.backward.fixed_point import Maxima
from attenio.kernels.hopper.backward.launch_groups import LaunchGroups


@pytest.fixture
def accumulated(monkeypatch):
    """What a launch by the host leaves in its dQ accumulator, with blocks in an order that a seed gives, and the
    gradients."""

    def run(problem, saved, seed=None):
        left = []
        interpret(monkeypatch, shuffled=seed, left=left)
        heads = problem.batch * problem.kv_heads
        found = key_stationary.key_stationary_gradients(problem, saved, LaunchGroups((range(1), range(1, heads)), 1))
        return torch.cat([each.flatten() for each in left]), found

    return run


def heads_of(queries, keys, d, above=UNBOUNDED):
    """Two KV heads with two query heads each, and a gradient."""
    torch.manual_seed(0)
    sizes = (4, queries, d), (2, keys, d), (2, keys, d)
    q, k, v = (torch.randn(1, *size).to(torch.bfloat16) for size in sizes)
    gradient = torch.randn(1, 2, 2, queries, d).to(torch.bfloat16)
    return q, k, v, Visibility(group=2, above=above), gradient


def attended(q, k, v, seen, gradient):
    """The problem, what the forward pass saved of it, and its gradients in float64."""
    scale = q.shape[-1] ** -0.5
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, scale)
    found = cpu.attend(exactly)
    right = cpu.two_pass(exactly, cpu.Saved(*found[:3], gradient.double()))
    problem = KernelProblem.of_heads(q, k, v, seen, scale, deterministic=True)
    return problem, (found.output.to(q.dtype), found.largest.float(), found.total.float(), gradient), right


@pytest.mark.parametrize("queries, keys, d, above", [(130, 300, 64, UNBOUNDED), (100, 300, 128, 190)])
def test_bits_are_those_of_any_order_and_gradients_are_right(accumulated, queries, keys, d, above):
    q, k, v, seen, gradient = heads_of(queries, keys, d, above)
    problem, saved, right = attended(q, k, v, seen, gradient)
    added, found = accumulated(problem, saved)
    again, _ = accumulated(problem, saved, seed=1)
    assert added.dtype == torch.int32 and torch.equal(added, again)
    for mine, theirs in zip(found[:3], right[:3], strict=True):
        assert (mine.double() - theirs).norm() <= 5e-3 * theirs.norm()
    problem = replace(problem, deterministic=False)
    assert not torch.equal(accumulated(problem, saved)[0], accumulated(problem, saved, seed=1)[0])


def test_a_row_that_reaches_its_bound_does_not_overflow_and_is_exact(accumulated):
    q, k, v, seen, gradient = heads_of(128, 256, 64)
    # Half of the keys pull a row up and half push it up, each as far as the length of its gradient allows.
    q.zero_(), gradient.fill_(2.0), k.fill_(3.0), v.fill_(1.0)
    k[:, :, 1::2], v[:, :, 1::2] = -3.0, -1.0
    problem, saved, right = attended(q, k, v, seen, gradient)
    added, found = accumulated(problem, saved)
    # Lengths of 16 and 8, times 3; and the power of two with which that stays below two thirds of 2^31.
    assert (added == 384 * 2**21).all() and 384 * 2**22 > 2**31 / 1.5
    assert torch.equal(found.query.double(), right.query)


def test_rows_without_a_bound_are_nan_and_no_others(accumulated):
    q, k, v, seen, gradient = heads_of(130, 140, 64)
    q[0, 1, 7, 0], gradient[0, 0, 0, 70, 5], v[0, 1, 9, 1] = torch.nan, torch.inf, torch.inf
    problem, saved, _ = attended(q, k, v, seen, gradient)
    found = accumulated(problem, saved)[1].query[0].isnan()
    right = torch.zeros(2, 2, 130, dtype=torch.bool)
    right[0, 1, 7], right[0, 0, 70], right[1] = True, True, True
    assert torch.equal(found.all(-1), right) and torch.equal(found.any(-1), right)


def test_gradients_too_small_to_be_squared_keep_their_digits(accumulated):
    q, k, v, seen, gradient = heads_of(128, 128, 64)
    problem, saved, _ = attended(q, k, v, seen, gradient)
    small = (*saved[:3], gradient * 2.0**-75)
    assert torch.equal(accumulated(problem, small)[1].query, accumulated(problem, saved)[1].query * 2.0**-75)


@pytest.mark.parametrize("keys", [1, 70, 330])
def test_maxima_are_those_of_all_keys(keys, monkeypatch):
    monkeypatch.setattr(fixed_point, "_PARTS", FEW_PARTS)  # of 64 keys at once: some have two rounds, some none
    k, v = torch.randn(2, keys, 3, 40).transpose(1, 2).to(torch.float16), torch.randn(2, 3, keys, 72).to(torch.float16)
    problem = KernelProblem.of_heads(k, k, v, Visibility(group=1), 1.0)
    maxima = Maxima.of(problem)
    maxima.compute(range(4))
    maxima.compute(range(4, 6))
    product, largest = maxima.bits.view(torch.float32).amax(1).view(2, 3, 2).unbind(-1)
    of_keys = k.float().abs().amax(-1)
    assert torch.equal(largest, of_keys.amax(-1))
    torch.testing.assert_close(product, (of_keys * v.float().norm(dim=-1)).amax(-1))


def problem_of(keys, dtype, d=64, below=-UNBOUNDED):
    heads = (torch.empty(1, 2, keys, d, dtype=dtype) for _ in range(3))
    return KernelProblem.of_heads(*heads, Visibility(group=1, below=below, above=0), 1.0, deterministic=True)


@pytest.mark.parametrize("dtype, keys", [(torch.bfloat16, 2**16), (torch.float16, 2**13)])
def test_fixed_point_is_for_as_many_keys_as_their_rounding_allows(dtype, keys):
    assert backward.supports(problem_of(keys, dtype))
    assert backward.supports(problem_of(keys + 1, dtype, below=-1000))
    assert not backward.supports(problem_of(keys + 1, dtype))
    assert backward.supports(problem_of(keys + 1, dtype, d=136))
