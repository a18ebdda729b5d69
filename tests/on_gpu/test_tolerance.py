"""attention(tolerance=) on a GPU: features run, and no output moves by more than its certificate says."""

import pytest
import torch

from attenio import attention, explain


@pytest.mark.parametrize("shift", [0.0, 0.5], ids=["as they are", "centred"])
@pytest.mark.parametrize("causal", [False, True])
def test_features_keep_their_certificate(causal, shift):
    n = 40000 if causal else 16384
    q, k, v = (torch.randn(1, 1, n, 64, device="cuda") for _ in range(3))
    q, k, v = (0.27 * q).bfloat16(), (0.27 * k + shift).bfloat16(), v.bfloat16()
    way = explain(q, k, v, is_causal=causal, tolerance=0.2).way
    assert way.approximates
    mine = attention(q, k, v, is_causal=causal, tolerance=0.2)
    scores = q[..., -64:, :].double() @ k.double().transpose(-1, -2) / 8
    if causal:
        scores += torch.full_like(scores, -torch.inf).triu(n - 63)
    error = (mine[..., -64:, :] - scores.softmax(-1) @ v.double()).abs().max()
    found = way.promise.certificate
    assert float(error) <= found.guaranteed_error * found.scores.value_unit
