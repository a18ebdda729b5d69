"""Arguments of ``attention()`` that PyTorch's function does not have."""

from typing import Any, TypedDict

from torch import Tensor

from attenio.kernels.call.masking import Packing, Window
from attenio.masks import BlockSparse, Mask


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


OPTIONS = frozenset(Options.__annotations__)
