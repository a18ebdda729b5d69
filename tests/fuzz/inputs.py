"""The tensors of a case in the layouts that it asks for, and what each query may see by the definition."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attenio.masks import BlockSparse
from fuzz.case import Case, Layout, MaskKind, Packing


class Numbers(NamedTuple):
    """What a call is about, in four dimensions: Q, K, V, the gradient of the output, a bias, and who sees whom."""

    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor
    bias: Tensor | None
    seen: Tensor
    lengths: tuple[Tensor, Tensor] | None
    ids: tuple[Tensor, Tensor] | None
    blocks: np.ndarray[Any, Any] | None
    sinks: Tensor | None


class Inputs(NamedTuple):
    """A tensor as it is given to the call, and the leaf that it is a view of."""

    given: Tensor
    leaf: Tensor


def numbers_of(case: Case, again: int, device: str) -> Numbers:
    """The numbers of the ``again``-th call of a case; masks and packing are the same in all of them."""
    fixed, fresh = (torch.Generator().manual_seed(case.seed + more) for more in (0, again))
    dtype = getattr(torch, case.dtype)
    tall = case.spread**0.5 * (
        1.0 if case.scale is None or case.scale == 0.0 else (abs(case.scale) * case.d**0.5) ** -0.5
    )

    def drawn(layout: Layout | str, heads: int, tokens: int, width: int) -> Tensor:
        batch = 1 if layout is Layout.EXPANDED else case.batch
        return torch.randn(batch, heads, tokens, width, generator=fresh).expand(case.batch, -1, -1, -1)

    kv = (case.kv_heads, case.keys)
    query, key = (
        drawn(case.layouts[0], case.heads, case.queries, case.d) * tall,
        drawn(case.layouts[1], *kv, case.d) * tall,
    )
    value = drawn(case.layouts[2], *kv, case.width)
    gradient = drawn(case.layouts[3], case.heads, case.queries, case.width)
    if case.prefix:
        key, value = (
            torch.cat([x[:1, :, : case.prefix].expand(case.batch, -1, -1, -1), x[:, :, case.prefix :]], 2)
            for x in (key, value)
        )
    lengths, ids, blocks = _packed(case, fixed), _ids(case, fixed), _blocks(case)
    bias = _bias(case, fixed, dtype)
    seen = _seen(case, lengths, ids, blocks)
    moved = [x.to(dtype).to(device) for x in (query, key, key if case.same else value, gradient)]
    pairs = [None if pair is None else (pair[0].to(device), pair[1].to(device)) for pair in (lengths, ids)]
    bias = None if bias is None else bias.to(device)
    sinks = None
    if case.sinks:
        sinks = (
            (2.0 * torch.randn(case.heads, generator=fixed)).to(torch.promote_types(dtype, torch.float32)).to(device)
        )
    return Numbers(moved[0], moved[1], moved[2], moved[3], bias, seen.to(device), pairs[0], pairs[1], blocks, sinks)


def laid_out(numbers: Tensor, layout: Layout | str, *, wants_gradient: bool) -> Inputs:
    """The same numbers in another order in memory; a leaf, and the view of it that is given to the call."""
    batch, heads, tokens, width = numbers.shape
    view: Callable[[Tensor], Tensor] = lambda x: x  # noqa: E731
    shape: tuple[int, ...] = tuple(numbers.shape)
    match layout:
        case Layout.TOKENS_FIRST:
            shape, view = (batch, tokens, heads, width), lambda x: x.transpose(1, 2)
        case Layout.PACKED:
            shape, view = (batch, tokens, 3, heads, width), lambda x: x[:, :, 1].transpose(1, 2)
        case Layout.PADDED:
            shape, view = (batch, heads, tokens + 1, width + 3), lambda x: x[:, :, 1:, :width]
        case Layout.OFFSET:
            shape, view = (numbers.numel() + 1,), lambda x: x[1:].view(numbers.shape)
        case Layout.COLUMNS:
            shape, view = (batch, heads, width, tokens), lambda x: x.mT
        case Layout.EXPANDED:
            shape, view = (1, heads, tokens, width), lambda x: x.expand(batch, -1, -1, -1)
    leaf = numbers.new_zeros(shape)
    with torch.no_grad():
        if layout is Layout.EXPANDED:
            leaf.copy_(numbers[:1])
        else:
            view(leaf).copy_(numbers)
    leaf.requires_grad_(wants_gradient)
    return Inputs(view(leaf), leaf)


def options_of(case: Case, numbers: Numbers) -> dict[str, Any]:
    """The arguments of the call after its tensors and its mask."""
    options: dict[str, Any] = {"is_causal": case.is_causal, "scale": case.scale, "enable_gqa": case.enable_gqa}
    # What says nothing is left out: calls on a CPU without further options have a shorter way.
    said = {"window": case.window, "deterministic": case.deterministic}
    options |= {name: given for name, given in said.items() if given is not None and given is not False}
    for name, given in (("cu_seqlens", numbers.lengths), ("segment_ids", numbers.ids)):
        if given is not None:
            options[name] = given
    if numbers.blocks is not None and case.blocks is not None:
        options["block_mask"] = BlockSparse.from_array(
            numbers.blocks, query_block=case.blocks[0], key_block=case.blocks[1]
        )
    if case.prefix:
        options["prefix"] = case.prefix
    if case.softcap is not None:
        options["softcap"] = case.softcap
    if numbers.sinks is not None:
        options["sinks"] = numbers.sinks
    return options


def _packed(case: Case, rng: torch.Generator) -> tuple[Tensor, Tensor] | None:
    """Cumulative lengths of as many sequences on both sides."""
    if case.packing is not Packing.LENGTHS:
        return None
    most = max(1, min(case.queries, case.keys, 4))
    count = int(torch.randint(1, most + 1, (), generator=rng))

    def cut(tokens: int) -> Tensor:
        inner = torch.randperm(max(1, tokens - 1), generator=rng)[: count - 1].sort().values + 1
        return torch.cat([torch.tensor([0]), inner, torch.tensor([tokens])]).to(torch.int32)

    mine = cut(case.queries)
    return mine, mine if case.queries == case.keys else cut(case.keys)


def _ids(case: Case, rng: torch.Generator) -> tuple[Tensor, Tensor] | None:
    if case.packing is not Packing.IDS:
        return None
    mine = torch.randint(0, 3, (case.batch, case.queries), generator=rng)
    return mine, mine if case.queries == case.keys else torch.randint(0, 3, (case.batch, case.keys), generator=rng)


def _blocks(case: Case) -> np.ndarray[Any, Any] | None:
    if case.blocks is None:
        return None
    rng = np.random.default_rng(case.seed)
    layout: np.ndarray[Any, Any] = (
        rng.random([-(-n // b) for n, b in zip((case.queries, case.keys), case.blocks, strict=True)]) < 0.6
    )
    layout[0, 0] = True
    return layout


def _bias(case: Case, rng: torch.Generator, dtype: torch.dtype) -> Tensor | None:
    if case.mask is MaskKind.NONE:
        return None
    sizes = {"b": case.batch, "h": case.heads, "q": case.queries, "k": case.keys}
    shape = [size if letter in case.mask_sizes else 1 for letter, size in sizes.items()]
    hidden = torch.rand(shape, generator=rng) < 0.3
    if case.mask is MaskKind.BOOLEAN:
        return ~hidden
    bias = torch.randn(shape, generator=rng)
    if case.seed % 2:
        bias = bias.masked_fill(hidden, -torch.inf)
    return bias.to(torch.float32 if case.mask is MaskKind.SINGLE else dtype)


def _seen(case: Case, lengths: Any, ids: Any, blocks: Any) -> Tensor:
    """Which scores are required, by the words of the documentation, as (batch or 1, 1, queries, keys)."""
    rows, keys = torch.arange(case.queries)[:, None], torch.arange(case.keys)[None]
    seen = torch.ones(1, 1, case.queries, case.keys, dtype=torch.bool)
    top_left, bottom_right = rows, rows + case.keys - case.queries
    if lengths is not None:
        mine, theirs = (
            torch.bucketize(x, edges[1:].long(), right=True) for x, edges in zip((rows, keys), lengths, strict=True)
        )
        seen = seen & (mine == theirs)
        start, first = lengths[0].long()[mine], lengths[1].long()[mine]
        top_left = rows - start + first
        bottom_right = lengths[1].long()[mine + 1] - (lengths[0].long()[mine + 1] - rows)
    if case.is_causal:
        seen = seen & (keys <= top_left)
    if case.window is not None:
        left, right = case.window if isinstance(case.window, tuple) else (case.window - 1, 0)
        seen = (
            seen
            & ((keys >= bottom_right - left) if left >= 0 else True)
            & ((keys <= bottom_right + right) if right >= 0 else True)
        )
    if ids is not None:
        seen = seen & (ids[0][:, None, :, None] == ids[1][:, None, None, :])
    if blocks is not None and case.blocks is not None:
        whole = torch.from_numpy(blocks).repeat_interleave(case.blocks[0], 0).repeat_interleave(case.blocks[1], 1)
        seen = seen & whole[: case.queries, : case.keys]
    return seen
