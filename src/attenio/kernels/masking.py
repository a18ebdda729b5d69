"""From the arguments that restrict a call to what each query may see."""

from operator import index
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from attenio.errors import InvalidInput
from attenio.kernels.checks import TensorMismatch
from attenio.kernels.packing import packed_by, segment_ranges
from attenio.kernels.visibility import UNBOUNDED
from attenio.masks import BlockSparse

__all__ = ["Seen", "seen_by"]


class Seen(NamedTuple):
    """What ``Visibility`` is made of, as an operator takes it."""

    below: int
    above: int
    first: Tensor | None = None
    stop: Tensor | None = None
    query_ids: Tensor | None = None
    key_ids: Tensor | None = None
    blocks: Tensor | None = None
    query_block: int = 1
    key_block: int = 1
    bias: Tensor | None = None


def seen_by(  # noqa: PLR0913 - what restricts a call
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    *,
    is_causal: bool,
    window: int | tuple[int, int] | None,
    block_mask: BlockSparse | Any | None,
    batch: tuple[int, ...],
    cu_seqlens: Any = None,
    segment_ids: Any = None,
    segments: Any = None,
) -> Seen:
    """All restrictions of a call with queries and keys (batch, heads, tokens, width)."""
    queries, keys = query.shape[2], key.shape[2]
    left, right = _window(window)
    shift = keys - queries
    below = -UNBOUNDED if left < 0 else shift - left
    above = UNBOUNDED if right < 0 else shift + right
    if is_causal:
        above = min(above, 0)
    ranges: dict[str, Any] = {"below": below, "above": above}
    packed = packed_by(cu_seqlens, segment_ids, segments, query, key)
    if packed.lengths is not None:
        first, stop = segment_ranges(packed.lengths, queries, (left, right), is_causal=is_causal)
        ranges = {"below": -UNBOUNDED, "above": UNBOUNDED, "first": first[None], "stop": stop[None]}
    if packed.ids is not None:
        ranges["query_ids"], ranges["key_ids"] = packed.ids
    if block_mask is not None:
        blocks = block_mask if isinstance(block_mask, BlockSparse) else BlockSparse.from_array(np.asarray(block_mask))
        _check_blocks(blocks, queries, keys)
        ranges |= {
            "blocks": _layout_on(query.device, blocks),
            "query_block": blocks.query_block,
            "key_block": blocks.key_block,
        }
    return Seen(**ranges, bias=None if attn_mask is None else _four(attn_mask, query, keys, batch))


def _window(window: Any) -> tuple[int, int]:
    """Keys before and after a query's own that it sees; -1 for all."""
    if window is None:
        return -1, -1
    pair = isinstance(window, tuple | list)
    try:
        sides = tuple(index(side) for side in window) if pair else (index(window) - 1, 0)
    except TypeError:  # also what a mask would be compared with, and give something for
        raise InvalidInput(f"window is {window!r}; give a whole number of keys, or two, (left, right)") from None
    if not pair and sides[0] < 0:
        raise InvalidInput(f"window is {window}; give at least 1 key, or (left, right)")
    if len(sides) != 2 or min(sides) < -1:
        raise InvalidInput(f"window is {window}; give (left, right) of at least 0, or -1 for all keys of a side")
    return sides[0], sides[1]


# Layouts on a GPU, by the mask that they are of, and those that a CUDA graph reads, which nobody may free.
_layouts: Any = WeakIdKeyDictionary()
_captured: dict[int, Tensor] = {}


def _layout_on(device: torch.device, blocks: BlockSparse) -> Tensor:
    """The booleans of a block mask where a kernel reads them: copied to a GPU once, never while a graph is captured."""
    if device.type != "cuda" or torch.compiler.is_compiling():
        return torch.from_numpy(blocks.array.copy())
    found: dict[torch.device, Tensor] = _layouts.setdefault(blocks, {})
    captured = torch.cuda.is_current_stream_capturing()
    if device not in found:
        if captured:
            raise InvalidInput(
                "block_mask is not on the GPU yet, and a CUDA graph is being captured; call attention once before with"
                " the same BlockSparse"
            )
        found[device] = torch.from_numpy(blocks.array.copy()).to(device)
    layout = found[device]
    if captured:
        _captured[id(layout)] = layout
    return layout


def _check_blocks(blocks: BlockSparse, queries: int, keys: int) -> None:
    needed = -(-queries // blocks.query_block), -(-keys // blocks.key_block)
    if blocks.array.shape != needed:
        raise InvalidInput(
            f"block_mask has {blocks.array.shape} blocks of {blocks.query_block} x {blocks.key_block};"
            f" {queries:,} queries and {keys:,} keys need {needed}"
        )


def _four(mask: Tensor, query: Tensor, keys: int, batch: tuple[int, ...]) -> Tensor:
    """A mask as (batch, heads, queries, keys) where each may be 1."""
    shape = (*batch, query.shape[1], query.shape[2], keys)
    ends = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(size not in (1, whole) for size, whole in ends):
        raise TensorMismatch(f"attn_mask has shape {tuple(mask.shape)}; it must broadcast to {shape}")
    if mask.dim() == len(shape) == 4:
        return mask
    if mask.dim() <= 4 and len(shape) <= 4:
        return mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
    return mask.expand(shape).reshape(-1, *shape[-3:])
