"""Launches past Triton's Python and replayed ones give the bits of launches by Triton itself."""

import pytest
import torch

from attenio import attention
from attenio.kernels.replay import set_replay

# Heads, KV heads, queries, keys, width, causal.
CASES = [
    (8, 2, 512, 512, 64, True),
    (4, 4, 300, 512, 128, False),
    (4, 2, 256, 256, 192, True),
    (8, 2, 1, 4096, 128, False),
]


def step(inputs, causal):
    leaves = [x.detach().requires_grad_() for x in inputs[:3]]
    output = attention(*leaves, is_causal=causal, enable_gqa=True, deterministic=True)
    return output.detach(), *torch.autograd.grad(output, leaves, inputs[3])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_the_same_with_replay_off(case):
    heads, kv_heads, queries, keys, d, causal = case
    shapes = ((heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries))
    inputs = [torch.randn(1, *shape, d, device="cuda", dtype=torch.bfloat16) for shape in shapes]
    replayed = [step(inputs, causal) for _ in range(4)]
    set_replay(False)
    try:
        launched = [step(inputs, causal) for _ in range(4)]
    finally:
        set_replay(True)
    for results in (*replayed[1:], *launched, step(inputs, causal)):
        assert all(torch.equal(one, other) for one, other in zip(results, replayed[0], strict=True))
