"""attention(tolerance=): within the tolerance whatever the data, approximate where that is certified and worth it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio import attention, explain
from attenio.errors import InvalidInput
from attenio.kernels.choice import features_of
from attenio.masks import BlockSparse

TOLERANCE = 0.05


def inputs(queries, keys, heads=(2, 2), d=8, width=8, size=0.3, dtype=torch.float32):
    q, k = torch.randn(1, heads[0], queries, d), torch.randn(1, heads[1], keys, d)
    return (size * q).to(dtype), (size * k + 0.5).to(dtype), torch.randn(1, heads[1], keys, width).to(dtype)


def exact(q, k, v, *, causal=False):
    return sdpa(q.double(), k.double(), v.double(), is_causal=causal, enable_gqa=True)


def moved(mine, q, k, v, *, causal=False):
    """The largest change in units of half the range of a column, less what storing the output rounds."""
    wanted = exact(q, k, v, causal=causal)
    unit = float((v.double().amax(2) - v.double().amin(2)).max()) / 2
    stored = torch.finfo(v.dtype).eps / 2 * float(wanted.abs().max()) * (1 + TOLERANCE)
    return max(0.0, float((mine.double() - wanted).abs().max()) - stored) / (unit or 1.0)


SHAPES = {
    "dense": ((1500, 1500), {}),
    "unequal lengths": ((1100, 2300), {}),
    "groups": ((900, 1300, (6, 2)), {}),
    "ragged widths": ((1000, 1000, (1, 1), 5, 3), {}),
    "causal": ((1501, 1501), {"is_causal": True}),
    "causal groups": ((1400, 1400, (4, 1)), {"is_causal": True}),
    "causal, keys past the last query": ((1400, 2000), {"is_causal": True}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("case", SHAPES)
def test_certified_data_are_approximated_within_the_tolerance(case, dtype):
    shape, options = SHAPES[case]
    q, k, v = (x.to(dtype) for x in inputs(*shape))
    way = explain(q, k, v, tolerance=TOLERANCE, enable_gqa=True, **options).way
    assert way.approximates and way.promise.certificate.added_error <= TOLERANCE
    mine = attention(q, k, v, tolerance=TOLERANCE, enable_gqa=True, **options)
    n = q.shape[2] if options else k.shape[2]
    assert not torch.equal(mine, attention(q, k, v, enable_gqa=True, **options))
    change = moved(mine, q, k[:, :, :n], v[:, :, :n], causal=bool(options))
    assert change <= way.promise.certificate.added_error


def spoiled(which, value):
    q, k, v = inputs(800, 800)
    (q, k, v)[which][0, 0, 17, 3] = value
    return q, k, v


ADVERSARIAL = {
    "huge logits": lambda: tuple(x * s for x, s in zip(inputs(800, 800), (1e3, 1e3, 1.0), strict=True)),
    "one huge row": lambda: spoiled(0, 1e6),
    "keys far from zero": lambda: (lambda q, k, v: (q, k + 100, v))(*inputs(800, 800)),
    "equal keys": lambda: (lambda q, k, v: (q, k[:, :, :1].expand(k.shape), v))(*inputs(800, 800)),
    "equal values": lambda: (lambda q, k, v: (q, k, v * 0 + 3))(*inputs(800, 800)),
    "values far from zero": lambda: (lambda q, k, v: (q, k, v + 1e4))(*inputs(800, 800)),
    "tiny values": lambda: (lambda q, k, v: (q, k, v * 1e-30))(*inputs(800, 800)),
    "zero queries": lambda: (lambda q, k, v: (q * 0, k, v))(*inputs(800, 800)),
    "a spread of sizes": lambda: (lambda q, k, v: (q * 1e-12, k * 1e12, v))(*inputs(800, 800)),
    "one hot": lambda: (*[20 * torch.eye(800)[None, None, :, :8]] * 2, inputs(8, 800)[2][:, :1]),
}  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("case", ADVERSARIAL)
def test_no_data_leave_the_tolerance(case, causal):
    q, k, v = ADVERSARIAL[case]()
    mine = attention(q, k, v, tolerance=TOLERANCE, is_causal=causal)
    plain = moved(attention(q, k, v, is_causal=causal), q, k, v, causal=causal)  # what fp32 costs exact attention
    assert moved(mine, q, k, v, causal=causal) <= max(TOLERANCE, plain)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["query", "key", "value"])
def test_data_that_are_not_finite_give_what_exact_attention_gives(which, value):
    q, k, v = spoiled(which, value)
    assert "not finite" in explain(q, k, v, tolerance=TOLERANCE).way.reason
    assert torch.equal(attention(q, k, v, tolerance=TOLERANCE).nan_to_num(7.0), attention(q, k, v).nan_to_num(7.0))


@pytest.mark.parametrize("call", [attention, explain])
@pytest.mark.parametrize("tolerance", [0, -0.1, torch.nan, torch.inf, "much"])
def test_a_tolerance_that_is_none_is_refused_in_one_line(call, tolerance):
    q = torch.randn(1, 1, 8, 8)
    with pytest.raises(InvalidInput, match=r"^tolerance is [^\n]*; give a") as refused:
        call(q, q, q, tolerance=tolerance)
    assert "\n" not in str(refused.value)


EXACT = {
    "window": {"window": 100},
    "lengths": {"cu_seqlens": torch.tensor([0, 300, 1000])},
    "ids": {"segment_ids": torch.arange(1000) // 400},
    "blocks": {"block_mask": BlockSparse.from_array(np.eye(16, dtype=bool))},
    "mask": {"attn_mask": torch.ones(1000, 1000).tril().bool()},
    "bias": {"attn_mask": torch.zeros(1000, 1000)},
    "prefix": {"prefix": 10},
}


@pytest.mark.parametrize("case", EXACT)
def test_masks_that_features_cannot_serve_run_exactly(case):
    q, k, v = inputs(1000, 1000)
    assert not explain(q, k, v, tolerance=TOLERANCE, **EXACT[case]).way.approximates
    assert torch.equal(attention(q, k, v, tolerance=TOLERANCE, **EXACT[case]), attention(q, k, v, **EXACT[case]))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [((1, 5000), "any degree"), ((40, 40), "features compute more"), ((900, 400), "features are for")],
)
def test_where_features_do_not_pay_or_apply_exact_attention_runs(shape, reason):
    q, k, v = inputs(*shape)
    options = {"is_causal": shape[0] == 900}
    assert reason in explain(q, k, v, tolerance=TOLERANCE, **options).way.reason
    assert torch.equal(attention(q, k, v, tolerance=TOLERANCE, **options), attention(q, k, v, **options))


def test_nothing_is_approximated_by_nothing():
    q, k, v = inputs(0, 40)
    assert attention(q, k, v, tolerance=TOLERANCE).shape == (1, 2, 0, 8)


def test_dropped_weights_have_no_features():
    q, k, v = inputs(1000, 1000)
    assert "drop" in explain(q, k, v, dropout_p=0.5, tolerance=TOLERANCE).way.reason
    assert attention(q, k, v, dropout_p=0.5, tolerance=TOLERANCE).shape == q.shape


def test_where_data_cannot_be_looked_at_exact_attention_runs():
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    q, k, v = inputs(1000, 1000)
    plain = attention(q, k, v)

    def call(*tensors):
        return attention(*tensors, tolerance=TOLERANCE)

    assert not torch.equal(call(q, k, v), plain)
    assert torch.equal(torch.compile(call, backend="aot_eager", fullgraph=True)(q, k, v), plain)
    assert torch.equal(torch.vmap(call)(*(x[None] for x in (q, k, v)))[0], plain)
    assert torch.equal(make_fx(call)(q, k, v)(q, k, v), plain)
    with FakeTensorMode() as fake:
        assert call(*(fake.from_tensor(x) for x in (q, k, v))).shape == q.shape


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_the_approximation(causal):
    leaves = tuple(x.double().requires_grad_() for x in inputs(700, 700, (2, 1), d=3, width=2))
    options = {"tolerance": TOLERANCE, "is_causal": causal, "enable_gqa": True}
    assert explain(*leaves, **options).way.approximates
    towards, step = [torch.randn_like(x) for x in leaves], 1e-5
    weights = torch.randn(1, 2, 700, 2, dtype=torch.float64)
    gradients = torch.autograd.grad(attention(*leaves, **options), leaves, weights)
    ahead, behind = (
        (attention(*(x.detach() + sign * step * t for x, t in zip(leaves, towards, strict=True)), **options) * weights)
        for sign in (1, -1)
    )
    along = sum(float((gradient * t).sum()) for gradient, t in zip(gradients, towards, strict=True))
    assert along == pytest.approx(float((ahead - behind).sum()) / (2 * step), rel=1e-6)


def test_one_explanation_tells_both_ways():
    q, k, v = inputs(1500, 1500)
    found = explain(q, k, v, tolerance=TOLERANCE)
    told = json.loads(json.dumps(found.to_json()))["tolerance"]
    assert told["runs"] == "approximate" and told["reason"] is None
    assert told["degree"] == 2 and told["features"] == 45
    assert told["added_error"] <= TOLERANCE and told["words"] <= told["exact_words"]
    assert told["operations"] < told["exact_operations"]
    assert "approximate attention runs" in str(found) and "45 features" in str(found)
    refused = explain(100 * q, k, v, tolerance=TOLERANCE)
    assert "exact attention runs, because scores reach" in str(refused)
    assert refused.to_json()["tolerance"]["degree"] is None


def test_a_gpu_is_asked_about_with_its_own_sums():
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    q, k, v = inputs(16384, 16384, (1, 1), 64, 64, size=0.27, dtype=torch.bfloat16)
    found = explain(q, k - 0.5, v, tolerance=0.1, machine="h200").way
    assert found.approximates and found.promise.certificate.degree == 2
    assert found.promise.reach.centre is None
    assert explain(q, k, v, tolerance=0.1, machine="h200").way.promise.reach.centre is not None
    assert "no data" in explain(*(x.to("meta") for x in (q, k, v)), tolerance=0.1, machine="h200").way.reason


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_features_of_every_device_have_what_a_call_with_a_tolerance_asks_them(device):
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    backend = features_of(SimpleNamespace(device=torch.device(device), dtype=torch.float32))
    for name in ("promise_for", "approximate_operations", "attend_by_features"):
        assert callable(getattr(backend, name))
