"""Few scores of a decoding layer by one softmax: the definition's outputs, or None for what is not for it."""

import pytest
import torch

from attenio import attention
from attenio.kernels.cpu.few_scores import MOST_QUERIES, few_scores


def inputs(queries=1, keys=37, heads=(6, 2), dtype=torch.float64):
    torch.manual_seed(queries + keys)
    q = torch.randn(2, queries, heads[0], 8, dtype=dtype).transpose(1, 2)  # as models hand it over
    return q, *(torch.randn(2, heads[1], keys, width, dtype=dtype) for width in (8, 5))


def definition(q, k, v, mask, scale, sinks, softcap):
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).mT * scale
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.exp()
    total = weights.sum(-1, keepdim=True) + (0 if sinks is None else sinks.exp()[:, None, None])
    return weights / total @ v.repeat_interleave(group, 1)


@pytest.mark.parametrize("softcap", [None, 0.7], ids=["uncapped", "capped"])
@pytest.mark.parametrize("with_sinks", [True, False], ids=["sinks", "no sinks"])
@pytest.mark.parametrize("masked", [None, torch.bool, torch.float64], ids=str)
@pytest.mark.parametrize(("queries", "keys", "heads"), [(1, 37, (6, 2)), (3, 5, (4, 4)), (8, 1, (3, 1))])
def test_outputs_are_those_of_the_definition_and_of_attention(queries, keys, heads, masked, with_sinks, softcap):
    q, k, v = inputs(queries, keys, heads)
    sinks = torch.randn(heads[0], dtype=torch.float64) if with_sinks else None
    mask = None if masked is None else torch.rand(2, 1, queries, keys) < 0.7
    if mask is not None:
        mask[..., 0] = True
        mask = mask if masked is torch.bool else torch.where(mask, 0.3, -1e30).double()
    found = few_scores(q, k, v, mask, scale=0.4, sinks=sinks, softcap=softcap)
    torch.testing.assert_close(found, definition(q, k, v, mask, 0.4, sinks, softcap))
    other = attention(q, k, v, attn_mask=mask, scale=0.4, enable_gqa=True, sinks=sinks, softcap=softcap)
    torch.testing.assert_close(found, other)


def test_what_is_not_for_it_is_left_to_attention():
    q, k, v = inputs()
    asked = {"scale": None, "sinks": torch.zeros(6, dtype=torch.float64), "softcap": None}
    assert few_scores(q, k, v, None, **asked) is not None
    assert few_scores(*inputs(MOST_QUERIES + 1), None, **asked) is None
    assert few_scores(*inputs(8, 2**15), None, **asked) is None
    assert few_scores(*(x.bfloat16() for x in (q, k, v)), None, **asked) is None
    assert few_scores(q.requires_grad_(), k, v, None, **asked) is None
    with torch.no_grad():
        assert few_scores(q, k, v, None, **asked) is not None
        assert few_scores(q, k, v[:, :, 1:], None, **asked) is None
        assert few_scores(q, k, v, None, **{**asked, "sinks": torch.zeros(5)}) is None
        nothing = torch.zeros(2, 1, 1, 37, dtype=torch.bool)
        assert few_scores(q, k, v, nothing, scale=None, sinks=None, softcap=2.0) is None
        assert few_scores(q * torch.nan, k, v, None, **asked) is None
