"""Laws of calls that go to PyTorch's own attention: which do is as documented, explained, and checked first."""

from dataclasses import replace

import pytest
import torch
from tests.kernels.definition import definition

from attenio import attention, explain
from attenio.errors import AttenioError
from attenio.kernels.choice import LIBRARY
from attenio.kernels.cpu import beside
from attenio.kernels.cpu.library import Sizes, library_first

SIZES = Sizes(
    batch=1, heads=8, kv_heads=8, queries=512, keys=512, visible_keys=512, widths=128, dtype=torch.float32, masks=False,
    causal=False, fuses=True, fuses_tiles=False, differentiates=False, threads=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def anew():
    beside.forget_ways()


@pytest.fixture
def called(monkeypatch):
    """How often PyTorch's own attention was called."""
    calls = []
    theirs, flash = beside.scaled_dot_product_attention, beside._flash
    monkeypatch.setattr(beside, "scaled_dot_product_attention", lambda *a, **o: (calls.append(1), theirs(*a, **o))[1])
    math = beside._math
    monkeypatch.setattr(beside, "_math", lambda *a, **o: (calls.append(1), math(*a, **o))[1])
    monkeypatch.setattr(beside, "_flash", lambda *a, **o: (calls.append(1), flash(*a, **o))[1])
    return calls


def drawn(heads=4, kv_heads=4, queries=33, keys=33, d=16, dtype=torch.float32):
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [torch.randn(1, h, n, d).to(dtype) for h, n in shapes]


CASES = {
    "dense": (drawn, {}),
    "causal": (drawn, {"is_causal": True}),
    "window": (drawn, {"window": 8}),
    "both sides": (lambda: drawn(queries=20), {"window": (4, 3)}),
    "groups": (lambda: drawn(kv_heads=2), {"enable_gqa": True}),
    "decode": (lambda: drawn(queries=1, keys=300), {}),
    "boolean": (drawn, {"attn_mask": torch.rand(33, 33, generator=torch.Generator().manual_seed(0)) > 0.3}),
    "long window": (lambda: drawn(queries=1500, keys=1500), {"window": 8}),
    "many groups": (lambda: drawn(heads=16, kv_heads=1, queries=1, keys=30000, d=64), {"enable_gqa": True}),
    "packed": (drawn, {"cu_seqlens": torch.tensor([0, 10, 33])}),
    "no scale": (drawn, {"is_causal": True, "scale": 0.0}),
    "causal window": (drawn, {"is_causal": True, "window": 5}),
    "an only key": (lambda: drawn(queries=3, keys=1), {}),
    "half": (lambda: drawn(queries=256, keys=256, dtype=torch.bfloat16), {}),
}


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_explained_is_what_runs_the_first_time_and_again(case, wants, called):
    make, options = CASES[case]
    q, k, v = (x.requires_grad_(wants) for x in make())
    theirs = explain(q, k, v, **options).choice.language == LIBRARY
    first, again = attention(q, k, v, **options), attention(q, k, v, **options)
    assert len(called) == (2 if theirs else 0)
    assert torch.allclose(first, again, rtol=1e-3)


def test_short_calls_go_to_pytorch_and_what_tiles_skip_or_share_does_not():
    short = replace(SIZES, queries=16, keys=16, visible_keys=16)
    for dtype in (torch.float32, torch.float64):
        for masks in (False, True):
            assert library_first(replace(short, dtype=dtype, masks=masks, kv_heads=1))
            assert library_first(replace(SIZES, dtype=dtype, masks=masks))
    assert not library_first(replace(SIZES, queries=8192, keys=8192, visible_keys=320))
    assert not library_first(replace(SIZES, kv_heads=1, queries=1, keys=2**17, visible_keys=2**17))


def test_types_without_vector_instructions_stay_with_tiles_but_for_the_shortest_calls(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    from attenio.kernels.cpu import library

    library.is_fast.cache_clear()
    try:
        assert not library_first(replace(SIZES, dtype=torch.bfloat16))
        assert library_first(
            replace(SIZES, dtype=torch.bfloat16, heads=1, kv_heads=1, queries=1, keys=64, visible_keys=64)
        )
    finally:
        library.is_fast.cache_clear()


@pytest.mark.parametrize("kv_heads", [2, 4])
def test_gradients_beside_a_large_log_sum_exp_are_computed_by_tiles(kv_heads, called):
    q, k, v = (x.requires_grad_() for x in drawn(kv_heads=kv_heads))
    large = (100 * q).detach().requires_grad_()
    output = attention(large, k, v, enable_gqa=True)
    assert len(called) == 1
    g = torch.randn_like(output)
    wide = [x.detach().double().requires_grad_() for x in (large, k, v)]
    right = torch.autograd.grad(definition(*wide), wide, g.double())
    for mine, theirs in zip(torch.autograd.grad(output, (large, k, v), g), right, strict=True):
        assert (mine - theirs).norm() <= 1e-4 * theirs.norm()
    attention(large, k, v, enable_gqa=True)
    assert len(called) == 1  # and is not tried again


def test_what_was_right_once_does_not_let_through_what_is_wrong():
    q, k, v = drawn()
    attention(q, k, v)
    for wrong in ({"is_causal": 0}, {"enable_gqa": 0}, {"deterministic": 0}, {"window": 2.0}, {"scale": "1"}):
        with pytest.raises(AttenioError):
            attention(q, k, v, **wrong)
    for tensors in ((q, k.double(), v), (q, k, v.to("meta")), (q, None, v), (q, k[:, :, :5], v)):
        with pytest.raises(AttenioError):
            attention(*tensors)
