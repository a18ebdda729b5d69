"""From the arguments that restrict a call to what each query may see."""

from functools import lru_cache
from itertools import accumulate
from operator import index
from typing import Any, NamedTuple, TypeAlias, assert_never

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from attenio.errors import InvalidInput
from attenio.kernels.call.checks import TensorMismatch, WrongType
from attenio.kernels.call.packing import packed_by, segment_ranges
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.masks import BlockSparse, Causal, Dense, Documents, Layout, Mask, SharedPrefix, SlidingWindow, check_mask

# One for queries and keys alike, or one for each.
Packing: TypeAlias = Tensor | tuple[Tensor, Tensor]
Window: TypeAlias = int | tuple[int, int]


class MaskArguments(NamedTuple):
    """The arguments of ``attention`` that restrict what is seen, as they are given; and the prefix that is shared."""

    attn_mask: Tensor | None = None
    is_causal: bool = False
    window: Window | None = None
    cu_seqlens: Packing | None = None
    segment_ids: Packing | None = None
    segments: Packing | None = None
    block_mask: BlockSparse | Any | None = None
    prefix: int | None = None


class MaskSaid(NamedTuple):
    """A mask of the planner in arguments of ``attention``."""

    window: Window | None = None
    cu_seqlens: Packing | None = None
    block_mask: BlockSparse | None = None
    prefix: int | None = None


def arguments_of(mask: Any, query: Any, key: Any, **others: object) -> MaskSaid:
    """What a mask says of these queries and keys, once nothing else says the same: ``others``, by name."""
    if not isinstance(mask, Mask):
        give = "it as attn_mask" if isinstance(mask, Tensor) else "one of attenio.masks, such as SlidingWindow(width=8)"
        raise WrongType(f"mask is a {type(mask).__name__}; give {give}")
    for name, given in others.items():
        if given is not None and given is not False:
            raise InvalidInput(f"mask and {name} are both given; leave {name} out: {mask} says which keys are seen")
    if not all(isinstance(each, Tensor) and each.dim() >= 2 for each in (query, key)):
        return MaskSaid()  # refused for that, later
    queries, keys = query.shape[-2], key.shape[-2]
    if not isinstance(mask, SlidingWindow):  # a window may be wider than there are keys yet
        check_mask(mask, queries=queries, keys=keys)
    match mask:
        case Dense():
            return MaskSaid()
        case Causal():
            return MaskSaid(window=(-1, 0))
        case SlidingWindow(width=width, causal=causal):
            return MaskSaid(window=(width - 1, 0 if causal else width - 1))
        case Documents(lengths=lengths, key_lengths=key_lengths, causal=causal):
            ends = [(0, *accumulate(each)) for each in (lengths, key_lengths)]
            mine, theirs = (torch.tensor(each, dtype=torch.int64, device="cpu") for each in ends)
            return MaskSaid(window=(-1, 0) if causal else None, cu_seqlens=(mine, theirs))
        case SharedPrefix(length=length, causal=causal):
            return MaskSaid(window=(-1, 0) if causal else None, prefix=length)
        case BlockSparse():
            return MaskSaid(block_mask=mask)
        case Layout():
            return MaskSaid(block_mask=_laid_out(mask, queries, keys))
        case _ as never:
            assert_never(never)


@lru_cache(maxsize=16)
def _laid_out(layout: Layout, queries: int, keys: int) -> BlockSparse:
    """Once, so that its blocks go to a GPU once."""
    return BlockSparse.laid_out(layout, queries=queries, keys=keys)


def visibility_of(query: Tensor, key: Tensor, asked: MaskArguments, batch: tuple[int, ...]) -> Visibility:
    """All restrictions of a call with queries and keys (batch, heads, tokens, width)."""
    queries, keys = query.shape[2], key.shape[2]
    left, right = _window(asked.window)
    shift = keys - queries
    below = -UNBOUNDED if left < 0 else shift - left
    above = UNBOUNDED if right < 0 else shift + right
    if asked.is_causal:
        above = min(above, 0)
    ranges: dict[str, Any] = {"below": below, "above": above}
    packed = packed_by(asked.cu_seqlens, asked.segment_ids, asked.segments, query, key)
    if packed.lengths is not None:
        first, stop = segment_ranges(packed.lengths, queries, (left, right), is_causal=asked.is_causal)
        ranges = {"first": first[None], "stop": stop[None]}
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
    left, right = (-1 if side >= UNBOUNDED else side for side in sides)
    return left, right


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
