"""A call on pages as kernels see it, and its arguments brought to that."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.checks import TensorMismatch, WrongType, check_switches, checked_scale, refuse_tangents
from attenio.kernels.call.pages.table import PageTable, check_shapes
from attenio.kernels.call.scores import aligned, scores_of
from attenio.names import show_type, show_value
from attenio.page_tree import Integers
from attenio.quantities import show_shape

MOST_PAGE = 256
MOST_WIDTH = 256
FAR = 2**30
REDUCED = (torch.float8_e4m3fn, torch.int8)
_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Arguments of ``attention`` that pages do not go with.
_NOT_TAKEN = ("attn_mask", "dropout_p", "segment_ids", "segments", "block_mask", "prefix", "mask", "tolerance")


class Placement(NamedTuple):
    """Where keys are: a table and lengths in 32 bits on the device of the queries, and both in host memory if known."""

    table: Tensor
    lengths: Tensor
    known: PageTable | None


@dataclass(frozen=True, kw_only=True, eq=False)
class PagedProblem:
    """Queries (tokens, heads, d), those of a request one after the other, and pages (pages, keys, KV heads, width).

    ``starts``: the first token of each request and the number of tokens, on the device; None where every request has
    ``new`` tokens. ``known_starts`` are the same in host memory, if known. A token sees ``left`` keys before its own
    and ``right`` behind it; the last token of a request stands at its last key. ``scales``: what the entries of keys
    and of values are multiplied by, (pages, KV heads), where they have 8 bits.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    placement: Placement
    starts: Tensor | None
    known_starts: Integers | None
    new: int
    scale: float
    left: int
    right: int
    softcap: float
    sinks: Tensor | None
    scales: tuple[Tensor, Tensor] | None

    @property
    def requests(self) -> int:
        """How many there are."""
        return int(self.placement.lengths.shape[0])

    @property
    def page_size(self) -> int:
        """Keys of a page."""
        return int(self.key.shape[1])

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return int(self.key.shape[2])

    @property
    def group(self) -> int:
        """Query heads of a KV head."""
        return int(self.query.shape[1]) // self.kv_heads

    @property
    def width(self) -> int:
        """Columns of values."""
        return int(self.value.shape[3])

    @property
    def precision(self) -> torch.dtype:
        """What a CPU computes in."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32


def paged_problem(query: Tensor, key: Tensor, value: Tensor, asked: CallArguments) -> PagedProblem:
    """Check a call on pages and bring it to one shape."""
    if asked.pages is None:
        raise InvalidInput("lengths or page_scales is given without pages; give the table of pages, (requests, places)")
    if not isinstance(asked.pages, PageTable | Tensor | np.ndarray | list | tuple):
        raise WrongType(f"pages is {show_value(asked.pages)}; give the table of pages, (requests, places)")
    scales = asked.page_scales
    _check_tensors(query, key, value, scales)
    _refuse_gradients(query, key, value, asked.sinks, *(scales or ()))
    placement = _placement(asked, query, key)
    requests = int(placement.lengths.shape[0])
    starts, known_starts, new = _starts(asked.cu_seqlens, query, requests)
    # (requests, heads, new, d) and (heads, tokens, d) as (tokens, heads, d).
    packed = query.transpose(-2, -3)
    packed = packed.reshape(-1, *packed.shape[-2:])
    left, right = _band(asked)
    scores = scores_of(packed[None].transpose(1, 2), asked.sinks, asked.softcap)
    scale = checked_scale(asked.scale, query.shape[-1])
    return PagedProblem(
        query=packed, key=key, value=value, placement=placement, starts=starts, known_starts=known_starts, new=new,
        scale=scale, left=left, right=right, softcap=scores.softcap, sinks=scores.sinks,
        scales=None if scales is None else (scales[0].contiguous(), scales[1].contiguous()),
    )  # fmt: skip


def _check_tensors(query: Tensor, key: Tensor, value: Tensor, scales: Any) -> None:
    tensors = {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.is_nested or tensor.layout != torch.strided:
            raise WrongType(f"{name} is {show_type(tensor)}; give a dense torch.Tensor")
        if tensor.device != query.device:
            raise TensorMismatch(f"query is on {query.device} and {name} on {tensor.device}; move one of them")
    if query.dim() not in (3, 4) or key.dim() != 4 or value.dim() != 4:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors.values())
        raise TensorMismatch(
            f"query, key and value are {shapes}; with pages= give (requests, heads, new tokens, d), or"
            " (heads, tokens, d) with cu_seqlens=, and (pages, keys of a page, KV heads, width) twice"
        )
    if key.shape[:3] != value.shape[:3] or query.shape[-1] != key.shape[-1]:
        raise TensorMismatch(
            f"pages of keys are {show_shape(key.shape)}, of values {show_shape(value.shape)}, and queries"
            f" {query.shape[-1]} wide; make pages, keys and KV heads equal, and queries as wide as keys"
        )
    heads, kv_heads = int(query.shape[-3]), int(key.shape[2])
    if not kv_heads or not heads or heads % kv_heads:
        raise TensorMismatch(f"{heads} query heads cannot share {kv_heads} KV heads; make them a multiple")
    if not key.shape[0]:
        raise InvalidInput("there are no pages; give at least one")
    if not 1 <= key.shape[1] <= MOST_PAGE:
        raise InvalidInput(f"pages of {key.shape[1]:,} keys; give 1 to {MOST_PAGE}")
    widest, least = max(key.shape[3], value.shape[3]), min(key.shape[3], value.shape[3])
    if (widest > MOST_WIDTH and not query.is_cpu) or not least:
        raise InvalidInput(
            f"pages are {key.shape[3]} and {value.shape[3]} wide; heads of 1 to {MOST_WIDTH} are computed, and wider"
            " ones on a CPU"
        )
    _check_types(query, key, value, scales)


def _refuse_gradients(*tensors: Tensor | None) -> None:
    """Raise where a derivative would be dropped: of anything that a call on pages takes."""
    if torch.is_grad_enabled() and any(isinstance(each, Tensor) and each.requires_grad for each in tensors):
        raise InvalidInput("attention on pages has no gradients; call it under torch.no_grad(), or detach the tensors")
    if forward_ad._current_level >= 0:
        refuse_tangents(*tensors)


def _check_types(query: Tensor, key: Tensor, value: Tensor, scales: Any) -> None:
    if query.dtype not in _TYPES:
        raise TensorMismatch(f"query is {query.dtype}; give float16, bfloat16, float32 or float64")
    if key.dtype != value.dtype or (key.dtype != query.dtype and key.dtype not in REDUCED):
        raise TensorMismatch(
            f"pages are {key.dtype} and {value.dtype}; give both in the query's {query.dtype},"
            " or in float8_e4m3fn or int8 with page_scales="
        )
    if (key.dtype in REDUCED) != (scales is not None):
        word = "need" if scales is None else "take no"
        raise InvalidInput(f"pages in {key.dtype} {word} page_scales; they belong to pages in float8_e4m3fn or int8")
    if scales is None:
        return
    shape = (key.shape[0], key.shape[2])
    if not isinstance(scales, tuple | list) or len(scales) != 2 or not all(isinstance(x, Tensor) for x in scales):
        raise WrongType("page_scales is no pair of tensors; give those of keys and those of values")
    for each in scales:
        if each.shape != shape or each.dtype != torch.float32 or each.device != key.device:
            raise TensorMismatch(
                f"page_scales has {show_shape(each.shape)} in {each.dtype} on {each.device}; give one factor a page and"
                f" KV head, {show_shape(shape)} in float32 on {key.device}"
            )


def _placement(asked: CallArguments, query: Tensor, key: Tensor) -> Placement:
    """In host memory it is checked; what is on a GPU is not waited for, and the kernels check it."""
    pages, lengths = asked.pages, asked.lengths
    if isinstance(pages, PageTable):
        if lengths is not None:
            raise InvalidInput("lengths is given beside a PageTable, which has lengths of its own; leave it out")
        known = pages
    else:
        if lengths is None:
            raise InvalidInput("pages is given without lengths; give the number of keys of each request, (requests,)")
        if isinstance(pages, Tensor) and isinstance(lengths, Tensor) and pages.device.type == "cuda":
            return _on_device(pages, lengths, query)
        known = PageTable.of(pages, lengths)
    known.checked(int(key.shape[0]), int(key.shape[1]))
    return Placement(*known.on(query.device), known)


def _on_device(pages: Tensor, lengths: Tensor, query: Tensor) -> Placement:
    check_shapes(tuple(pages.shape), tuple(lengths.shape))
    for name, given in (("pages", pages), ("lengths", lengths)):
        if given.device != query.device or given.dtype not in (torch.int32, torch.int64):
            raise InvalidInput(f"{name} is {given.dtype} on {given.device}; give 32-bit integers on {query.device}")
    table = pages.to(torch.int32)  # its rows may lie apart, as those of a part of a larger table do
    return Placement(table if table.stride(1) == 1 else table.contiguous(), lengths.to(torch.int32).contiguous(), None)


def _starts(given: Any, query: Tensor, requests: int) -> tuple[Tensor | None, Integers | None, int]:
    """Where the tokens of each request begin; how many each has, or the most that one can have."""
    if given is None:
        if query.dim() != 4 or query.shape[0] != requests:
            raise TensorMismatch(
                f"query is {show_shape(query.shape)} and pages has {requests:,} requests; give (requests, heads, new"
                " tokens, d), or tokens of all requests in one sequence with cu_seqlens="
            )
        new = int(query.shape[2])
        return None, np.arange(requests + 1) * new, new
    if not isinstance(given, Tensor) or given.dim() != 1 or given.shape[0] != requests + 1:
        what = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise InvalidInput(f"cu_seqlens is {what}; with pages= give ({requests + 1:,},), of queries only")
    if given.dtype not in (torch.int32, torch.int64) or given.device.type not in ("cpu", "cuda"):
        raise WrongType(f"cu_seqlens is {given.dtype} on {given.device}; give 32-bit integers")
    tokens = int(query.shape[-2])
    if query.dim() == 4 and query.shape[0] != 1:
        raise TensorMismatch(
            f"query is {show_shape(query.shape)}; with cu_seqlens= give (heads, tokens, d), or a batch of 1"
        )
    if given.device.type == "cuda":
        return given.to(torch.int32).contiguous(), None, tokens
    starts = given.numpy().astype(np.int64)
    if starts[0] != 0 or starts[-1] != tokens or (np.diff(starts) < 0).any():
        raise InvalidInput(
            f"cu_seqlens does not go up from 0 to the {tokens:,} tokens of query; give cumulative lengths"
        )
    return given.to(query.device, torch.int32).contiguous(), starts, int(np.diff(starts).max(initial=0))


def problem_on_pages(query: Tensor, key: Tensor, value: Tensor, asked: CallArguments) -> PagedProblem:
    """The problem of a call that has nothing that pages do not go with."""
    check_switches(return_lse=asked.return_lse)
    for name in _NOT_TAKEN:
        each = getattr(asked, name)
        if each is not None and not (isinstance(each, float | int) and each == 0.0 and name == "dropout_p"):
            raise InvalidInput(f"{name} is given with pages=, which takes none; leave one of them out")
    return paged_problem(query, key, value, asked)


def _band(asked: CallArguments) -> tuple[int, int]:
    """Keys that a token sees before its own and behind it."""
    is_causal, window = asked.is_causal, asked.window
    if isinstance(is_causal, str):
        if aligned(is_causal, None)[0]:  # it also raises what is wrong with the word
            raise InvalidInput("is_causal is 'top-left'; new tokens are the last of a request: give 'bottom-right'")
    else:
        check_switches(is_causal=is_causal)
    if window is None:
        left, right = -1, -1
    else:
        sides = window if isinstance(window, tuple | list) else (window - 1, 0) if _counts(window) else ()
        if len(sides) != 2 or not all(isinstance(side, int) and side >= -1 for side in sides):
            raise InvalidInput(
                f"window is {show_value(window)}; give a number of keys, or (left, right) with -1 for all"
            )
        left, right = sides
    right = 0 if is_causal else right
    return (FAR if left < 0 else left), (FAR if right < 0 else right)


def _counts(window: object) -> bool:
    return isinstance(window, int) and not isinstance(window, bool) and window >= 1
