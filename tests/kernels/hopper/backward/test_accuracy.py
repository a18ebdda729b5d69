"""Gradients of kernels, interpreted, have the digits of an untiled computation.

Kernels hold some numbers in fewer digits than fp32 where registers are few, which must not show in the gradients.
"""

import math

import pytest
import torch
from interpreted_backward import interpret
from tests.kernels.untiled import assert_right, errors, untiled

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.hopper.backward.config import config_of
from attenio.kernels.hopper.backward.key_stationary import key_stationary_gradients
from attenio.kernels.hopper.backward.launch_groups import LaunchGroups
from attenio.kernels.hopper.backward.spilled_gradients import spilled_gradients

# Tokens, widths of heads and values, whether it is causal, and what the last value is multiplied with.
CASES = {
    "short": (128, 40, 72, False, 1),
    "an outlier": (300, 128, 128, True, 100),
    "an outlier in narrow heads": (300, 64, 64, True, 100),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_as_accurate_as_untiled_ones(case, dtype, monkeypatch):
    n, d, width, causal, factor = CASES[case]
    torch.manual_seed(3)  # of the first few the one where an outlier meets a P of bf16 worst
    q, k, v, gradient = (torch.randn(1, 2, n, size).to(dtype) for size in (d, d, width, width))
    v[:, :, -1] *= factor
    visible = Visibility(group=1, above=0 if causal else UNBOUNDED)
    problem, gradient = KernelProblem.of_heads(q, k, v, visible, d**-0.5), gradient[:, :, None]
    seen = torch.ones(n, n, dtype=torch.bool)
    seen = seen.tril() if causal else seen
    saved, _ = untiled(problem, gradient, seen, dtype)
    left = []
    interpret(monkeypatch, left=left)
    found = key_stationary_gradients(problem, saved, LaunchGroups((range(2),), 1))
    # Triton's interpreter cuts digits off where a GPU rounds to bf16, so dQ accumulators are converted here.
    found = (query_gradient(left[0], problem), *found[1:3])
    assert_right(found, problem, gradient, seen)
    for off, allowed in errors(found, problem, gradient, seen):
        assert off.norm() <= 1.1 * allowed.norm()


@pytest.mark.parametrize("d", [64, 128])
def test_keys_with_weights_of_a_hundred_millionth_have_accurate_gradients(d, monkeypatch):
    torch.manual_seed(3)
    q, k, v, gradient = (torch.randn(1, 1, 128, d) for _ in range(4))
    q[..., 0], k[..., :64, 0], k[..., 64:, 0] = 8.0, 0.0, -20 * math.log(2) * d**0.5 / 8
    q, k, v, gradient = (x.bfloat16() for x in (q, k, v, gradient))
    problem, gradient = KernelProblem.of_heads(q, k, v, Visibility(group=1), d**-0.5), gradient[:, :, None]
    seen = torch.ones(128, 128, dtype=torch.bool)
    saved, _ = untiled(problem, gradient, seen, torch.bfloat16)
    interpret(monkeypatch)
    found = key_stationary_gradients(problem, saved, LaunchGroups((range(1),), 1))
    for off, allowed in list(errors(found[:3], problem, gradient, seen))[1:]:
        assert off[..., 64:, :].norm() <= 1.1 * allowed[..., 64:, :].norm()


@pytest.mark.parametrize("width", [128, 192])
def test_spilled_ds_of_bf16_are_as_accurate_as_untiled_ones(width, monkeypatch):
    torch.manual_seed(3)
    q, k, v, gradient = (torch.randn(1, 2, 300, size).bfloat16() for size in (192, 192, width, width))
    v[:, :, -1] *= 100
    problem = KernelProblem.of_heads(q, k, v, Visibility(group=1, above=0), 192**-0.5)
    gradient, seen = gradient[:, :, None], torch.ones(300, 300, dtype=torch.bool).tril()
    saved, _ = untiled(problem, gradient, seen, torch.bfloat16)
    interpret(monkeypatch)
    found = spilled_gradients(problem, saved)[:3]
    assert_right(found, problem, gradient, seen)
    for off, allowed in errors(found, problem, gradient, seen):
        assert off.norm() <= 1.1 * allowed.norm()


def query_gradient(acc, problem):
    """Of accumulators in tiles of 64 rows as registers hold them: columns by 8, warps, rows, columns by 2, pairs."""
    d = config_of(problem).d
    tiles = acc.view(-1, d // 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6)
    rows = tiles.reshape(problem.kv_heads, -1, d)[:, : problem.queries, : problem.query.shape[-1]]
    return (rows.double() * problem.scale).to(problem.query.dtype).view(problem.query.shape)
