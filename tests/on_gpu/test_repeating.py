"""Calls that repeat on a Hopper GPU: recorded launches with other addresses give what the whole call gave."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attenio import attention
from attenio.kernels.replay import repeating

TYPES = [torch.bfloat16, torch.float16]


def drawn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=dtype)


def exact(q, k, v, **options):
    return scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True, **options)


def assert_close(mine, theirs):
    """Within rounding of what was computed exactly, by norm."""
    off = float((mine.double() - theirs).norm() / theirs.norm())
    assert off <= 4 * torch.finfo(mine.dtype).eps, off


def tapes():
    forms = [known for call in repeating._known.values() for known in (call, *call.after.values())]
    return sum(known.tape is not None for known in forms)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, keys, d", [(1, 1000, 128), (3, 700, 64), (256, 256, 128), (200, 333, 96)])
def test_outputs(rows, keys, d, dtype):
    for again in range(5):
        q, k, v = (
            drawn(2, 8, rows, d, dtype=dtype),
            drawn(2, 2, keys, d, dtype=dtype),
            drawn(2, 2, keys, d, dtype=dtype),
        )
        assert_close(attention(q, k, v, enable_gqa=True), exact(q, k, v))
        assert tapes() == (again > 0)


def test_masks_are_data():
    for again in range(5):
        q, k, v = drawn(2, 8, 1, 128), drawn(2, 2, 900, 128), drawn(2, 2, 900, 128)
        mask = torch.rand(2, 1, 1, 900, device="cuda") < 0.5
        mine = attention(q, k, v, attn_mask=mask, enable_gqa=True)
        assert_close(mine, exact(q, k, v, attn_mask=mask))
        assert tapes() == (again > 0)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d, width", [(64, 64), (128, 96), (192, 128), (256, 256)])
def test_gradients(d, width, deterministic):
    for again in range(5):
        sizes = (2, 4, 300, d), (2, 2, 260, d), (2, 2, 260, width)
        leaves = [drawn(*size).requires_grad_() for size in sizes]
        gradient = drawn(2, 300, 4, width).transpose(1, 2)
        output = attention(*leaves, is_causal=True, enable_gqa=True, deterministic=deterministic)
        mine = torch.autograd.grad(output, leaves, gradient)
        wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
        theirs = torch.autograd.grad(exact(*wide, is_causal=True), wide, gradient.double())
        for one, other in zip(mine, theirs, strict=True):
            assert_close(one, other)
        assert tapes() == 2 * (again > 0)


def test_gradients_of_tensors_that_hooks_lay_out_anew():
    for again in range(6):
        leaves = [drawn(2, 300, 4, 64).transpose(1, 2).requires_grad_() for _ in range(3)]
        gradient = drawn(2, 4, 300, 64)
        with torch.autograd.graph.save_on_cpu() if again % 2 else torch.enable_grad():
            output = attention(*leaves)
        mine = torch.autograd.grad(output, leaves, gradient)
        wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
        for one, other in zip(mine, torch.autograd.grad(exact(*wide), wide, gradient.double()), strict=True):
            assert_close(one, other)
    assert tapes() == 3  # of the output, and of gradients either way


def test_tensors_that_are_one_and_the_same_are_told_from_those_that_are_not():
    for again in range(3):
        q = drawn(1, 4, 256, 64)
        assert_close(attention(q, q, q), exact(q, q, q))
        k, v = drawn(1, 4, 256, 64), drawn(1, 4, 256, 64)
        assert_close(attention(q, k, v), exact(q, k, v))
        assert tapes() == 2 * (again > 0)


def test_streams_repeat_their_own_launches_and_graphs_capture_whole_calls():
    q, k, v = drawn(1, 8, 1, 128), drawn(1, 2, 4000, 128), drawn(1, 2, 4000, 128)
    right = exact(q, k, v)
    streams = [torch.cuda.Stream() for _ in range(2)]
    found = []
    for _ in range(4):
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found.append(attention(q, k, v, enable_gqa=True))
    torch.cuda.synchronize()
    assert tapes() == 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = attention(q, k, v, enable_gqa=True)
    assert tapes() == 2
    graph.replay()
    for each in (*found, captured):
        assert_close(each, right)


def test_results_do_not_share_memory():
    q = drawn(1, 4, 256, 64)
    outputs = [attention(q, q + 1, q) for _ in range(6)]
    kept = [output.clone() for output in outputs]
    attention(q, -q, q)
    assert len({output.data_ptr() for output in outputs}) == 6
    assert all(torch.equal(output, first) for output, first in zip(outputs, kept, strict=True))
