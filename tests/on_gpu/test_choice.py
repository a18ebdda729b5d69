"""What is launched on a Hopper GPU is what explain() says, by all kernels, before and after tiles are measured."""

import random

import pytest
import torch
from tests.kernels.launched import random_call, run_and_compare

from attenio import attention, explain

HALF = (torch.bfloat16, torch.float16)


def differentiate(heads, options):
    """A call as it runs first: kernels are compiled, tried beside others, and tiles are measured."""
    q, k, v = (x.detach().requires_grad_() for x in heads)
    output = attention(q, k, v, **options)
    output.backward(torch.ones_like(output))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_explained_before_a_call_and_after_it_is_what_it_launches(seed):
    rng = random.Random(seed)
    for _ in range(3):
        widths, dtypes = ((64, 128, 192), HALF) if rng.random() < 0.9 else ((64,), (torch.float32,))
        heads, options = random_call(rng, device="cuda", dtypes=dtypes, widths=widths, longest=900)
        q, k, v = (x.requires_grad_() for x in heads)
        before = explain(q, k, v, **options)
        differentiate(heads, options)
        after = run_and_compare(heads, options)
        assert (before.choice, before.backward) == (after.choice, after.backward)
        assert after.place.machine.compute_capability == (9, 0)


def test_after_tiles_are_measured_those_are_explained_that_run():
    mask = torch.rand(4096, 4096, device="cuda") < 0.9
    for d, options in ((128, {"is_causal": True}), (64, {"attn_mask": mask})):
        heads = [torch.randn(1, 32, 4096, d, device="cuda").bfloat16() for _ in range(3)]
        differentiate(heads, options)
        run_and_compare(heads, options)
