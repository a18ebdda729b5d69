"""Heads of single precision, of which long ones have kernels of their own on Hopper, and of more than 256 columns."""

import pytest
import torch
from tests.kernels.test_scores import definition

from attenio import attention

# What they may be off by, by norm: results of 16 bits are rounded, those of fp32 as sums of so many numbers are.
UNITS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
SINGLE = [(8, 8), (16, 24), (24, 16), (32, 32), (64, 16), (72, 72), (128, 64), (128, 136), (264, 264), (320, 128)]
WIDE = [(264, 264), (280, 280), (320, 320), (384, 384), (392, 392), (512, 512), (320, 128), (64, 264), (128, 384)]


@pytest.mark.parametrize(
    ("d", "width", "dtype"),
    [(*widths, torch.float32) for widths in SINGLE]
    + [(*widths, dtype) for widths in WIDE for dtype in (torch.bfloat16, torch.float16)],
)
@pytest.mark.parametrize("case", [{"is_causal": True}, {"softcap": 5.0}])
def test_outputs_and_gradients_are_those_of_the_definition(d, width, dtype, case):
    n = 333
    given = [torch.randn(2, heads, n, columns).to(dtype) for heads, columns in ((4, d), (2, d), (2, width))]
    weights = torch.randn(2, 4, n, width).to("cuda", torch.float64)
    q, k, v = (x.cuda().requires_grad_() for x in given)
    output = attention(q, k, v, enable_gqa=True, **case)
    found = output, *torch.autograd.grad((output.double() * weights).sum(), (q, k, v))
    q, k, v = (x.to("cuda", torch.float64).requires_grad_() for x in given)
    bias = torch.ones(n, n, dtype=torch.bool).tril().log().double().cuda() if "is_causal" in case else None
    output, _ = definition(q, k, v, bias=bias, softcap=case.get("softcap"))
    exact = output, *torch.autograd.grad((output * weights).sum(), (q, k, v))
    for mine, theirs in zip(found, exact, strict=True):
        assert float((mine.double() - theirs).norm()) <= UNITS[dtype] * float(theirs.norm())


def test_errors_of_single_precision_do_not_grow_with_the_number_of_tiles():
    """Tensor cores cut sums and do not round them: added up over tiles, errors would be 30 times as large."""
    q, k, v = (torch.randn(1, 2, 16384, 64, device="cuda") for _ in range(3))
    exact, _ = definition(*(x[:, :, -512:].double() if x is q else x.double() for x in (q, k, v)))
    found = attention(q, k, v)[:, :, -512:].double()
    assert float((found - exact).norm()) <= 1.5e-6 * float(exact.norm())


@pytest.mark.parametrize(("d", "width"), [(32, 64), (64, 64), (128, 128), (100, 192), (256, 256)])
@pytest.mark.parametrize("case", [{}, {"is_causal": True}, {"window": 1030}])
def test_long_heads_of_single_precision_are_those_of_the_definition(d, width, case):
    """Long enough that parts of them are made before the kernels run, where these are Hopper's."""
    n = 1100
    given = [torch.randn(2, heads, n, columns, device="cuda") for heads, columns in ((4, d), (2, d), (2, width))]
    weights = torch.randn(2, 4, n, width, device="cuda")
    q, k, v = (x.clone().requires_grad_() for x in given)
    output = attention(q, k, v, enable_gqa=True, **case)
    found = output, *torch.autograd.grad(output, (q, k, v), weights)
    q, k, v = (x.double().requires_grad_() for x in given)
    i, j = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")
    seen = (j <= i) & (j > i - case.get("window", n)) if case else i + j >= 0
    output, _ = definition(q, k, v, bias=seen.double().log(), softcap=None)
    exact = output, *torch.autograd.grad(output, (q, k, v), weights.double())
    for mine, theirs in zip(found, exact, strict=True):
        assert float((mine.double() - theirs).norm()) <= UNITS[torch.float32] * float(theirs.norm())
