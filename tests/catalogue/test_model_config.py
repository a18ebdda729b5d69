"""Laws of reading a Hugging Face config.json."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_text import CHARACTERS
from attenio.catalogue import model_from_config, model_named
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, SlidingWindow

laws = settings(deadline=None, derandomize=True, max_examples=17)
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
GPT2: dict[str, Any] = {"model_type": "gpt2", "n_head": 12, "n_embd": 768, "n_layer": 12, "n_positions": 1024}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
}
VIT: dict[str, Any] = {
    "model_type": "vit",
    "hidden_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "image_size": 224,
    "patch_size": 16,
}
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 4096, "head_dim": None}


def test_llama_shares_keys_between_heads() -> None:
    model = model_from_config(LLAMA)
    assert model.prefill == model_named("llama-3-8b").prefill
    assert (model.layers, model.context, model.mask, model.dtype) == (32, 131072, Causal(), ElementType.BF16)


def test_gpt2_spells_its_keys_its_own_way() -> None:
    model = model_from_config(GPT2)
    assert (model.prefill.heads, model.prefill.kv_heads, model.prefill.d, model.layers) == (12, 12, 64, 12)
    assert model.context == 1024


def test_a_latent_model_gets_the_shapes_of_the_catalogue_s() -> None:
    model, known = model_from_config(DEEPSEEK), model_named("deepseek-v3")
    assert (model.prefill, model.decode, model.scale) == (known.prefill, known.decode, known.scale)


def test_a_vision_model_counts_its_patches_and_the_class_token() -> None:
    model, known = model_from_config(VIT), model_named("vit-b-16")
    assert (model.prefill, model.context, model.mask) == (known.prefill, 197, Dense())


def test_a_stated_head_width_wins_over_the_hidden_size() -> None:
    assert model_from_config({**LLAMA, "head_dim": 256}).prefill.d == 256


def test_the_language_model_inside_a_multi_modal_one_is_found() -> None:
    nested = {"model_type": "llava", "text_config": LLAMA, "vision_config": VIT}
    assert model_from_config(nested).prefill == model_from_config(LLAMA).prefill
    deeper = {"model_type": "omni", "thinker_config": {"text_config": MISTRAL}}
    assert model_from_config(deeper).mask == SlidingWindow(width=4096)


@pytest.mark.parametrize(
    ("extra", "mask"),
    [
        ({}, SlidingWindow(width=4096)),
        ({"sliding_window": None}, Causal()),
        ({"use_sliding_window": False}, Causal()),
        ({"layer_types": ["full_attention"] * 4}, Causal()),
        ({"layer_types": ["sliding_attention"] * 4}, SlidingWindow(width=4096)),
        ({"layer_types": ["sliding_attention", "full_attention"]}, Causal()),
        ({"sliding_window_pattern": 6}, Causal()),
        ({"model_type": "gemma2"}, Causal()),
    ],
)
def test_a_window_is_the_mask_when_every_layer_has_it(extra: dict[str, Any], mask: object) -> None:
    assert model_from_config({**MISTRAL, **extra}).mask == mask


def test_layers_that_alternate_are_said_to() -> None:
    model = model_from_config({**MISTRAL, "model_type": "gemma2", "query_pre_attn_scalar": 256})
    assert "window:4096" in model.description
    assert model.scale == 1 / 16


@pytest.mark.parametrize(
    ("extra", "kv_heads"),
    [({"multi_query": True}, 1), ({"multi_query_group_num": 2}, 2), ({"multi_query": True, "num_kv_heads": 12}, 1),
     ({"multi_query": True, "num_kv_heads": 4, "new_decoder_architecture": True}, 4)],
)  # fmt: skip
def test_heads_that_share_keys_are_counted_however_it_is_said(extra: dict[str, Any], kv_heads: int) -> None:
    assert model_from_config({**GPT2, **extra}).prefill.kv_heads == kv_heads


@pytest.mark.parametrize(
    ("config", "key"),
    [(LLAMA, "num_attention_heads"), (LLAMA, "num_hidden_layers"), (LLAMA, "hidden_size"),
     (DEEPSEEK, "qk_nope_head_dim"), (DEEPSEEK, "qk_rope_head_dim"), (DEEPSEEK, "v_head_dim")],
)  # fmt: skip
def test_a_missing_key_is_named(config: dict[str, Any], key: str) -> None:
    with pytest.raises(InvalidInput, match=f"^config: {key}.* is missing; add it"):
        model_from_config({name: value for name, value in config.items() if name != key})


@laws
@given(
    st.sampled_from(["num_attention_heads", "num_key_value_heads", "num_hidden_layers", "hidden_size"]),
    st.one_of(
        st.integers(max_value=0),
        st.floats(),
        st.text(CHARACTERS, max_size=3),
        st.booleans(),
        st.just([32]),
        st.just(10**13),
    ),
)
def test_a_value_that_is_no_count_is_named(key: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"^config: {key} is "):
        model_from_config({**LLAMA, key: value})


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"num_key_value_heads": 5}, "32 query heads cannot share 5 KV heads"),
        ({"hidden_size": 100}, "hidden size 100 does not divide into 32 heads; add head_dim"),
        ({"torch_dtype": "int8"}, "torch_dtype is 'int8'; known are float32"),
        ({"query_pre_attn_scalar": float("nan")}, "query_pre_attn_scalar is nan"),
        ({"attention_multiplier": True}, "attention_multiplier is True"),
    ],
)
def test_values_that_do_not_go_together_are_refused(extra: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        model_from_config({**LLAMA, **extra})


def test_a_file_and_its_folder_are_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({k: v for k, v in LLAMA.items() if k != "model_type"}))
    from_file, from_folder = model_named(str(folder / "config.json")), model_named(str(folder))
    assert from_file == from_folder
    assert from_file.name == "my-model"
    assert from_file.source == str(folder / "config.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b": }', "line 2: Expecting value; the JSON is broken here"),
        (b"", "line 1: Expecting value"),
        (b"[1, 2]", "holds list, not the keys of a model"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_config_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        model_from_config(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"config\.json' does not exist; give a config.json or its folder"):
        model_named(str(tmp_path))


def test_a_config_object_of_transformers_is_read_as_its_file_is() -> None:
    config = pytest.importorskip("transformers").LlamaConfig(num_key_value_heads=8)
    assert model_from_config(config) == model_from_config(config.to_dict())
    assert model_from_config(config).prefill.kv_heads == 8


@pytest.mark.parametrize("wrong", [None, 5, ["config.json"]])
def test_what_is_no_config_is_refused_in_a_line(wrong: object) -> None:
    with pytest.raises(InvalidInput, match=r"config is .*; give a config\.json"):
        model_from_config(wrong)


def test_sinks_and_caps_of_a_file_are_those_of_its_workloads() -> None:
    capped = model_from_config({**MISTRAL, "model_type": "gemma2", "attn_logit_softcapping": 50.0}).workload(n=64)
    sunk = model_from_config({**MISTRAL, "model_type": "gpt_oss"}).workload(n=64, decode=True)
    assert (capped.softcap, capped.sinks, sunk.softcap, sunk.sinks) == (50.0, False, None, True)
    assert model_named("gpt-oss-120b-local").workload(n=4096).sinks
    assert model_named("gemma-2-9b-local").workload(n=4096).softcap == 50
    with pytest.raises(InvalidInput, match="attn_logit_softcapping is -1"):
        model_from_config({**MISTRAL, "attn_logit_softcapping": -1})
