"""attn_implementation="attenio" on a small Llama with random weights, and what it refuses by name.

Every architecture of the installed release is in tests/conformance.
"""

import inspect
import re
import warnings
from pathlib import Path

import pytest
import torch
import transformers
from transformers.masking_utils import AttentionMaskInterface

from attenio.errors import InvalidInput
from attenio.kernels.call.absorption import attend_latents
from attenio.kernels.call.choice import launches
from attenio.kernels.transformers import HARMLESS, NAME, REFUSED, absorb, forward, register

SMALL = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
}  # fmt: skip


def llama(implementation):
    register()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SMALL, attn_implementation=implementation)
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


def handed(**others):
    """One call of what is registered, as a layer of a model makes it: 7 queries and keys, 4 heads in 2 groups."""
    draw = torch.Generator().manual_seed(0)
    q, k = torch.randn(1, 4, 7, 8, generator=draw), torch.randn(1, 2, 7, 8, generator=draw)
    module = torch.nn.Module()
    return forward(module, q, k, k, others.pop("attention_mask", None), **others)[0]


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("GptOss", {"head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}),
        ("Gemma2", {"head_dim": 8, "attn_logit_softcapping": 0.5}),
    ],
)
def test_sinks_and_caps_are_honoured(family, fields):
    """Logits and gradients of eager; without sinks or the cap they would be others (scores are spread for that)."""
    register()
    tokens, found = torch.randint(3, 97, (2, 9)), []
    for implementation in ("attenio", "eager"):
        torch.manual_seed(0)
        config = getattr(transformers, f"{family}Config")(**SMALL, **fields, attn_implementation=implementation)
        model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith(("sinks", "q_proj.weight", "k_proj.weight")):
                    parameter.copy_(torch.randn_like(parameter))
        output = model(tokens, labels=tokens)
        output.loss.backward()
        wanted = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        assert family != "GptOss" or any(name.endswith("sinks") for name in wanted)
        found.append((output.logits.detach(), *wanted.values()))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=2e-4)


def deepseek(implementation, rank=24, **fields):
    """DeepSeek-V3 in the proportions of the original, keys 192 and values 128 wide, over few experts."""
    register()
    torch.manual_seed(0)
    sizes = {**SMALL, "num_key_value_heads": 4, "kv_lora_rank": rank, "q_lora_rank": 16, "first_k_dense_replace": 1}
    widths = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_intermediate_size": 16}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "n_shared_experts": 1}
    config = transformers.DeepseekV3Config(**sizes | widths | experts | fields, attn_implementation=implementation)
    return transformers.DeepseekV3ForCausalLM(config).eval()


def test_deepseek_generates_eager_s_tokens_with_expanded_and_with_absorbed_latents():
    tokens = torch.randint(3, 97, (2, 7))
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    models = deepseek("eager"), deepseek("attenio"), absorb(deepseek("attenio"))
    logits = [model(tokens, attention_mask=mask).logits.detach()[mask.bool()] for model in models]
    asked = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False, "use_cache": True}
    with launches() as heard:
        eager, expanded, absorbed = (model.generate(tokens, **asked) for model in models)
    assert torch.equal(expanded, eager) and torch.equal(absorbed, eager) and heard
    for mine in logits[1:]:
        torch.testing.assert_close(mine, logits[0], atol=2e-5, rtol=1e-4)


def test_absorbed_latents_of_576_columns_decode_to_what_expanded_keys_do():
    wide = {"rank": 512, "first_k_dense_replace": 2}  # experts take no double
    expanded, absorbed = deepseek("sdpa", **wide).double(), absorb(deepseek("attenio", **wide).double())
    seen = []
    layer = absorbed.model.layers[1].self_attn
    layer.expand_kv, keep = lambda *parts: seen.append(keep(*parts)) or seen[-1], layer.expand_kv
    layer.expand_kv.expanded = keep.expanded
    tokens, found = torch.randint(3, 97, (2, 5)), []
    for model in (expanded, absorbed):
        steps = model(tokens[:, :4], use_cache=True)
        steps = model(tokens[:, 4:], past_key_values=steps.past_key_values, use_cache=True)
        steps.logits.square().sum().backward()
        weights = [p.grad for name, p in model.named_parameters() if "self_attn.kv" in name]
        found.append((steps.logits.detach(), *weights))
    assert [(k.shape[-1], v.shape[-1], k.data_ptr() == v.data_ptr()) for k, v in seen] == [(576, 512, True)] * 2
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-6)


def test_many_tokens_of_an_absorbed_model_are_computed_by_expanded_keys():
    model, shapes = absorb(deepseek("attenio", rank=8)).model.layers[0].self_attn, []
    for queries in (1, 40):
        query, latent = torch.randn(1, 4, queries, 192), torch.randn(1, 1, 40, 8 + 64)
        attend_latents(
            model, query, latent, lambda q, k, v: shapes.append(k.shape) or v[:, :, :1].expand(-1, 4, -1, -1)
        )
    rank = model.kv_lora_rank
    assert shapes[0] == shapes[1] == (1, 1, 40, rank + 64)  # such a narrow latent is always less
    model.kv_lora_rank = 200  # as if it were wide
    model.kv_b_proj = torch.nn.Linear(200, 4 * 256, bias=False)
    query, latent = torch.randn(1, 4, 400, 192), torch.randn(1, 1, 40, 264)
    attend_latents(model, query, latent, lambda q, k, v: shapes.append(k.shape) or v)
    assert shapes[2] == (1, 4, 40, 192)


def test_what_has_no_latent_or_too_wide_a_one_is_not_absorbed():
    with pytest.raises(InvalidInput, match="LlamaForCausalLM has no layer that caches a latent"):
        absorb(llama("attenio"))
    with pytest.raises(InvalidInput, match="latents are 600 \\+ 64 wide"):
        absorb(deepseek("attenio", rank=600))
    eager, tokens = deepseek("eager"), torch.randint(3, 97, (1, 5))
    before = eager(tokens).logits
    assert torch.equal(absorb(absorb(eager))(tokens).logits, before)  # other implementations are left as they are


def test_anything_handed_over_is_honoured_or_known_to_be_harmless_or_refused_by_its_name():
    plain = handed()
    for name in HARMLESS:
        assert torch.equal(handed(**{name: torch.ones(1)}), plain)
    for name in (*REFUSED, "a_feature_of_tomorrow"):
        assert torch.equal(handed(**{name: None}), plain)
        with pytest.raises(InvalidInput, match=f"'{name}'"):
            handed(**{name: torch.ones(1)})
    assert torch.equal(handed(output_attentions=False), plain)
    with pytest.raises(InvalidInput, match="a_switch_of_tomorrow"):
        handed(a_switch_of_tomorrow=False)


def test_nothing_that_an_attention_function_of_transformers_has_a_parameter_for_passes_as_harmless():
    home = Path(transformers.__file__).parent
    names = set()
    for source in (*home.glob("models/*/modeling_*.py"), *home.glob("integrations/*attention*.py")):
        for head in re.findall(
            r"^def \w*attention\w*forward\w*\((.*?)\n\)", source.read_text(encoding="utf-8"), re.S | re.M
        ):
            names |= set(re.findall(r"^    (\w+)\s*[:=,]", head, re.M))
    assert {"query", "s_aux", "softcap", "position_bias"} <= names
    assert not names & HARMLESS.keys()
    assert {"dropout", "scaling", "is_causal", "s_aux", "softcap"} <= names & set(inspect.signature(forward).parameters)


def test_a_window_that_no_mask_holds_is_refused_and_one_that_does_not_bite_is_not():
    plain = handed()
    assert torch.equal(handed(sliding_window=7), plain)
    with pytest.raises(InvalidInput, match="sliding_window"):
        handed(sliding_window=6)
    assert handed(sliding_window=6, attention_mask=torch.ones(1, 1, 7, 7, dtype=torch.bool)).shape == plain.shape


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("Bloom", {"n_layer": 2, "n_head": 4}),
        ("BigBirdPegasus", {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "d_model": 32}),
    ],
)
def test_models_that_do_not_declare_sdpa_get_masks_that_they_can_add(family, fields):
    """Bloom adds its mask to its scores; a boolean one would count as 1, and without one it would see the future."""
    register()
    tokens = torch.randint(3, 97, (2, 9))
    found = []
    for implementation in ("attenio", "eager"):
        torch.manual_seed(0)
        sizes = {
            name: SMALL[name] for name in ("vocab_size", "hidden_size", "pad_token_id", "bos_token_id", "eos_token_id")
        }
        config = getattr(transformers, f"{family}Config")(**{**sizes, **fields}, attn_implementation=implementation)
        model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(model(tokens, attention_mask=torch.ones_like(tokens)).logits)
    torch.testing.assert_close(*found, atol=2e-6, rtol=1e-5)


def test_a_model_with_attention_of_its_own_is_told_that_attenio_is_not_used():
    register()
    config = transformers.XGLMConfig(vocab_size=97, d_model=32, ffn_dim=48, num_layers=1, attention_heads=4)
    assert transformers.XGLMForCausalLM.config_class is type(config)
    make = AttentionMaskInterface()[NAME]
    with pytest.warns(UserWarning, match="XGLM.* computes attention by itself"):
        made = make(batch_size=1, q_length=3, kv_length=3, config=config, dtype=torch.float32)
    assert made.dtype == torch.float32 and made.shape == (1, 1, 3, 3)
