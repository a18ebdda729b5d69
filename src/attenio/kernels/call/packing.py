"""Packed sequences: cumulative lengths or ids of tokens, as they are given, and the keys that each query may see.

Lengths and ids can look alike: 0, 2 for two tokens is one sequence of two, or two of one. So each has an argument of
its own. ``segments`` takes both, and refuses what could be either.
"""

from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from attenio.errors import InvalidInput
from attenio.kernels.call.watching import has_values, is_unwatched
from attenio.names import show_type
from attenio.quantities import show_shape

Pair: TypeAlias = tuple[Tensor, Tensor]
_WANTED = {
    "cu_seqlens": "a tensor of cumulative lengths",
    "segment_ids": "a tensor of one id a token",
    "segments": "a tensor of cumulative lengths or of one id a token",
}


_ONE_ROW = "give one dimension: 0 and the end of each sequence, as many for keys as for queries"


class Packed(NamedTuple):
    """Of queries and of keys: cumulative lengths, and ids (batch or 1, tokens)."""

    lengths: Pair | None = None
    ids: Pair | None = None


def packed_by(cu_seqlens: Any, segment_ids: Any, segments: Any, query: Tensor, key: Tensor) -> Packed:
    """What these arguments say of queries and keys (batch, heads, tokens, width), once it is known to make sense."""
    if segments is not None and not (cu_seqlens is None and segment_ids is None):
        other = "segment_ids" if cu_seqlens is None else "cu_seqlens"
        raise InvalidInput(f"segments and {other} are both given; leave segments out: it means one of the two")
    if segments is not None:
        return _either(_pair("segments", segments, query), query, key)
    lengths = ids = None
    if cu_seqlens is not None:
        lengths = _checked_lengths("cu_seqlens", _pair("cu_seqlens", cu_seqlens, query), query, key)
    if segment_ids is not None:
        ids = _checked_ids("segment_ids", _pair("segment_ids", segment_ids, query), query, key)
    return Packed(lengths, ids)


def _pair(name: str, given: Any, query: Tensor) -> Pair:
    """Those of queries and those of keys."""
    pair = tuple(given) if isinstance(given, tuple | list) else (given, given)
    if len(pair) != 2 or not all(isinstance(each, Tensor) for each in pair):
        raise InvalidInput(
            f"{name} is {show_type(given)}; give {_WANTED[name]}, or two of them, of queries and of keys"
        )
    for each in pair:
        if each.is_floating_point() or each.is_complex() or (each.dtype == torch.bool and name == "cu_seqlens"):
            raise InvalidInput(f"{name} is {each.dtype}; give {_WANTED[name]}, in integers")
        if each.device != query.device and each.device.type != "cpu":
            raise InvalidInput(f"{name} is on {each.device} and query on {query.device}; move it there, or to the CPU")
    return pair


def _either(pair: Pair, query: Tensor, key: Tensor) -> Packed:
    """Lengths or ids, whichever it can be; by their sizes alone where the values cannot be read."""
    tokens = query.shape[2], key.shape[2]
    may_be_ids = all(_are_ids(each, like) for each, like in zip(pair, (query, key), strict=True))
    may_be_lengths = _are_as_many(pair)
    readable = may_be_ids and may_be_lengths and all(has_values(each) for each in pair)
    if readable and all(_fault(each, count) is None for each, count in zip(pair, tokens, strict=True)):
        raise InvalidInput(
            f"segments may be the cumulative lengths of {pair[0].shape[0] - 1:,} sequences, or the ids of"
            f" {tokens[0]:,} tokens; give cu_seqlens= or segment_ids= instead"
        )
    if may_be_lengths and not may_be_ids:
        return Packed(lengths=_checked_lengths("segments", pair, query, key))
    return Packed(ids=_checked_ids("segments", pair, query, key))


def _are_as_many(pair: Pair) -> bool:
    return bool(pair[0].dim() == 1 and pair[0].shape == pair[1].shape and pair[0].shape[0] >= 2)


def _are_ids(ids: Tensor, tokens: Tensor) -> bool:
    shape = (1, *ids.shape) if ids.dim() == 1 else tuple(ids.shape)
    return len(shape) == 2 and shape[1] == tokens.shape[2] and shape[0] in (1, tokens.shape[0])


def _checked_ids(name: str, pair: Pair, query: Tensor, key: Tensor) -> Pair:
    for each, like, what in zip(pair, (query, key), ("queries", "keys"), strict=True):
        if not _are_ids(each, like):
            raise InvalidInput(
                f"{name} has shape {show_shape(each.shape)} for {like.shape[2]:,} {what};"
                f" give one id a token: ({like.shape[2]},) or ({like.shape[0]}, {like.shape[2]})"
                + (", or cumulative lengths as cu_seqlens=" if name == "segments" else "")
            )
    mine, theirs = (each[None] if each.dim() == 1 else each for each in pair)
    return mine, theirs


def _checked_lengths(name: str, pair: Pair, query: Tensor, key: Tensor) -> Pair:
    """Lengths that start at 0, never fall and end at the number of tokens, as far as they can be read now."""
    if not _are_as_many(pair):
        shapes = " and ".join(str(tuple(each.shape)) for each in dict.fromkeys(pair))
        raise InvalidInput(f"{name} has shape {shapes}; {_ONE_ROW}")
    for each, like, what in zip(pair, (query, key), ("queries", "keys"), strict=True):
        fault = _fault(each, like.shape[2]) if has_values(each) else None
        if fault is not None:
            raise InvalidInput(f"{name} of {what} {fault}; give 0 and the end of each sequence, {like.shape[2]:,} last")
    return pair


# Faults of lengths on a GPU, by the tensor, until it is written to: reading them waits for the GPU.
_known: Any = WeakIdKeyDictionary()


def _fault(lengths: Tensor, tokens: int) -> str | None:
    """What keeps these from being cumulative lengths of so many tokens."""
    if not lengths.is_cuda or lengths.is_inference():  # an inference tensor does not tell when it is written to
        return _read_fault(lengths, tokens)
    state, checked = (lengths._version, lengths.data_ptr(), tokens), _known.get(lengths)
    if checked is None or checked[0] != state:
        checked = _known[lengths] = (state, _read_fault(lengths, tokens))
    fault: str | None = checked[1]
    return fault


def _read_fault(lengths: Tensor, tokens: int) -> str | None:
    ends: list[int] = lengths.tolist()  # the one way to values that transforms of functions leave open
    if ends[0] != 0:
        return f"starts at {ends[0]:,}"
    for before, after in pairwise(ends):
        if after < before:
            return f"falls from {before:,} to {after:,}"
    return None if ends[-1] == tokens else f"ends at {ends[-1]:,}"


def segment_ranges(pair: Pair, queries: int, window: tuple[int, int], *, is_causal: bool) -> Pair:
    """First key and the one after the last that every query may see, by cumulative lengths.

    Neither falls from one query to the next, also of queries that see nothing.
    """
    kernels = _kernels() if pair[0].is_cuda and pair[1].is_cuda and is_unwatched(pair) else None
    if kernels is not None:
        first, stop = kernels.on_gpu(*pair, queries, window, is_causal=is_causal)
        return first, stop
    mine, theirs = pair[0].long(), pair[1].long()
    rows = torch.arange(queries, device=mine.device)
    # Not among the ends alone: of one sequence that is one, which exported programs tell from several and do not take.
    segment = (torch.searchsorted(mine.contiguous(), rows, right=True) - 1).clamp(min=0, max=mine.shape[0] - 2)
    first, stop = theirs[segment], theirs[segment + 1]
    start = rows - mine[segment]  # top-left: the first query of a segment stands at its first key
    end = start + (stop - first) - (mine[segment + 1] - mine[segment])  # bottom-right
    left, right = window
    low = first if left < 0 else torch.maximum(first, first + end - left)
    high = stop if right < 0 else torch.minimum(stop, first + end + right + 1)
    high = torch.minimum(high, first + start + 1) if is_causal else high
    inside = rows < mine[-1]  # of lengths that could not be read
    return torch.where(inside, low, stop), torch.where(inside, torch.maximum(high, low), stop)


def _kernels() -> ModuleType | None:
    """What finds the same on a GPU; without Triton, which the call itself will ask for, PyTorch does."""
    try:
        from attenio.kernels.call import segment_ranges as kernels
    except ImportError:
        return None
    return kernels
