"""Jagged nested tensors: what each sequence gives by itself, jagged again, with its gradients."""

import pytest
import torch
from tests.kernels.definition import definition
from torch.nn.functional import scaled_dot_product_attention

from attenio import attention, explain
from attenio.errors import AttenioError

LENGTHS, OTHERS = (3, 7, 1, 12), (5, 2, 1, 9)


def jagged(lengths, heads, width, dtype=torch.float64, seed=0):
    """As models make them: (sequences, tokens, heads x width), heads brought before tokens; and the leaf."""
    torch.manual_seed(seed)
    parts = [torch.randn(n, heads * width, dtype=dtype) for n in lengths]
    leaf = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    return leaf, leaf.unflatten(-1, (heads, width)).transpose(1, 2)


def sequences(nested):
    return [each[None] for each in nested.unbind()]


@pytest.mark.parametrize("causal", [False, True, "bottom-right"])
@pytest.mark.parametrize("keys", [LENGTHS, OTHERS], ids=["of equal lengths", "of other lengths"])
def test_every_sequence_gives_what_it_gives_alone_and_gradients_flow(causal, keys):
    leaves, (q, k, v) = zip(*(jagged(n, h, w, seed=s) for s, (n, h, w) in enumerate(
        ((LENGTHS, 4, 8), (keys, 2, 8), (keys, 2, 6)))), strict=True)  # fmt: skip
    if keys is not OTHERS:  # keys and values with lengths of their own, equal in numbers only
        assert k.offsets() is not q.offsets()
    found = attention(q, k, v, is_causal=causal, enable_gqa=True)
    assert found.is_nested and found.layout == torch.jagged and found.shape[2] == q.shape[2]
    alone = []
    for mine, key, value in zip(*map(sequences, (q, k, v)), strict=True):
        n, m = mine.shape[2], key.shape[2]
        seen = None if not causal else torch.ones(n, m, dtype=torch.bool).tril(0 if causal is True else m - n)
        alone.append(definition(mine, key, value, seen))
    weights = [torch.randn_like(each) for each in alone]
    for mine, theirs in zip(sequences(found), alone, strict=True):
        torch.testing.assert_close(mine, theirs)
    both = [
        torch.autograd.grad(sum((g * o).sum() for g, o in zip(weights, given, strict=True)), leaves, retain_graph=True)
        for given in (sequences(found), alone)
    ]
    for mine, theirs in zip(*both, strict=True):
        assert mine.is_nested
        torch.testing.assert_close(mine.values(), theirs.values())


def test_it_is_pytorch_s_own_attention_of_each_sequence():
    _, q = jagged(LENGTHS, 2, 8)
    for mine, each in zip(sequences(attention(q, q, q)), sequences(q), strict=True):
        torch.testing.assert_close(mine, scaled_dot_product_attention(each, each, each))


def test_sinks_caps_windows_and_the_log_sum_exp_are_those_of_each_sequence():
    _, q = jagged(LENGTHS, 2, 8)
    asked = {"sinks": torch.tensor([0.5, -1.0], dtype=torch.float64), "softcap": 2.0, "window": 4, "return_lse": True}
    output, lse = attention(q, q, q, **asked)
    assert lse.is_nested and lse.shape[2] == q.shape[2]
    for mine, of_rows, each in zip(sequences(output), sequences(lse), sequences(q), strict=True):
        theirs, theirs_lse = attention(each, each, each, **asked)
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(of_rows, theirs_lse)


def test_sequences_without_heads_and_with_holes_between_them_are_taken():
    values, offsets = torch.randn(12, 8, dtype=torch.float64), torch.tensor([0, 5, 9, 12])
    for lengths in (None, torch.tensor([5, 2, 3])):
        q = torch.nested.nested_tensor_from_jagged(values, offsets, lengths=lengths)
        found = attention(q, q, q)
        assert found.dim() == 3
        for mine, each in zip(found.unbind(), q.unbind(), strict=True):
            torch.testing.assert_close(mine, scaled_dot_product_attention(each, each, each))


def test_a_compiled_program_computes_the_same():
    _, q = jagged(LENGTHS, 2, 8)
    q = q.detach()
    compiled = torch.compile(lambda x: attention(x, x, x, is_causal=True), backend="aot_eager")
    torch.testing.assert_close(compiled(q).values(), attention(q, q, q, is_causal=True).values())


def test_explain_tells_of_the_packed_call():
    _, q = jagged(LENGTHS, 2, 8, torch.float32)
    told = explain(q, q, q)
    assert told.plan.workload.queries == sum(LENGTHS)


def test_what_does_not_belong_together_is_refused_in_a_line():
    _, q = jagged(LENGTHS, 2, 8)
    _, other = jagged(OTHERS, 2, 8)
    _, fewer = jagged(LENGTHS[:2], 2, 8)
    dense = torch.randn(4, 2, 3, 8, dtype=torch.float64)
    cases = {
        "query is jagged and key is not; give all three": ((q, dense, dense), {}),
        "key is jagged and query is not; give all three": ((dense, q, q), {}),
        "sequences of key and value differ in length": ((q, q, other), {}),
        "there are 4 of query, 2 of key, 2 of value: sequences": ((q, fewer, fewer), {}),
        "query has 4 dimensions and sequences of different lengths along 1": ((q.transpose(1, 2),) * 3, {}),
        "cu_seqlens is given with jagged tensors": ((q, q, q), {"cu_seqlens": torch.tensor([0, 23])}),
        "attn_mask is given with jagged tensors": ((q, q, q), {"attn_mask": torch.ones(23, 23, dtype=torch.bool)}),
        "prefix is given with jagged tensors": ((q, q, q), {"prefix": 1}),
    }
    for message, (tensors, asked) in cases.items():
        for call in (attention, explain):
            with pytest.raises(AttenioError, match=message) as raised:
                call(*tensors, **asked)
            assert "\n" not in str(raised.value)
