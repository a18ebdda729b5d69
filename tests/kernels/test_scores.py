"""Laws of sinks, of a cap on scores, of the log-sum-exp and of bottom-right causality: the definition in float64."""

from random import Random

import pytest
import torch

from attenio import attention, explain
from attenio.errors import AttenioError

UNITS = {torch.float64: 1e-12, torch.float32: 4e-6, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def definition(q, k, v, sinks=None, softcap=None, bias=None, scale=None):
    """Output and log-sum-exp of softmax([cap(Q K^T scale) + bias, sinks]) [V, 0]."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if sinks is not None:
        scores = torch.cat((scores, sinks[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    return torch.softmax(scores, -1)[..., : k.shape[-2]] @ v, torch.logsumexp(scores, -1)


def bottom_right(queries, keys):
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)[None]
    return torch.zeros(queries, keys).masked_fill(columns > rows + keys - queries, -torch.inf)


def drawn(seed):
    """A call of random sizes: few rows and many, one key and several, groups, caps and sinks that bite."""
    draw = Random(seed)
    kv_heads, group, d = draw.choice((1, 2)), draw.choice((1, 3)), draw.choice((8, 16))
    queries, keys = draw.choice((1, 5, 33, 100)), draw.choice((1, 7, 40, 300))
    causal = draw.choice((False, "bottom-right")) if keys >= queries else False
    options = {"softcap": draw.choice((None, 0.8, 30.0)), "scale": draw.choice((None, 1.5, -0.4))}
    shapes = (kv_heads * group, queries, d), (kv_heads, keys, d), (kv_heads, keys, draw.choice((d, 4)))
    heads = [torch.randn(2, *shape, dtype=torch.float64) for shape in shapes]
    sinks = (torch.randn(kv_heads * group) * 3).double() if draw.random() < 0.6 else None
    return heads, sinks, causal, options


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("seed", range(9))
def test_outputs_log_sum_exps_and_gradients_are_those_of_the_definition(seed, dtype):
    heads, sinks, causal, options = drawn(seed)
    heads = [x.to(dtype) for x in heads]
    found = []
    for exact in (False, True):
        inputs = [x.double() if exact else x.clone() for x in heads]
        inputs += [] if sinks is None else [sinks.clone() if exact or dtype == torch.float64 else sinks.float()]
        q, k, v, *rest = (x.requires_grad_() for x in inputs)
        if exact:
            bias = bottom_right(q.shape[2], k.shape[2]).double() if causal else None
            output, lse = definition(q, k, v, *(rest or [None]), bias=bias, **options)
        else:
            given = {"sinks": rest[0]} if rest else {}
            grouped = q.shape[1] != k.shape[1]
            output, lse = attention(q, k, v, is_causal=causal, enable_gqa=grouped, return_lse=True, **given, **options)
            assert lse.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
            plain = attention(q, k, v, is_causal=causal, enable_gqa=grouped, **given, **options)
            torch.testing.assert_close(plain, output, atol=UNITS[dtype], rtol=UNITS[dtype])
        torch.manual_seed(seed)
        loss = (output.double() * torch.randn(output.shape, dtype=torch.float64)).sum()
        loss = loss + (lse.double() * torch.randn(lse.shape, dtype=torch.float64)).sum()
        found.append([output, lse, *torch.autograd.grad(loss, (q, k, v, *rest))])
    for mine, theirs in zip(*found, strict=True):
        mine, theirs = mine.detach().double(), theirs.detach()
        assert float((mine - theirs).norm()) <= UNITS[dtype] * max(1e-3, float(theirs.norm()))


@pytest.mark.parametrize("options", [{"softcap": 0.7}, {"is_causal": True}, {"window": 3}], ids=str)
def test_gradients_are_those_of_finite_differences(options):
    q, k, v = (torch.randn(1, 2, 6, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    sinks = torch.randn(2, dtype=torch.float64, requires_grad=True)
    call = lambda q, k, v, s: attention(q, k, v, sinks=s, return_lse=True, **options)  # noqa: E731
    assert torch.autograd.gradcheck(call, (q, k, v, sinks))


def test_a_row_that_sees_nothing_gives_zeros_and_its_sink():
    q, k, v = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 3, 8), torch.randn(1, 2, 3, 8)
    output, lse = attention(q, k, v, is_causal="bottom-right", return_lse=True)
    assert not output[:, :, :2].any() and (lse[:, :, :2] == -torch.inf).all() and lse[:, :, 2:].isfinite().all()
    sinks = torch.tensor([0.5, -torch.inf])
    output, lse = attention(q, k, v, is_causal="bottom-right", return_lse=True, sinks=sinks)
    assert not output[:, :, :2].any() and (lse[0, :, :2] == sinks[:, None]).all()
    nothing, none = attention(q, k[:, :, :0], v[:, :, :0], sinks=sinks, return_lse=True)
    assert not nothing.any() and (none[0] == sinks[:, None]).all()


def test_sinks_far_above_and_below_all_scores_take_all_or_nothing():
    q, k, v = (torch.randn(1, 2, 9, 8) for _ in range(3))
    sinks = torch.tensor([1e4, -1e4], requires_grad=True)
    output = attention(q, k, v, sinks=sinks)
    assert not output[0, 0].any()
    torch.testing.assert_close(output[0, 1], attention(q, k, v)[0, 1])
    assert torch.autograd.grad(output.sum(), sinks)[0].eq(0.0).all()


def test_transforms_and_compilers_take_them_too():
    q, k, v = (torch.randn(3, 1, 2, 6, 4, dtype=torch.float64) for _ in range(3))
    sinks = torch.randn(2, dtype=torch.float64)

    def call(q, k, v, sinks):
        output, lse = attention(q, k, v, sinks=sinks, softcap=2.0, return_lse=True)
        return output.sin().sum() + lse.cos().sum()

    one_by_one = torch.stack([call(q[i], k[i], v[i], sinks) for i in range(3)])
    torch.testing.assert_close(torch.vmap(call, (0, 0, 0, None))(q, k, v, sinks), one_by_one)
    inputs = [x[0].clone().requires_grad_() for x in (q, k, v)] + [sinks.clone().requires_grad_()]
    plain = torch.autograd.grad(call(*inputs), inputs)
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    for other in (torch.func.grad(call, (0, 1, 2, 3))(*inputs), torch.autograd.grad(compiled(*inputs), inputs)):
        for mine, theirs in zip(other, plain, strict=True):
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    "options",
    [
        {"sinks": torch.zeros(3)}, {"sinks": torch.zeros(1, 2)}, {"sinks": torch.zeros(2).long()}, {"sinks": 1.0},
        {"sinks": torch.zeros(2, device="meta")}, {"softcap": 0.0}, {"softcap": -1.0}, {"softcap": float("nan")},
        {"softcap": "50"}, {"softcap": torch.inf}, {"return_lse": 1}, {"is_causal": "bottom-left"}, {"is_causal": ""},
        {"softcap": 1.0, "tolerance": 0.1}, {"return_lse": True, "tolerance": 0.1},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_refused_in_one_line(options):
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    with pytest.raises(AttenioError) as refusal:
        attention(q, k, v, **options)
    assert len(str(refusal.value).splitlines()) == 1


def test_the_log_sum_exp_of_dropped_weights_has_no_gradient():
    q, k, v = (torch.randn(1, 2, 5, 8, requires_grad=True) for _ in range(3))
    output, lse = attention(q, k, v, dropout_p=0.5, return_lse=True)
    output.sum().backward(retain_graph=True)
    with pytest.raises(AttenioError, match="dropout"):
        lse.sum().backward()


def test_what_caps_scores_is_explained():
    q, k, v = (torch.randn(1, 2, 300, 8) for _ in range(3))
    capped = explain(q, k, v, softcap=2.0, sinks=torch.zeros(2), is_causal="bottom-right")
    assert capped.choice.language == "PyTorch" and any("sinks" in note for note in capped.notes)
    assert explain(q, k, v, window=(-1, 0)).plan.workload == capped.plan.workload
