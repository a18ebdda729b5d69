"""Sinks, caps, log-sum-exps and bottom-right causality on a GPU, by its own kernels and by the portable ones."""

import pytest
import torch
from tests.kernels.test_scores import bottom_right, definition

from attenio import attention

CASES = [
    ((2, 8, 2, 300, 300, 64), {"is_causal": "bottom-right"}),
    ((1, 8, 8, 128, 515, 128), {"is_causal": "bottom-right"}),
    ((1, 4, 4, 200, 200, 96), {}),
    ((1, 4, 2, 77, 190, 256), {"softcap": 2.0}),
    ((2, 16, 2, 1, 3000, 128), {}),
    ((2, 16, 2, 1, 3000, 64), {"softcap": 0.7}),
    ((1, 8, 1, 3, 700, 64), {"is_causal": "bottom-right"}),
    ((1, 2, 2, 5, 1, 64), {}),
]


# In single precision products are compiled for long: some cases, of narrow heads.
SINGLE = (0, 4, 7)


@pytest.mark.parametrize("sunk", [True, False])
@pytest.mark.parametrize(
    ("dtype", "case"),
    [(dtype, case) for dtype in (torch.bfloat16, torch.float16) for case in range(len(CASES))]
    + [(torch.float32, case) for case in SINGLE],
    ids=str,
)
def test_outputs_log_sum_exps_and_gradients_are_those_of_the_definition(case, sunk, dtype):
    torch.manual_seed(case)
    (batch, heads, kv_heads, queries, keys, d), options = CASES[case]
    d = 16 if dtype == torch.float32 else d
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    given = [torch.randn(batch, h, n, d).to(dtype) for h, n in shapes] + ([torch.randn(heads)] if sunk else [])
    found = []
    for exact in (False, True):
        q, k, v, *sinks = (
            x.detach().clone().to("cuda", torch.float64 if exact else x.dtype).requires_grad_() for x in given
        )
        if exact:
            bias = bottom_right(queries, keys).double().cuda() if "is_causal" in options else None
            output, lse = definition(q, k, v, *(sinks or [None]), bias=bias, softcap=options.get("softcap"))
        else:
            more = {"sinks": sinks[0]} if sinks else {}
            output, lse = attention(q, k, v, enable_gqa=True, return_lse=True, **more, **options)
            torch.testing.assert_close(attention(q, k, v, enable_gqa=True, **more, **options), output)
        torch.manual_seed(case)
        weights = [torch.randn(x.shape, dtype=torch.float64).cuda() for x in (output, lse)]
        both = [(x.double() * w).sum() for x, w in zip((output, lse), weights, strict=True)]
        inputs = (q, k, v, *sinks)
        found.append(
            [
                output,
                lse,
                *torch.autograd.grad(both[0], inputs, retain_graph=True),
                *torch.autograd.grad(sum(both), inputs),
            ]
        )
    unit = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float32: 2e-5}[dtype]
    for mine, theirs in zip(*found, strict=True):
        mine, theirs = mine.detach().double(), theirs.detach()
        assert float((mine - theirs).norm()) <= unit * max(1.0, float(theirs.norm()))


def test_training_repeats_with_sinks_and_in_a_graph():
    q, k, v = (torch.randn(1, 8, 256, 128, device="cuda").bfloat16() for _ in range(3))
    sinks = torch.randn(8, device="cuda")
    expected = attention(q, k, v, sinks=sinks, is_causal=True)
    for _ in range(3):
        attention(q, k, v, sinks=sinks, is_causal=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = attention(q, k, v, sinks=sinks, is_causal=True)
    sinks += 1.0
    graph.replay()
    assert not torch.equal(captured, expected)
    torch.testing.assert_close(captured, attention(q, k, v, sinks=sinks, is_causal=True))
