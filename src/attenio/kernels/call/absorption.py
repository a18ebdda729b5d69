"""Absorbed latent attention for models of transformers that compress keys and values, as DeepSeek-V3 does.

Such a layer caches a latent of each token, and expands it to keys and values of all heads before every step. Absorbed,
the matrix of keys is applied to queries and that of values to outputs: scores and sums are taken from the latent
itself, which all heads share. For a few tokens that computes and moves far less; for many, keys and values are expanded
as ever.
"""

from types import MethodType
from typing import Any

import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call.latent import MOST_KEY_WIDTH, MOST_VALUE_WIDTH

_EXPANDS, _NEEDED = "expand_kv", ("kv_b_proj", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


def absorb(model: Any, name: str) -> Any:
    """Have every layer of a model that caches a latent read it as it is, where its implementation has this name."""
    layers = [each for each in model.modules() if all(hasattr(each, field) for field in (_EXPANDS, *_NEEDED))]
    if not layers:
        raise InvalidInput(
            f"{type(model).__name__} has no layer that caches a latent; absorb() is for models such as DeepSeek-V3"
        )
    for layer in layers:
        _check(layer)
        if not is_absorbed(layer):
            layer.expand_kv = MethodType(_kept(layer.expand_kv, name), layer)
    return model


def is_absorbed(layer: Any) -> bool:
    """Whether a layer hands its latent over in place of keys and values."""
    return hasattr(getattr(layer, _EXPANDS, None), "expanded")


def attend_latents(layer: Any, query: Tensor, latent: Tensor, attend: Any) -> Tensor:
    """What ``attend(query, key, value)`` gives for a layer, from its latent or from keys and values that it expands to.

    Whichever takes fewer products: a score of a latent takes more, but expanding takes some for every key.
    """
    rank, nope, width = layer.kv_lora_rank, layer.qk_nope_head_dim, layer.v_head_dim
    more = (latent.shape[-1] + rank) - (query.shape[-1] + width)
    if query.shape[2] * more >= rank * (nope + width):
        kept = latent[..., :rank], latent[..., rank:]
        output: Tensor = attend(query, *layer.expand_kv.expanded(*kept))
        return output
    weight = layer.kv_b_proj.weight.view(query.shape[1], nope + width, rank)
    absorbed = torch.cat((query[..., :nope] @ weight[:, :nope], query[..., nope:]), -1)
    of_latent: Tensor = attend(absorbed, latent, latent[..., :rank])
    return of_latent @ weight[:, nope:].mT


def _kept(expand: Any, name: str) -> Any:
    """``expand_kv`` that joins the two parts of a latent, where a layer's attention is computed here."""

    def latents(layer: Any, kv_nope: Tensor, k_rot: Tensor) -> tuple[Tensor, Tensor]:
        if layer.config._attn_implementation != name:
            expanded: tuple[Tensor, Tensor] = expand(kv_nope, k_rot)
            return expanded
        latent = torch.cat((kv_nope, k_rot), -1)
        return latent, latent[..., : layer.kv_lora_rank]

    latents.expanded = expand  # type: ignore[attr-defined]
    return latents


def _check(layer: Any) -> None:
    rank, rope = layer.kv_lora_rank, layer.qk_rope_head_dim
    if rank > MOST_VALUE_WIDTH or rank + rope > MOST_KEY_WIDTH:
        raise InvalidInput(
            f"latents are {rank} + {rope} wide; those up to {MOST_VALUE_WIDTH}, and {MOST_KEY_WIDTH} together, are"
            " computed: leave absorb() out"
        )
    projection = layer.kv_b_proj
    if getattr(projection, "bias", None) is not None or not projection.weight.is_floating_point():
        raise InvalidInput("kv_b_proj has a bias or quantised weights, which cannot be absorbed; leave absorb() out")
