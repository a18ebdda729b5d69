"""attn_implementation="attenio" on a small Llama with random weights."""

import pytest
import torch
import transformers

from attenio.kernels.transformers import register


def llama(implementation):
    register()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, attn_implementation=implementation,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("padded", [False, True])
def test_logits_and_gradients_agree_with_eager(padded):
    tokens = torch.randint(1, 97, (2, 19))
    mask = torch.ones_like(tokens)
    if padded:
        mask[0, :6] = 0
    # A padded position sees nothing; what it then gives, zeros or a mean, must not enter the loss.
    labels = tokens.masked_fill(mask.cumsum(1) <= 1, -100)
    found = []
    for implementation in ("attenio", "eager"):
        model = llama(implementation)
        output = model(tokens, attention_mask=mask, labels=labels)
        output.loss.backward()
        logits = output.logits.detach()[mask.bool()]
        found.append((logits, *(p.grad for p in model.parameters())))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
def test_generating_with_the_cache_gives_the_same_tokens(padded):
    tokens = torch.randint(1, 97, (2, 7))
    mask = torch.ones_like(tokens)
    if padded:
        mask[1, :3] = 0
    found = [
        llama(implementation).generate(tokens, attention_mask=mask, max_new_tokens=12, do_sample=False, use_cache=True)
        for implementation in ("attenio", "sdpa")
    ]
    assert torch.equal(*found)
