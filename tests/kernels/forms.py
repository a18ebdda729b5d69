"""Every form of a call that CPU kernels tell apart, small and large enough for several threads."""

from contextlib import contextmanager

import torch

from attenio.masks import BlockSparse

__all__ = ["DTYPES", "FORMS", "heads_of", "threads"]

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Heads, KV heads, queries, keys, width of heads and of values; and options.
FORMS = {
    "dense": ((4, 4, 150, 150, 16, 16), {}),
    "causal": ((4, 4, 150, 150, 16, 16), {"is_causal": True}),
    "one head": ((1, 1, 300, 300, 16, 16), {}),
    "one head, causal": ((1, 1, 300, 280, 16, 16), {"is_causal": True}),
    "groups": ((4, 2, 150, 130, 16, 16), {"enable_gqa": True}),
    "other widths": ((2, 2, 150, 130, 16, 24), {"is_causal": True}),
    "window": ((2, 2, 150, 150, 16, 16), {"window": 40}),
    "two sides": ((2, 1, 150, 190, 16, 16), {"window": (20, 5), "enable_gqa": True}),
    "lengths": ((2, 2, 150, 150, 16, 16), {"cu_seqlens": torch.tensor([0, 70, 150]), "is_causal": True}),
    "ids": ((2, 2, 150, 150, 16, 16), {"segment_ids": torch.arange(150) // 40}),
    "booleans": ((2, 2, 150, 150, 16, 16), {"attn_mask": torch.rand(150, 150).lt(0.7)}),
    "bias": ((2, 2, 150, 150, 16, 16), {"attn_mask": torch.randn(2, 1, 150, 1)}),
    "blocks": (
        (2, 2, 150, 150, 16, 16),
        {"block_mask": BlockSparse.from_array(torch.eye(5).numpy(), query_block=32, key_block=32)},
    ),
    "few rows": ((8, 2, 2, 900, 16, 16), {"enable_gqa": True}),
    "one row": ((2, 2, 1, 4100, 16, 16), {}),
    "one key": ((2, 2, 150, 1, 16, 16), {}),
    "prefix": ((4, 2, 30, 200, 16, 16), {"prefix": 120, "enable_gqa": True}),
    "dropout": ((2, 2, 150, 150, 16, 16), {"dropout_p": 0.3}),
    "tolerance": ((1, 1, 1200, 1200, 8, 8), {"tolerance": 0.05}),
    "large scores": ((2, 2, 150, 150, 16, 16), {"scale": 60.0}),
}


def heads_of(shape, dtype, batch=2, requires_grad=False):
    """Queries, keys, values and a gradient of the output."""
    heads, kv_heads, queries, keys, d, width = shape
    sizes = ((heads, queries, d), (kv_heads, keys, d), (kv_heads, keys, width), (heads, queries, width))
    q, k, v, gradient = (torch.rand(batch, *size).sub_(0.5).to(dtype) for size in sizes)
    return *(x.requires_grad_(requires_grad) for x in (q, k, v)), gradient


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
