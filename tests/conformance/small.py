"""Small models of every decoder architecture that the installed transformers knows, with random weights.

Nothing here names an architecture: the list is that of its own mapping, a configuration begins with its class's
defaults, and fields that many of them share are made small.
"""

import copy
import re
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

__all__ = ["VOCABULARY", "architectures", "built", "configured"]

VOCABULARY = 96
LARGEST = 2**24
# By patterns of names: what a field of a configuration becomes. The first pattern that fits decides.
SIZES: tuple[tuple[str, int], ...] = (
    (r"vocab_size|vocab_size_per_layer_input", VOCABULARY),
    (r"num_local_experts|n_routed_experts|num_experts|moe_num_experts|num_experts_total", 4),
    (r"num_experts_per_tok(en)?|moe_topk|top_k_experts|num_selected_experts|moe_k|moe_top_k|zero_expert_num", 2),
    (r"(moe_)?(n|topk|num)_(expert_)?groups?|(moe_)?(n|num)_shared_experts", 1),
    (r"first_k_dense_replace|num_dense_layers|moe_layer_start_index", 1),
    (r"num_kv_shared_layers|num_nextn_predict_layers|num_mtp_layers|mtp_num_hidden_layers", 0),
    (r"(num_hidden_layers|n_layers?|num_layers|decoder_layers|n_layer|encoder_layers)", 2),
    (r"(swa_|linear_|global_)?(num_key_value_heads|num_kv_heads|num_key_heads)|num_global_key_value_heads", 2),
    (r"(swa_)?(num_attention_heads|n_heads?|decoder_attention_heads|encoder_attention_heads|num_heads)", 4),
    (r"index_n_heads|mamba_n_heads|linear_num_value_heads|num_value_heads", 4),
    (r"linear_num_key_heads", 2),
    (r"q_lora_rank|kv_lora_rank|o_lora_rank", 24),
    (r"qk_head_dim", 24),
    (r"(swa_)?(head_dim|v_head_dim|qk_nope_head_dim|head_size|kv_channels|attention_head_dim)", 16),
    (r"index_head_dim|global_head_dim|linear_(key|value)_head_dim|cca_head_dim", 16),
    (r"qk_rope_head_dim", 8),
    (r"hidden_size|n_embd|d_model|dim|word_embed_proj_dim|lru_width|embedding_size|emb_dim|input_hidden_size", 64),
    (r"hidden_size_per_layer_input", 16),
    (r"sliding_window|attention_window_size|attention_chunk_size|local_attention|window_size|chunk_size", 8),
    (r"index_topk", 6),
    (r"mamba_d_state|mamba_chunk_size|ssm_state_size", 16),
    (r"mamba_d_head|mamba_headdim|mamba_head_dim", 32),
    (r"mamba_d_ssm|mamba_intermediate_size", 128),
    (r"rotary_dim", 8),
    (r"query_pre_attn_scalar", 16),
    (r"(attn|expert)_layer_period", 2),
    (r"(attn|expert)_layer_offset", 1),
    (r".*intermediate_size.*|ffn_dim|n_inner|d_ff|.*ffn_dim|.*ffn_hidden_size.*", 96),
    (r"max_position_embeddings|n_positions|max_seq_len|n_ctx", 256),
)
# Parameters that make queries and keys, fused with values or not.
QUERIES_AND_KEYS = (
    r"(^|[._])(q|k|query|key|qkv|kv|c_attn|Wqkv|query_key_value|[qk]_\w+|kv_\w+|[Ww][qk]|[qk]_proj\.linear)"
    r"(_proj)?\.weight$"
)
# Fields without a default that is a number, which no model does without.
UNSET = ("head_dim", "n_shared_experts", "num_key_value_heads", "num_experts_per_tok", "n_routed_experts")
# Tokens that mean something to a loss, a cache or an end of a text are the first few.
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 3, "decoder_start_token_id": 1}


def architectures() -> tuple[str, ...]:
    """The model types that this transformers builds a causal language model of."""
    return tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


def configured(model_type: str) -> PreTrainedConfig:
    """A small configuration of this type, or why there is none: it does not fit, or it is still large."""
    config = _shrunk(CONFIG_MAPPING[model_type])
    with torch.device("meta"):
        outline = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    size = sum(parameter.numel() for parameter in outline.parameters())
    if size > LARGEST:
        raise ValueError(f"it has {size:,} parameters where others have fewer than {LARGEST:,}")
    return config


def built(config: PreTrainedConfig, implementation: str) -> PreTrainedModel:
    """A model in evaluation mode; the same weights for every implementation."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation)
    spread(model)
    return model.float().eval()


def spread(model: PreTrainedModel) -> None:
    """Scale what makes queries and keys, so that scores differ, and draw sinks and every bias."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not torch.isfinite(parameter).all() or re.search(r"sinks?$", name):
                parameter.copy_(torch.randn(parameter.shape, generator=draw))
            elif re.search(QUERIES_AND_KEYS, name):
                parameter.mul_(8.0 if parameter.dim() > 1 else 1.5)


def _shrunk(config_class: type[PreTrainedConfig]) -> PreTrainedConfig:
    default = config_class()
    nested = {name: getattr(default, name, None) for name in config_class.sub_configs}
    parts = {name: _shrunk(type(part)) for name, part in nested.items() if isinstance(part, PreTrainedConfig)}
    given = {name: value for name, value in default.to_dict().items() if name not in nested}
    sizes = {name: size for name, value in given.items() if (size := _small(name, value)) is not None}
    layers = _layers(given)
    if "qk_rope_head_dim" in sizes:  # the rotated part of a head is what they call its width
        sizes["head_dim"] = sizes["qk_rope_head_dim"]
    if "kv_lora_rank" in sizes:  # each head makes keys of its own of the latent
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    return config_class(**{**sizes, **layers, **parts})


def _small(name: str, value: Any) -> int | None:
    if name in TOKENS:
        return TOKENS[name]
    if name == "is_decoder":
        return True
    if isinstance(value, bool) or not (isinstance(value, int) or (value is None and name in UNSET)):
        return None
    return next((size for pattern, size in SIZES if re.fullmatch(pattern, name)), None)


def _layers(given: dict[str, Any]) -> dict[str, Any]:
    """One layer of each kind, where kinds are listed; two otherwise."""
    if "attn_layer_indices" in given:
        return {"attn_layer_indices": [1]}
    if "layer_types" not in given:
        return {}
    kinds = given["layer_types"] or ["full_attention"]
    once = list(dict.fromkeys(kinds))
    once = once if len(once) > 1 else once * 2
    return {"layer_types": once, "num_hidden_layers": len(once)}
