"""``attn_implementation="attenio"`` for Hugging Face transformers.

import attenio.kernels.transformers as attenio_transformers
attenio_transformers.register()
model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="attenio")
"""

from typing import Any

from torch import Tensor

from attenio.errors import MissingExtra
from attenio.kernels.attention import attention

__all__ = ["register"]

NAME = "attenio"


def register() -> None:
    """Make ``attn_implementation="attenio"`` known, with the masks that it takes for sdpa."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError:
        raise MissingExtra("attention for Hugging Face transformers", "transformers") from None
    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def forward(  # noqa: PLR0913 - the interface of transformers
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_others: Any,
) -> tuple[Tensor, None]:
    """One layer's attention over (batch, heads, tokens, width); the output has tokens before heads, as asked there."""
    causal = bool(is_causal if is_causal is not None else getattr(module, "is_causal", True))
    # Where the mask was left out, a query of its own sees all keys; more queries see those up to their own.
    causal = causal and attention_mask is None and bool(query.shape[2] > 1)
    if attention_mask is not None:
        attention_mask = attention_mask[..., : key.shape[2]]
    output = attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        is_causal=causal,
        scale=scaling,
        enable_gqa=bool(query.shape[1] != key.shape[1]),
    )
    return output.transpose(1, 2).contiguous(), None
