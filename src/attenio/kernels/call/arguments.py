"""The arguments of ``attention()`` behind query, key and value: once for everything that takes them."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple, TypeAlias, TypedDict

from torch import Tensor

from attenio.masks import BlockSparse, Mask

# One for queries and keys alike, or one for each.
Packing: TypeAlias = Tensor | tuple[Tensor, Tensor]
Window: TypeAlias = int | tuple[int, int]
# attn_mask, dropout_p, is_causal, scale and enable_gqa.
OfPyTorch: TypeAlias = tuple[Tensor | None, float, bool | str, float | None, bool]


class Options(TypedDict, total=False):
    """What ``attention()`` takes beyond the arguments of ``scaled_dot_product_attention``."""

    window: Window | None
    cu_seqlens: Packing | None
    segment_ids: Packing | None
    block_mask: BlockSparse | Any | None
    prefix: int | None
    tolerance: float | None
    deterministic: bool
    segments: Packing | None
    mask: Mask | None
    sinks: Tensor | None
    softcap: float | None
    return_lse: bool
    pages: Any
    lengths: Any
    page_scales: tuple[Tensor, Tensor] | None


class AllOptions(Options, total=False):
    """The same, and what ``scaled_dot_product_attention`` takes behind its three tensors."""

    attn_mask: Tensor | None
    dropout_p: float
    is_causal: bool | str
    scale: float | None
    enable_gqa: bool


class CallArguments(NamedTuple):
    """All arguments of a call but query, key and value, as they are given."""

    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool | str = False
    scale: float | None = None
    enable_gqa: bool = False
    window: Window | None = None
    cu_seqlens: Packing | None = None
    segment_ids: Packing | None = None
    block_mask: BlockSparse | Any | None = None
    prefix: int | None = None
    tolerance: float | None = None
    deterministic: bool = False
    segments: Packing | None = None
    mask: Mask | None = None
    sinks: Tensor | None = None
    softcap: float | None = None
    return_lse: bool = False
    pages: Any = None
    lengths: Any = None
    page_scales: tuple[Tensor, Tensor] | None = None

    def with_window(self, window: Window | None) -> "CallArguments":
        """The same with another window, in half the time of ``_replace``: calls with a mask repeat."""
        return CallArguments._make((*self[:_WINDOW], window, *self[_WINDOW + 1 :]))

    def is_on_pages(self) -> bool:
        """Whether keys and values are pages, or something is given that belongs to pages."""
        return not (self.pages is self.lengths is self.page_scales is None)

    def has_plain_scores(self) -> bool:
        """Whether scores are only scaled and masked, and the output is all that is wanted."""
        return self.sinks is self.softcap is None and self.return_lse is False

    def is_unpacked(self) -> bool:
        """Whether at most a mask, causality and a window say what is visible, and no prefix is shared."""
        return self.cu_seqlens is self.segment_ids is self.segments is self.block_mask is self.prefix is None


_WINDOW = CallArguments._fields.index("window")


def spelled_out(door: Callable[..., Any]) -> Signature:
    """The signature of a function that takes these arguments, every one by its name and default."""
    own = signature(door)
    kinds, types = Parameter, AllOptions.__annotations__
    positional = [each for each in own.parameters.values() if each.kind is kinds.POSITIONAL_OR_KEYWORD][:3]
    keywords = [each for each in own.parameters.values() if each.kind is kinds.KEYWORD_ONLY]
    options = [
        Parameter(
            name, kinds.KEYWORD_ONLY if name in Options.__annotations__ else kinds.POSITIONAL_OR_KEYWORD,
            default=default, annotation=types[name],
        )
        for name, default in CallArguments._field_defaults.items()
    ]  # fmt: skip
    return own.replace(parameters=[*positional, *options, *keywords])
