"""From the arguments that restrict a call to what each query may see."""

from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.checks import TensorMismatch
from attenio.kernels.call.packing import packed_by, segment_ranges
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.masks import BlockSparse
from attenio.names import show_value
from attenio.quantities import show_shape


def visibility_of(query: Tensor, key: Tensor, asked: CallArguments, batch: tuple[int, ...]) -> Visibility:
    """All restrictions of a call with queries and keys (batch, heads, tokens, width)."""
    queries, keys = query.shape[2], key.shape[2]
    left, right = _window(asked.window)
    below, above = band_between(left, right, keys - queries)
    if asked.is_causal:
        above = min(above, 0)
    ranges: dict[str, Any] = {"below": below, "above": above}
    packed = packed_by(asked.cu_seqlens, asked.segment_ids, asked.segments, query, key)
    if packed.lengths is not None:
        first, stop = segment_ranges(packed.lengths, queries, (left, right), is_causal=bool(asked.is_causal))
        ranges = {"first": first[None], "stop": stop[None], "segments": packed.lengths[0].shape[0] - 1}
    if packed.ids is not None:
        ranges["query_ids"], ranges["key_ids"] = packed.ids
    if asked.block_mask is not None:
        given = asked.block_mask
        blocks = given if isinstance(given, BlockSparse) else BlockSparse.from_array(np.asarray(given))
        _check_blocks(blocks, queries, keys)
        ranges |= {
            "blocks": _layout_on(query.device, blocks),
            "query_block": blocks.query_block,
            "key_block": blocks.key_block,
        }
    if asked.attn_mask is not None:
        ranges["bias"] = _four(asked.attn_mask, query, keys, batch)
    return Visibility(**ranges, group=query.shape[1] // max(1, key.shape[1]))


def band_between(left: int, right: int, shift: int) -> tuple[int, int]:
    """The first and the last diagonal j - i within so many keys before and after a query's own; -1 for all."""
    return -UNBOUNDED if left < 0 else shift - left, UNBOUNDED if right < 0 else shift + right


def _window(window: Any) -> tuple[int, int]:
    """Keys before and after a query's own that it sees; -1 for all."""
    if window is None:
        return -1, -1
    pair = isinstance(window, tuple | list)
    try:
        sides = tuple(map(_whole, window)) if pair else (_whole(window) - 1, 0)
    except TypeError:  # also what a mask would be compared with, and give something for
        raise InvalidInput(
            f"window is {show_value(window)}; give a whole number of keys, or two, (left, right)"
        ) from None
    if not pair and sides[0] < 0:
        raise InvalidInput(f"window is {window}; give at least 1 key, or (left, right)")
    if len(sides) != 2 or min(sides) < -1:
        raise InvalidInput(f"window is {window}; give (left, right) of at least 0, or -1 for all keys of a side")
    left, right = (-1 if side >= UNBOUNDED else side for side in sides)
    return left, right


def _whole(side: Any) -> int:
    if isinstance(side, bool):
        raise TypeError
    return index(side)


# Layouts on a GPU, by the mask that they are of, and those that a CUDA graph reads, which must not be freed.
_layouts: Any = WeakIdKeyDictionary()
_captured: dict[int, Tensor] = {}


def _layout_on(device: torch.device, blocks: BlockSparse) -> Tensor:
    """The booleans of a block mask where a kernel reads them: copied to a GPU once, never while a graph is captured."""
    if device.type != "cuda" or torch.compiler.is_compiling():
        return torch.from_numpy(blocks.array.copy())
    by_device: dict[torch.device, Tensor] = _layouts.setdefault(blocks, {})
    captured = torch.cuda.is_current_stream_capturing()
    if device not in by_device:
        if captured:
            raise InvalidInput(
                "block_mask is not on the GPU yet, and a CUDA graph is being captured; call attention once before with"
                " the same BlockSparse"
            )
        by_device[device] = torch.from_numpy(blocks.array.copy()).to(device)
    layout = by_device[device]
    if captured:
        _captured[id(layout)] = layout
    return layout


def _check_blocks(blocks: BlockSparse, queries: int, keys: int) -> None:
    needed = -(-queries // blocks.query_block), -(-keys // blocks.key_block)
    if blocks.array.shape != needed:
        raise InvalidInput(
            f"block_mask has {show_shape(blocks.array.shape)} blocks of {blocks.query_block} x {blocks.key_block};"
            f" {queries:,} queries and {keys:,} keys need {needed}"
        )


def _four(mask: Tensor, query: Tensor, keys: int, batch: tuple[int, ...]) -> Tensor:
    """A mask as (batch, heads, queries, keys) where each may be 1."""
    shape = (*batch, query.shape[1], query.shape[2], keys)
    ends = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(size not in (1, whole) for size, whole in ends):
        raise TensorMismatch(f"attn_mask has shape {show_shape(mask.shape)}; it must broadcast to {shape}")
    if mask.dim() == len(shape) == 4:
        return mask
    if mask.dim() <= 4 and len(shape) <= 4:
        return mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
    return mask.expand(shape).reshape(-1, *shape[-3:])
