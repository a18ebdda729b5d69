"""Gradients on a Hopper GPU: against float64, exact where they can be, and the same bits again."""

import math

import pytest
import torch

from attenio import attention
from attenio.kernels.gluon import backward
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED, Visibility

# Sequences, heads, KV heads, queries, keys, first and last key seen relative to the query.
SHAPES = [
    (1, 1, 1, 128, 128, -UNBOUNDED, UNBOUNDED),
    (2, 4, 4, 512, 512, -UNBOUNDED, 0),
    (1, 4, 2, 300, 333, -UNBOUNDED, UNBOUNDED),
    (2, 6, 2, 333, 300, -UNBOUNDED, 0),
    (1, 2, 1, 500, 100, -100, 0),
    (1, 2, 1, 333, 300, -100, -33),
    (3, 8, 2, 700, 900, -UNBOUNDED, 200),
    (1, 1, 1, 1, 1, -UNBOUNDED, UNBOUNDED),
]
WIDTHS = [(64, 64), (96, 96), (128, 128), (192, 128), (256, 256), (40, 72)]


def problem_of(shape, widths, dtype, *, deterministic=False):
    batch, heads, kv_heads, queries, keys, below, above = shape
    sizes = ((heads, queries, widths[0]), (kv_heads, keys, widths[0]), (kv_heads, keys, widths[1]))
    q, k, v = (torch.randn(batch, *size, device="cuda", dtype=dtype) for size in sizes)
    seen = Visibility(group=heads // kv_heads, below=below, above=above)
    return KernelProblem.of_heads(q, k, v, seen, widths[0] ** -0.5, deterministic=deterministic)


def in_float64(problem, gradient):
    """Output, largest, total, and the three gradients."""
    q, k, v, g = (x.double() for x in (problem.query, problem.key[:, :, None], problem.value[:, :, None], gradient))
    i = torch.arange(problem.queries, device="cuda")[:, None]
    j = torch.arange(problem.keys, device="cuda")[None]
    seen = (j <= i + problem.visible.above) & (j >= i + problem.visible.below)
    scores = (q @ k.mT * problem.scale).masked_fill(~seen, -math.inf)
    largest = scores.amax(-1, keepdim=True).clamp(min=-1e30)
    weights = (scores - largest).exp()
    total = weights.sum(-1, keepdim=True)
    p = weights / torch.where(total == 0, 1.0, total)
    output = p @ v
    slopes = p * (g @ v.mT - (g * output).sum(-1, keepdim=True))
    found = slopes @ k * problem.scale, (slopes.mT @ q * problem.scale).sum(2), (p.mT @ g).sum(2)
    return (output, largest[..., 0] * math.log2(math.e), total[..., 0]), found


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_are_those_of_float64(shape, widths, deterministic):
    for dtype, tolerance in ((torch.bfloat16, 8e-3), (torch.float16, 1e-3)):
        problem = problem_of(shape, widths, dtype, deterministic=deterministic)
        assert backward.supports(problem)
        gradient = torch.randn((*problem.query.shape[:-1], widths[1]), device="cuda", dtype=dtype)
        (output, largest, total), right = in_float64(problem, gradient)
        found = backward.two_pass(problem, (output.to(dtype), largest.float(), total.float(), gradient))
        for mine, theirs in zip(found[:3], right, strict=True):
            error = (mine.double() - theirs).norm()
            assert error <= tolerance * max(theirs.norm(), 1e-6)


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("deterministic", [False, True])
def test_integers_give_exact_gradients(d, deterministic):
    """Weights are all 1/1024 because queries and keys never meet in a column, and no output: every sum is exact."""
    n, half = 1024, d // 2
    torch.manual_seed(0)
    for _ in range(50):
        q, k, v, g = (torch.randint(-2, 3, (1, 4, n, d), device="cuda").to(torch.bfloat16) for _ in range(4))
        q[..., half:], k[..., :half], v[..., 16:] = 0, 0, 0
        problem = KernelProblem.of_heads(q, k, v, Visibility(group=1), 1.0, deterministic=deterministic)
        rows = torch.zeros(1, 4, 1, n, device="cuda")
        saved = (torch.zeros_like(problem.query), rows, torch.full_like(rows, n), g.unflatten(1, (4, 1)))
        found = backward.two_pass(problem, saved)
        slopes = g.double() @ v.double().mT / n
        right = (
            slopes @ k.double(),
            slopes.mT @ q.double(),
            (g.double().sum(2, keepdim=True) / n).expand(1, 4, n, d),
        )
        for mine, theirs in zip(found[:3], right, strict=True):
            assert torch.equal(mine.flatten(1, 2) if mine.dim() == 5 else mine, theirs.to(torch.bfloat16))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_deterministic_gradients_repeat_to_the_bit(d, causal):
    q, k, v, g = (torch.randn(2, 8, 3000, d, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(4))

    def gradients():
        output = attention(q, k, v, is_causal=causal, deterministic=True)
        return torch.autograd.grad(output, (q, k, v), g)

    first = gradients()
    for _ in range(5):
        assert all(torch.equal(x, y) for x, y in zip(first, gradients(), strict=True))


def test_it_runs_in_a_graph_and_on_strides():
    shape = (2, 1000, 8, 128)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))

    def gradients():
        output = attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, deterministic=True)
        return torch.autograd.grad(output.transpose(1, 2).square().sum(), (q, k, v))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        plain = gradients()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = gradients()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(x, y) for x, y in zip(plain, captured, strict=True))
