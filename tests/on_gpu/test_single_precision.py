"""Heads of fp32 on a GPU: products of three bf16 numbers for each factor are as exact as those of fp32."""

import pytest
import torch

from attenio import attention


def scores_of(q, k, causal):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    shown = (
        torch.ones(scores.shape[-2:], device="cuda", dtype=torch.bool).tril() if causal else torch.tensor(True).cuda()
    )
    return scores.masked_fill(~shown, -torch.inf)


def results(attend, heads, gradient):
    leaves = [head.detach().requires_grad_() for head in heads]
    output = attend(*leaves)
    return [output, *torch.autograd.grad(output, leaves, gradient)]


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1.0, 30.0, 1e-15])
def test_errors_are_at_most_those_of_an_untiled_computation(d, causal, size):
    """By norm, against float64: of outputs and gradients, for scores of usual size, large ones and none to speak of."""
    drawn = torch.Generator("cuda").manual_seed(0)
    q, k, v, gradient = (torch.randn(2, 3, 300, d, device="cuda", generator=drawn) for _ in range(4))
    heads = q * size, k, v
    exact = results(
        lambda a, b, c: scores_of(a, b, causal).softmax(-1) @ c, [head.double() for head in heads], gradient.double()
    )
    untiled = results(lambda a, b, c: scores_of(a, b, causal).softmax(-1) @ c, heads, gradient)
    ours = results(lambda a, b, c: attention(a, b, c, is_causal=causal), heads, gradient)
    for name, mine, theirs, right in zip(("output", "dQ", "dK", "dV"), ours, untiled, exact, strict=True):
        off, allowed = ((found.double() - right).norm() / right.norm() for found in (mine, theirs))
        assert float(off) <= 1.5 * float(allowed) + 1e-7, name


def test_not_a_number_and_infinity_stay_where_they_are():
    q, k, v = (torch.randn(1, 2, 200, 64, device="cuda") for _ in range(3))
    v[0, 0, 5, 3], v[0, 1, 7, 2] = torch.nan, torch.inf
    found = attention(q, k, v)
    assert found[0, 0, :, 3].isnan().all() and found[0, 1, :, 2].isinf().all()
    found[0, 0, :, 3] = found[0, 1, :, 2] = 0.0
    assert found.isfinite().all()
