"""Models described by a Hugging Face ``config.json``, read from disk or given as a dictionary; nothing is fetched."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attenio.catalogue.models import HeadShape, Model, models
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.names import checked_kind, did_you_mean, show_value
from attenio.quantities import checked_count

# Families spell the same thing differently; the first key present wins.
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEAD_WIDTH = ("head_dim", "d_kv", "attention_head_dim", "kv_channels")
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length")
# Where a multi-modal model keeps its language model.
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "text_model_config")
_ENCODERS = (
    "vit", "deit", "beit", "dinov2", "dinov3_vit", "clip_vision_model", "siglip_vision_model", "vit_mae", "ijepa",
    "bert", "roberta", "distilbert", "electra", "xlm-roberta", "albert", "camembert", "mpnet", "esm", "wav2vec2",
    "hubert",
)  # fmt: skip
# Sliding and global layers alternate in these, even where the file does not say which layer is which.
_ALTERNATING = ("gemma2", "gemma3", "gemma3_text", "cohere2", "gpt_oss")
# Each query head has a sink, which no key of the file says.
_WITH_SINKS = ("gpt_oss",)
_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8"}


def model_from_config(config: Any) -> Model:
    """The model that a ``config.json`` describes: its path, its folder, its content, or transformers' config object.

    >>> model_from_config({"n_head": 12, "n_embd": 768, "n_layer": 12, "n_positions": 1024}).prefill.d
    64
    """
    if callable(to_dict := getattr(config, "to_dict", None)) and not isinstance(config, type):
        config = to_dict()  # a PretrainedConfig of transformers
    if isinstance(config, Mapping):
        place, content, name = "config", dict(config), "config"
    else:
        if not isinstance(config, str | Path):
            raise InvalidInput(
                f"config is {show_value(config)}; give a config.json, its folder, its content, or"
                " transformers' config object"
            )
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        place, content = str(path), _content(path)
        name = path.resolve().parent.name or "config"
    inner = _language_part(content)
    return _Reader(place, inner).model(str(content.get("_name_or_path") or content.get("model_type") or name))


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"model file {str(path)!r} does not exist; give a config.json or its folder") from None
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"model file {str(path)!r} is not UTF-8 text (byte {problem.start}); save it so") from None
    except OSError as problem:
        raise InvalidInput(f"model file {str(path)!r} cannot be read: {problem.strerror}; give a config.json") from None
    except json.JSONDecodeError as problem:
        raise InvalidInput(f"{path} line {problem.lineno}: {problem.msg}; the JSON is broken here, mend it") from None
    except RecursionError:
        raise InvalidInput(f"{path} is nested too deeply to be a model's config.json; check the file") from None
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} holds {type(content).__name__}, not the keys of a model; give its config.json")
    return content


def _language_part(config: dict[str, Any]) -> dict[str, Any]:
    """The part that has attention heads: the config itself, or the language model nested in it."""
    if any(config.get(key) is not None for key in _HEADS):
        return config
    for key in _NESTED:
        if isinstance(config.get(key), dict):
            return _language_part(config[key])
    return config


class _Reader:
    """Finds each number under whichever key the family uses, and names the keys when there is none."""

    def __init__(self, place: str, config: Mapping[str, Any]) -> None:
        self.place = place
        self.config = config

    def model(self, name: str) -> Model:
        heads = self._count(_HEADS)
        prefill, decode, scale = self._latent(heads) if self._present(("kv_lora_rank",)) else self._plain(heads)
        mask, note = self._mask()
        return Model(
            name=name,
            layers=self._count(_LAYERS),
            prefill=prefill,
            decode=decode,
            context=self._context(),
            mask=mask,
            dtype=self._dtype(),
            scale=scale,
            description=note,
            source=self.place,
            sinks=self.config.get("model_type") in _WITH_SINKS,
            softcap=self._positive("attn_logit_softcapping"),
        )

    def _plain(self, heads: int) -> tuple[HeadShape, HeadShape, float | None]:
        d = self._count(_HEAD_WIDTH) if self._present(_HEAD_WIDTH) else self._divided_width(heads)
        if self.config.get("multi_query") and not self.config.get("new_decoder_architecture"):
            kv_heads = 1  # Falcon's older files also state num_kv_heads, which it then ignores
        else:
            kv_heads = self._count(_KV_HEADS) if self._present(_KV_HEADS) else heads
        if heads % kv_heads:
            raise InvalidInput(
                f"{self.place}: {heads} query heads cannot share {kv_heads} KV heads evenly; mend the file"
            )
        shape = HeadShape(heads=heads, kv_heads=kv_heads, d=d, value_dim=d)
        scale = self._positive("attention_multiplier")
        scalar = self._positive("query_pre_attn_scalar")
        return shape, shape, scale if scale is not None else (None if scalar is None else scalar**-0.5)

    def _latent(self, heads: int) -> tuple[HeadShape, HeadShape, float | None]:
        latent = self._count(("kv_lora_rank",))
        own, rotary = self._count(("qk_nope_head_dim",)), self._count(("qk_rope_head_dim",))
        values = self._count(("v_head_dim",))
        expanded = HeadShape(heads=heads, kv_heads=heads, d=own + rotary, value_dim=values)
        note = (
            f"values are the first {latent} of the {latent + rotary} words of a key, a latent that is read once;"
            " a kernel that takes K and V as separate arrays moves"
            f" up to {(2 * latent + rotary) / (latent + rotary):.2g} times as much"
        )
        wide = latent + rotary
        absorbed = HeadShape(heads=heads, kv_heads=1, d=wide, value_dim=latent, note=note, values_in_keys=True)
        return expanded, absorbed, (own + rotary) ** -0.5

    def _divided_width(self, heads: int) -> int:
        hidden = self._count(_HIDDEN)
        if hidden % heads:
            raise InvalidInput(f"{self.place}: hidden size {hidden} does not divide into {heads} heads; add head_dim")
        return hidden // heads

    def _context(self) -> int | None:
        if self._present(("image_size",)) and self._present(("patch_size",)):
            image, patch = self._count(("image_size",)), self._count(("patch_size",))
            return (image // patch) ** 2 + 1  # the patches and the class token
        return self._count(_CONTEXT) if self._present(_CONTEXT) else None

    def _mask(self) -> tuple[Dense | Causal | SlidingWindow, str]:
        if self.config.get("model_type") in _ENCODERS and not self.config.get("is_decoder"):
            return Dense(), ""
        if not self._present(("sliding_window",)) or self.config.get("use_sliding_window") is False:
            return Causal(), ""
        window = self._count(("sliding_window",))
        kinds = set(self.config.get("layer_types") or ())
        if kinds == {"full_attention"}:
            return Causal(), ""
        mixed = len(kinds) > 1 or "sliding_window_pattern" in self.config
        if mixed or (not kinds and self.config.get("model_type") in _ALTERNATING):
            return (
                Causal(),
                f"Some layers see the last {window:,} positions only (mask window:{window}); this one sees all.",
            )
        return SlidingWindow(width=window), ""

    def _dtype(self) -> ElementType:
        name = str(self.config.get("torch_dtype") or self.config.get("dtype") or "bfloat16").removeprefix("torch.")
        if name not in _DTYPES:
            raise InvalidInput(f"{self.place}: torch_dtype is {name!r}; known are {', '.join(_DTYPES)}")
        return ElementType.named(_DTYPES[name])

    def _present(self, keys: tuple[str, ...]) -> bool:
        return any(self.config.get(key) is not None for key in keys)

    def _count(self, keys: tuple[str, ...]) -> int:
        for key in keys:
            value = self.config.get(key)
            if value is not None:
                return checked_count(f"{self.place}: {key}", value)
        others = f" (or {', '.join(keys[1:])})" if len(keys) > 1 else ""
        raise InvalidInput(f"{self.place}: {keys[0]}{others} is missing; add it, or use --heads, --d and so on instead")

    def _positive(self, key: str) -> float | None:
        value = self.config.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InvalidInput(f"{self.place}: {key} is {value!r}; give a finite number above zero")
        return float(value)


def model_named(name: str) -> Model:
    """The model with this name, in any case, or the one a Hugging Face ``config.json`` (or its folder) describes.

    A name of the catalogue comes before a folder that is called the same; ``./name`` is always the folder.
    """
    checked_kind(name, str, "model", "a name such as 'llama-3-70b' ('attenio models' lists all)")
    if name.lower().endswith(".json") or "/" in name or "\\" in name or name == ".":
        return model_from_config(name)
    for model in models():
        if model.name == name.lower():
            return model
    if name and (Path(name) / "config.json").is_file():
        return model_from_config(name)
    hint = did_you_mean(name, [model.name for model in models()])
    raise InvalidInput(f"unknown model {name!r}; {hint}'attenio models' lists all, and a path to config.json reads it")
