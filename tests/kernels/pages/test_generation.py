"""``generate`` of transformers with a paged cache: eager's tokens, forks for beams, all pages given back."""

import pytest
import torch

transformers = pytest.importorskip("transformers")

from attenio.errors import InvalidInput  # noqa: E402
from attenio.kernels.transformers import GenerationCache, register  # noqa: E402

SMALL = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
}  # fmt: skip
MODELS = {
    "Llama": {},
    "Gemma2": {"head_dim": 8, "sliding_window": 16},
    "GptOss": {"head_dim": 8, "sliding_window": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    "DeepseekV3": {
        "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 12,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 16,
        "num_key_value_heads": 4,
    },
}  # fmt: skip


def model_of(name, implementation):
    register()
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SMALL | MODELS[name])
    model = getattr(transformers, f"{name}ForCausalLM")._from_config(config, attn_implementation=implementation)
    return model.eval()


def generated(model, cache, tokens, **options):
    torch.manual_seed(1)
    given = {"max_new_tokens": 14, "do_sample": False, "eos_token_id": None, **options}
    given.setdefault("attention_mask", torch.ones_like(tokens))
    return model.generate(tokens, past_key_values=cache, **given)


def cache_for(model, **options):
    return GenerationCache.of(model.config, pages=64, page_size=16, **options)


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_those_of_eager(name):
    tokens = torch.randint(3, 97, (2, 21))
    model = model_of(name, "attenio")
    cache = cache_for(model)
    found = generated(model, cache, tokens)
    assert torch.equal(found, generated(model_of(name, "eager"), None, tokens))
    assert cache.get_seq_length() == 34
    cache.free()
    assert cache.pages.free_pages == 64


FORMS = {
    "beams": {"num_beams": 3},
    "samples": {"do_sample": True, "num_return_sequences": 3},
    "padding": {"attention_mask": torch.tensor([[0] * 5 + [1] * 16, [1] * 21])},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
}


@pytest.mark.parametrize("form", FORMS)
def test_beams_samples_and_padding_give_the_tokens_of_a_dense_cache(form):
    tokens = torch.randint(3, 97, (1 if form == "prompt lookup" else 2, 21))
    model = model_of("Llama", "attenio")
    cache = cache_for(model)
    found = generated(model, cache, tokens, **FORMS[form])
    assert torch.equal(found, generated(model_of("Llama", "eager"), None, tokens, **FORMS[form]))
    cache.free()
    assert cache.pages.free_pages == 64 and not any(cache.pages.book.owners)


def test_beams_share_the_pages_of_their_prompt():
    model, tokens = model_of("Llama", "attenio"), torch.randint(3, 97, (1, 40))
    cache = cache_for(model)
    generated(model, cache, tokens, num_beams=4, max_new_tokens=6)
    assert len(cache.requests) == 4
    assert 64 - cache.pages.free_pages <= 2 + 4


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn], ids=str)
def test_logits_from_a_cache_of_8_bits_are_close_and_not_the_same(dtype):
    model, tokens = model_of("Llama", "attenio"), torch.randint(3, 97, (2, 41))
    with torch.no_grad():
        right = model(tokens).logits[:, -1]
        cache = cache_for(model, dtype=dtype)
        model(tokens[:, :40], past_key_values=cache)
        found = model(tokens[:, 40:], past_key_values=cache).logits[:, -1]
    assert 0.0 < float((found - right).norm() / right.norm()) < 0.02


def test_any_implementation_takes_keys_that_are_gathered_and_the_others_are_told():
    tokens = torch.randint(3, 97, (2, 21))
    model = model_of("Llama", "sdpa")
    right = generated(model, None, tokens)
    assert torch.equal(generated(model, cache_for(model, gathers=True), tokens), right)
    with pytest.raises(InvalidInput, match='use attn_implementation="attenio"') as raised:
        generated(model, cache_for(model), tokens)
    assert "\n" not in str(raised.value)


def test_a_second_batch_of_another_size_is_refused():
    model = model_of("Llama", "attenio")
    cache = cache_for(model)
    generated(model, cache, torch.randint(3, 97, (2, 21)))
    with pytest.raises(InvalidInput, match="has 2 requests and the batch 3 rows"):
        model(torch.randint(3, 97, (3, 5)), past_key_values=cache)


def test_a_cropped_cache_goes_on_from_there_by_what_is_taken_or_by_what_is_left():
    model, tokens = model_of("Llama", "attenio"), torch.randint(3, 97, (2, 21))
    with torch.no_grad():
        right = model_of("Llama", "eager")(tokens).logits
        for crop, left in ((-4, 17), (17, 17), (0, 21), (40, 21), (-40, 0)):
            cache = cache_for(model)
            model(tokens, past_key_values=cache)
            cache.crop(crop)
            assert cache.get_seq_length() == left
            if left < 21:
                found = model(tokens[:, left:], past_key_values=cache).logits
                torch.testing.assert_close(found, right[:, left:], rtol=1e-4, atol=1e-5)
