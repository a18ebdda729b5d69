"""Between the planner's masks and what each query may see: from a mask to arguments of a call, and back.

A mask goes to arguments (``arguments_of``), arguments go to a ``Visibility`` (``masking.visibility_of``), and
``nearest_mask`` leads back: to a mask that requires the same scores, or with a note to one that requires more.
"""

from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, assert_never

import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.checks import WrongType
from attenio.kernels.call.masking import band_between
from attenio.kernels.call.packing import segment_ranges
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.masks import (
    BandMask,
    BlockSparse,
    Causal,
    Dense,
    Documents,
    Layout,
    Mask,
    SharedPrefix,
    SlidingWindow,
    check_mask,
)
from attenio.names import show_type

# What a mask says, so that nothing else may: the names of arguments.
_SAID = ("is_causal", "window", "cu_seqlens", "segments", "block_mask", "prefix")
_ALIGNED = (-1, 0)  # a window that is causal and no more: the last query stands at the last key
_MORE = {
    "band": "the band is not one that the planner knows; the plan is that of all scores",
    "packed": "packed sequences are not documents that the planner knows; the plan is that of all scores",
    "blocks": "block_mask holds together with other restrictions; the plan is that of its blocks alone",
    "prefix": "own keys behind the prefix are restricted in a way that the planner does not know; it plans for all",
}


def arguments_of(mask: Any, query: Any, key: Any, others: CallArguments) -> CallArguments:
    """What a mask says of these queries and keys, as arguments, once no other argument says the same."""
    if not isinstance(mask, Mask):
        give = "it as attn_mask" if isinstance(mask, Tensor) else "one of attenio.masks, such as SlidingWindow(width=8)"
        raise WrongType(f"mask is {show_type(mask)}; give {give}")
    for name in _SAID:
        given = getattr(others, name)
        if given is not None and given is not False:
            raise InvalidInput(f"mask and {name} are both given; leave {name} out: {mask} says which keys are seen")
    if not all(isinstance(each, Tensor) and each.dim() >= 2 for each in (query, key)):
        return others  # refused for that, later
    queries, keys = query.shape[-2], key.shape[-2]
    if not isinstance(mask, SlidingWindow):  # a window may be wider than there are keys yet
        check_mask(mask, queries=queries, keys=keys)
    match mask:
        case Dense():
            return others
        case Causal() | SlidingWindow():
            return others.with_window(window_of(mask))
        case Documents(causal=causal):
            return others._replace(window=_ALIGNED if causal else None, cu_seqlens=_cumulative(mask))
        case SharedPrefix(length=length, causal=causal):
            return others._replace(window=_ALIGNED if causal else None, prefix=length)
        case BlockSparse():
            return others._replace(block_mask=mask)
        case Layout():
            return others._replace(block_mask=_laid_out(mask, queries, keys))
        case _ as never:
            assert_never(never)


def nearest_mask(seen: Visibility, *, queries: int, keys: int, prefix: int = 0) -> tuple[Mask, list[str]]:
    """The planner's mask that requires what may be seen, or the nearest one that requires more, and notes on that.

    ``prefix`` is how many first keys are read once for the whole batch, every one of them seen by every query.
    """
    notes = []
    if seen.bias is not None:
        notes.append("attn_mask is data: no tile is skipped for it, and the plan is that of the other restrictions")
    if seen.query_ids is not None:
        notes.append("ids of tokens are data: tiles are skipped as they are met, and the plan does not count on it")
    if seen.blocks is not None:
        if seen.first is not None or _band(seen, queries, keys) != (1 - queries, keys - 1):
            notes.append(_MORE["blocks"])
        layout = seen.blocks.cpu().numpy()
        return BlockSparse.from_array(layout, query_block=seen.query_block, key_block=seen.key_block), notes
    packed = seen.first is not None
    mask = _documents(seen, queries, keys) if packed else _band_mask(seen, queries, keys)
    if prefix and not isinstance(mask, Dense | Causal):
        notes.append(_MORE["prefix"])
    elif mask is None:
        notes.append(_MORE["packed" if packed else "band"])
    if prefix:
        return SharedPrefix(length=prefix, causal=isinstance(mask, Causal)), notes
    return mask or Dense(), notes


def _band(seen: Visibility, queries: int, keys: int) -> tuple[int, int]:
    """The first and the last diagonal j - i that is seen, of those that there are."""
    return max(seen.below, 1 - queries), min(seen.above, keys - 1)


def _band_mask(seen: Visibility, queries: int, keys: int) -> BandMask | None:
    """The mask with this band; of several those that are spelled most like it come first."""
    shift = keys - queries
    left, right = shift - seen.below + 1, seen.above - shift + 1
    tried: list[BandMask] = [SlidingWindow(width=left)] if 0 < left <= keys else []
    tried += [Causal()]
    tried += [SlidingWindow(width=width, causal=False) for width in (left, right) if 0 < width <= keys]
    tried.insert(0 if min(-seen.below, seen.above) >= UNBOUNDED else len(tried), Dense())
    for mask in tried:
        below, above = band_between(*window_of(mask), shift)
        if _band(Visibility(below=below, above=above), queries, keys) == _band(seen, queries, keys):
            return mask
    return None


def window_of(mask: BandMask) -> tuple[int, int]:
    """Keys before and after a query's own that it sees, as an argument of ``attention``; -1 for all."""
    match mask:
        case Dense():
            return -1, -1
        case Causal():
            return _ALIGNED
        case SlidingWindow(width=width, causal=causal):
            return width - 1, 0 if causal else width - 1
        case _ as never:
            assert_never(never)


def _documents(seen: Visibility, queries: int, keys: int) -> Documents | None:
    """The documents whose queries see these ranges: a new one begins where ranges begin at another key."""
    assert seen.first is not None and seen.stop is not None
    if seen.first.is_meta:
        raise InvalidInput("cu_seqlens are on meta, where they have no values; give them on the CPU")
    first, stop = seen.first[0].cpu(), seen.stop[0].cpu()
    edges = [0, *(torch.nonzero(first[1:] != first[:-1]).flatten() + 1).tolist(), queries]
    key_edges = [*first[edges[:-1]].tolist(), keys]
    lengths, key_lengths = (tuple(end - start for start, end in pairwise(each)) for each in (edges, key_edges))
    if key_edges[0] != 0 or min(key_lengths) < 1:
        return None
    for causal in (False, True):
        mask = Documents(lengths=lengths, key_lengths=key_lengths, causal=causal)
        ranges = segment_ranges(_cumulative(mask), queries, _ALIGNED if causal else (-1, -1), is_causal=False)
        if torch.equal(ranges[0], first) and torch.equal(ranges[1], stop):
            return mask
    return None


def _cumulative(mask: Documents) -> tuple[Tensor, Tensor]:
    """Where documents of queries and of keys begin, and where the last one ends."""
    mine, theirs = (
        torch.tensor((0, *accumulate(each)), dtype=torch.int64, device="cpu")
        for each in (mask.lengths, mask.key_lengths)
    )
    return mine, theirs


@lru_cache(maxsize=16)
def _laid_out(layout: Layout, queries: int, keys: int) -> BlockSparse:
    """Once, so that its blocks go to a GPU once."""
    return BlockSparse.laid_out(layout, queries=queries, keys=keys)
