"""The backward pass that spills slopes dS to memory: how it is launched. Its gradients repeat to the bit.

    prepare all rows
    for each chunk of units, key tiles and rows (``backward_chunks``):
        gradients of its keys and values, whose slopes go to the workspace       (``backward_narrow``, ``backward_wide``)
        gradients of its queries: the slopes times keys                          (``backward_queries``)

Every number is written by one program of a launch, and launches follow each other: where chunks carry sums, they are
added in the same order always.
"""

from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.gluon.backward_chunks import ROW_STEP, WORKSPACE_BYTES, Chunk, chunks_of
from attenio.kernels.gluon.backward_masks import SeenRows, key_tile_ranges, tile_spans
from attenio.kernels.gluon.backward_narrow import narrow_gradients_kernel
from attenio.kernels.gluon.backward_queries import query_gradients_kernel
from attenio.kernels.gluon.backward_rows import Rows
from attenio.kernels.gluon.backward_wide import wide_gradients_kernel
from attenio.kernels.gluon.launch import Box, aligned, launch, padded_box
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import LOG2_E, grouped_heads
from attenio.kernels.triton.two_pass import Gradients

__all__ = ["SlopesForm", "chunks_for", "slopes_form", "slopes_gradients"]


class SlopesForm(NamedTuple):
    """A kernel that spills slopes, its tiles of rows and keys, and those of the kernel that multiplies them with keys.

    ``d`` is the width both work in, wider than the heads where columns are zeros. A consumer of slopes has ``parts``
    times 64 rows, and ``stages`` tiles of 64 keys are on their way.
    """

    kernel: Any
    d: int
    rows: int
    keys: int
    parts: int
    stages: int

    def constants(self, *, hides: bool, packed: bool, adds: bool) -> tuple[int, ...]:
        """What the kernel is compiled for."""
        if self.kernel is wide_gradients_kernel:
            return (self.rows, self.keys, self.d, 2, 2, hides, packed, adds, 240)
        slots = 3 if self.rows == 128 else 4
        return (self.rows, self.keys, self.d, 2, slots, hides, packed, True, adds, 240)


def slopes_form(width: int) -> SlopesForm:
    """The form for heads of at most this width.

    Registers of a consumer of slopes: 128 of sums. More rows in a block, where sums are narrow, are fewer reads of keys.
    """
    if width <= 64:
        return SlopesForm(narrow_gradients_kernel, 64, 128, 128, 2, 5)
    if width <= 128:
        return SlopesForm(narrow_gradients_kernel, 128, 64, 128, 2, 4)
    return SlopesForm(wide_gradients_kernel, 256, 64, 64, 1, 4)


class _Call(NamedTuple):
    """What all launches of a call share."""

    problem: KernelProblem
    form: SlopesForm
    seen: SeenRows
    rows: Rows
    ranges: Tensor
    slopes: Tensor
    found: Gradients
    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor


def slopes_gradients(
    problem: KernelProblem, saved: tuple[Tensor, ...], *, workspace_bytes: int = WORKSPACE_BYTES
) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    query, key, value = grouped_heads(problem.query), problem.key, problem.value
    device, dtype, heads = query.device, query.dtype, problem.batch * problem.kv_heads * problem.group
    form, seen = slopes_form(max(query.shape[-1], value.shape[-1])), SeenRows.of(problem)
    found = Gradients(*(torch.empty(x.shape, dtype=dtype, device=device) for x in (query, key, value)), bias=None)
    rows = Rows.of(problem, saved, heads)
    rows.between(range(0), range(heads))
    chunks = chunks_for(problem, form, seen, workspace_bytes)
    most = max(chunk.slots * len(chunk.rows) for chunk in chunks)
    call = _Call(
        problem, form, seen, rows,
        key_tile_ranges(
            seen, problem.queries, problem.keys, device, key_tile=form.keys, row_tile=form.rows, rows=_whole(rows.padded)
        ),
        torch.empty(most * problem.group * form.keys, dtype=dtype, device=device),
        found, aligned(query.flatten(1, 2)), aligned(key), aligned(value), aligned(rows.gradient),
    )  # fmt: skip
    for units, of_units in groupby(chunks, attrgetter("units")):
        _unit_gradients(call, units, list(of_units))
    return found


def chunks_for(
    problem: KernelProblem, form: SlopesForm, seen: SeenRows, workspace_bytes: int = WORKSPACE_BYTES
) -> tuple[Chunk, ...]:
    """The chunks of a problem."""
    spans = tile_spans(seen, problem.queries, problem.keys, key_tile=form.keys, row_tile=form.rows)
    return chunks_of(
        problem.batch * problem.kv_heads, tuple(spans), problem.group * form.keys * problem.query.element_size(),
        -(-problem.queries // 128) * 128, processors=_processors(problem.query.device), workspace=workspace_bytes,
    )  # fmt: skip


def _unit_gradients(call: _Call, units: range, chunks: list[Chunk]) -> None:
    """Gradients of some units, or of one in several chunks."""
    problem, form, found = call.problem, call.form, call.found
    sums = None
    if chunks[0].carries_queries:
        sums = call.rows.lse.new_zeros(problem.group, _whole(call.rows.padded), form.d)
    for tiles, of_tiles in groupby(chunks, attrgetter("tiles")):
        parts, key_sums = list(of_tiles), None
        if parts[0].carries_keys:
            key_sums = call.rows.lse.new_zeros(2, 1, 1, len(tiles) * form.keys * form.d // 64, 64)
        for chunk in parts:
            _key_gradients(call, chunk, key_sums)
            _query_gradients(call, chunk, sums)
        if key_sums is not None:
            keys = slice(tiles.start * form.keys, min(tiles.stop * form.keys, problem.keys))
            for gradient, held in zip((found.key, found.value), key_sums, strict=True):
                whole = _in_rows(held, form.d)[: keys.stop - keys.start, : gradient.shape[-1]]
                gradient.flatten(0, 1)[units.start, keys] = whole.to(gradient.dtype)
    if sums is not None:
        whole = sums[:, : problem.queries, : found.query.shape[-1]] * problem.scale
        found.query.flatten(0, 1)[units.start] = whole.to(found.query.dtype)


def _key_gradients(call: _Call, chunk: Chunk, sums: Tensor | None) -> None:
    """dK and dV of a chunk, or additions to their sums, and its slopes."""
    problem, form, seen, found = call.problem, call.form, call.seen, call.found
    tiles = -(-problem.keys // form.keys)
    whole = (found.key, found.value)
    written = [padded_box(each, 64, form.d) for each in whole] if sums is None else [_sums_box(x, form.d) for x in sums]
    first_rows, stop_rows = (call.ranges if x is None else x for x in (seen.first_rows, seen.stop_rows))
    launch(
        form.kernel, chunk.slots, (
            padded_box(call.query, form.rows, form.d), padded_box(call.key, 64, form.d),
            padded_box(call.value, 64, form.d), padded_box(call.gradient, form.rows, form.d),
            *written, _slopes_box(call, chunk, form.rows),
        ), (
            call.rows.lse, call.rows.delta, first_rows, stop_rows, problem.scale * LOG2_E, problem.scale,
            chunk.units.start * tiles + chunk.tiles.start, problem.kv_heads, problem.group, problem.keys,
            seen.below, seen.above, chunk.rows.start, min(chunk.rows.stop, problem.queries), call.rows.padded,
        ), form.constants(
            hides=seen.hides(problem.queries, problem.keys, form.keys), packed=seen.is_packed, adds=sums is not None
        ), 168,
    )  # fmt: skip


def _query_gradients(call: _Call, chunk: Chunk, sums: Tensor | None) -> None:
    """dQ of a chunk, or additions to its sums, from slopes."""
    problem, form, found = call.problem, call.form, call.found
    blocks = -(-len(chunk.rows) // (2 * form.parts * 64))
    held = call.rows.lse if sums is None else sums
    launch(
        query_gradients_kernel, blocks * problem.group * len(chunk.units), (
            _slopes_box(call, chunk, 64), padded_box(call.key, 64, form.d),
            padded_box(found.query.flatten(1, 2), 64, form.d),
        ), (
            held, call.ranges, problem.scale, chunk.units.start, problem.kv_heads, problem.group,
            chunk.rows.start, len(chunk.rows), chunk.tiles.start, len(chunk.tiles),
            call.ranges.shape[1] if call.seen.is_packed else 0, held.shape[-2] if sums is not None else 0,
            int(sums is not None),
        ), (form.parts, form.keys, form.d, form.stages, 240), 168,
    )  # fmt: skip


def _slopes_box(call: _Call, chunk: Chunk, rows: int) -> Box:
    """Slopes of a chunk: (slots, group, keys of a tile, rows)."""
    shape = (chunk.slots, call.problem.group, call.form.keys, len(chunk.rows))
    slopes = call.slopes[: torch.Size(shape).numel()].view(shape)
    return Box(slopes, shape, slopes.stride(), (1, 1, 64, rows))


def _sums_box(sums: Tensor, d: int) -> Box:
    return Box(sums, tuple(sums.shape), sums.stride(), (1, 1, d, 64))


def _in_rows(sums: Tensor, d: int) -> Tensor:
    """Sums of keys, which lie in tiles of 64 rows as registers of a product hold them, in rows."""
    return sums.view(-1, d // 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6).reshape(-1, d)


def _whole(rows: int) -> int:
    """Rows in whole blocks of queries."""
    return -(-rows // ROW_STEP) * ROW_STEP


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4
