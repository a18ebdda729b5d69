"""``attn_implementation="attenio"`` for Hugging Face transformers.

import attenio.kernels.transformers as attenio_transformers
attenio_transformers.register()
model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="attenio")

A model hands its attention more than queries, keys, values and a mask. What is honoured has a parameter of ``forward``,
what cannot change the result is listed in ``HARMLESS``, and anything else is refused by its name: nothing is dropped.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attenio.errors import InvalidInput, MissingExtra
from attenio.kernels.attention import attention
from attenio.kernels.call import absorption
from attenio.kernels.call.pages.views import KeysInPages
from attenio.kernels.cpu.few_scores import few_scores
from attenio.kernels.torch_operator.tracing import trace_as_constant

if TYPE_CHECKING:
    from attenio.kernels.call.pages.generation import GenerationCache as GenerationCache

NAME = "attenio"

# What models hand over that changes no result of attention, and why not.
HARMLESS = {
    "cache_position": "where new keys go in the cache; they are there already, and the mask counts from them",
    "encoder_hidden_states": "what keys and values of cross attention were made of",
    "input_ids": "what queries, keys and values were made of",
    "inputs_embeds": "what queries, keys and values were made of",
    "labels": "for the loss",
    "logits_to_keep": "for the logits",
    "num_items_in_batch": "for the loss",
    "output_hidden_states": "for the model's output",
    "output_router_logits": "for the model's output",
    "past_key_value": "the cache, which keys and values have been through",
    "past_key_values": "the cache, which keys and values have been through",
    "position_embeddings": "applied to queries and keys",
    "position_ids": "applied to queries and keys; the mask holds where packed sequences begin",
    "return_dict": "for the model's output",
    "shift_labels": "for the loss",
    "use_cache": "keys and values have been through the cache",
}
# What changes the result and is not computed here: what it is, and what to do instead.
PACKED = "packed sequences; leave it out and give position_ids that begin again with each sequence"
REFUSED = {
    "position_bias": 'a bias on scores; use attn_implementation="sdpa" or "eager"',
    "indices": 'keys picked for each query; use attn_implementation="sdpa" or "eager"',
    "block_indices": 'blocks of keys picked for each query; use attn_implementation="sdpa" or "eager"',
    "head_mask": 'a mask over heads; use attn_implementation="eager"',
    "layer_head_mask": 'a mask over heads; use attn_implementation="eager"',
    "output_attentions": 'the weights, which are never stored; use attn_implementation="eager"',
    "cache": 'a paged cache of continuous batching; use attn_implementation="sdpa"',
    "cu_seq_lens_q": PACKED,
    "cu_seq_lens_k": PACKED,
    "max_length_q": PACKED,
    "max_length_k": PACKED,
    "seq_idx": PACKED,
}
WINDOW = 'a window that no mask holds; use attn_implementation="sdpa" or "eager", which may leave it out'
ELSEWHERE = "sequences that are spread over devices take none; train this model on whole ones"
UNKNOWN = 'an argument that attenio does not know; use attn_implementation="sdpa" or "eager"'


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """What a layer hands to its attention, where something else than this device computes it.

    ``window``: the last so many keys up to a query's own, if the layer has one.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    attention_mask: Tensor | None
    causal: bool
    window: int | None
    scale: float | None
    dropout: float


_elsewhere: ContextVar[Callable[[Layer], Tensor] | None] = ContextVar("elsewhere", default=None)


@contextmanager
def instead_of_attention(attend: Callable[[Layer], Tensor]) -> Iterator[None]:
    """Within it, layers are computed by ``attend``; their masks are left to it and not made."""
    token = _elsewhere.set(attend)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def register() -> None:
    """Make ``attn_implementation="attenio"`` known, with the masks that it takes for sdpa."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError:
        raise MissingExtra("attention for Hugging Face transformers", "transformers") from None
    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, mask)


def absorb(model: Any) -> Any:
    """Have layers that cache a latent, as those of DeepSeek-V3, attend to it without expanding it, where that is less.

    Results are those of the model to rounding; the model is changed and given back.
    """
    return absorption.absorb(model, NAME)


def mask(*sizes: Any, config: Any = None, **others: Any) -> Tensor | None:
    """The mask of a layer: as for sdpa where the model declares that it takes those, and else as for eager.

    sdpa's are boolean, or left out where causality says it all; a model with attention of its own would add True to its
    scores, and see the future where there is no mask.
    """
    if _elsewhere.get() is not None:
        _refuse_padding(others.get("attention_mask"))
        return None
    from transformers.masking_utils import eager_mask, sdpa_mask

    make = sdpa_mask if config is None or _takes_masks_of_sdpa(config.__class__) else eager_mask
    mask: Tensor | None = make(*sizes, config=config, **others)
    return mask


def forward(  # noqa: PLR0913 - the interface of transformers
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    deterministic: bool | None = None,
    s_aux: Tensor | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """One layer's attention over (batch, heads, tokens, width); the output has tokens before heads, as asked there."""
    for name, given in others.items():
        if given is not None and name not in HARMLESS and not (given is False and name in REFUSED):
            raise _refusal(module, name, REFUSED.get(name, UNKNOWN))
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
    elsewhere = _elsewhere.get()
    if elsewhere is not None:
        for name, given in (("s_aux", s_aux), ("softcap", softcap)):
            if given is not None:
                raise _refusal(module, name, ELSEWHERE)
        if absorption.is_absorbed(module):
            raise _refusal(module, "a latent", ELSEWHERE)
        layer = Layer(
            query=query, key=key, value=value, attention_mask=attention_mask, causal=causal, window=sliding_window,
            scale=scaling, dropout=dropout,
        )  # fmt: skip
        return elsewhere(layer).transpose(1, 2).contiguous(), None
    if isinstance(key, KeysInPages):
        if attention_mask is None and not dropout:
            paged = attention(
                query, key.cache.keys[key.layer], key.cache.values[key.layer], is_causal=causal, scale=scaling,
                window=sliding_window, sinks=s_aux, softcap=softcap, pages=key.cache.table(key.requests, key.layer),
                page_scales=key.cache.scales(key.layer),
            )  # fmt: skip
            return paged.transpose(1, 2).contiguous(), None
        gathered = key.cache.gathered(key.requests, key.layer)
        key, value = (each.to(query.dtype) for each in gathered)
    # Where the mask was left out, a query of its own sees all keys; more queries see those up to their own.
    causal = causal and attention_mask is None and bool(query.shape[2] > 1)
    if attention_mask is not None:
        attention_mask = attention_mask[..., : key.shape[2]]
    elif sliding_window is not None and key.shape[2] > sliding_window:  # masks hold windows where these bite
        raise _refusal(module, "sliding_window", WINDOW)
    scores: dict[str, Any] = {} if s_aux is softcap is None else {"sinks": s_aux, "softcap": softcap}
    if scores and not (causal or dropout or absorption.is_absorbed(module)):
        few = few_scores(query, key, value, attention_mask, scale=scaling, **scores)
        if few is not None:
            return few.transpose(1, 2).contiguous(), None
    attend: Callable[..., Tensor] = partial(
        attention, attn_mask=attention_mask, dropout_p=dropout, is_causal=causal, scale=scaling, enable_gqa=True,
        deterministic=bool(deterministic), **scores,
    )  # fmt: skip
    if absorption.is_absorbed(module):
        output = absorption.attend_latents(module, query, key, attend)
    else:
        output = attend(query, key, value, enable_gqa=bool(query.shape[1] != key.shape[1]))
    return output.transpose(1, 2).contiguous(), None


def _refuse_padding(padding: Tensor | None) -> None:
    """Elsewhere what is visible follows from positions, and padding would be lost."""
    if padding is not None and not bool(padding.all()):
        raise InvalidInput(
            "attention_mask hides some tokens, and sequences that are spread over devices take none; leave it out"
        )


def _refusal(module: Any, name: str, what: str) -> InvalidInput:
    model = getattr(getattr(module, "config", None), "model_type", None) or type(module).__name__
    return InvalidInput(f"attenio does not compute {name!r}, which {model} hands to its attention: {what}")


@trace_as_constant
def _takes_masks_of_sdpa(config_class: Any) -> bool:
    return _declares_sdpa(config_class)


@cache
def _declares_sdpa(config_class: type) -> bool:
    """Whether the models of this configuration declare sdpa; says so where they do not ask the interface at all."""
    for parent in config_class.__mro__:
        modeling = sys.modules.get(parent.__module__.replace(".configuration_", ".modeling_"))
        models = [
            each
            for each in vars(modeling or object).values()
            if isinstance(each, type) and getattr(each, "config_class", None) is parent
        ]
        if models:
            break
    else:
        return False
    homes = {base.__module__ for each in models for base in each.__mro__} - {"transformers.modeling_utils"}
    if not any("ALL_ATTENTION_FUNCTIONS" in vars(sys.modules[home]) for home in homes):
        warnings.warn(
            f"{models[0].__name__} computes attention by itself, without asking for an implementation: "
            "what is right stays right, and attenio is not used there",
            stacklevel=2,
        )
    return all(getattr(each, "_supports_sdpa", False) for each in models)


def __getattr__(name: str) -> Any:
    """``GenerationCache``, which is a class of transformers and is made when it is asked for."""
    if name != "GenerationCache":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from attenio.kernels.call.pages.generation import GenerationCache

    return GenerationCache
