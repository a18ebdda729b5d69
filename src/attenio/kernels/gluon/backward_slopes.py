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
from attenio.kernels.gluon.backward_rows import PADDING, Rows
from attenio.kernels.gluon.backward_wide import wide_gradients_kernel
from attenio.kernels.gluon.launch import Box, aligned, launch, padded_box
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import LOG2_E, grouped_heads
from attenio.kernels.triton.two_pass import Gradients

__all__ = ["SlopesForm", "chunks_for", "slopes_form", "slopes_gradients"]


class SlopesForm(NamedTuple):
    """A kernel that spills slopes and its tiles, and those of the kernel that multiplies slopes with keys.

    ``d`` is the width both work in, wider than the heads where columns are zeros. The first has ``slots`` tiles of dS at
    once, and keys in boxes of ``columns``. A consumer of slopes has ``parts`` times 64 rows, and ``ahead`` tiles of 64 keys
    are on their way to it.
    """

    kernel: Any
    d: int
    rows: int
    keys: int
    stages: int
    slots: int
    columns: int
    parts: int
    ahead: int

    def constants(self, *, hides: bool, packed: bool, adds: bool) -> tuple[int, ...]:
        """What the kernel is compiled for."""
        spills = () if self.kernel is wide_gradients_kernel else (True,)
        return (self.rows, self.keys, self.d, self.stages, self.slots, hides, packed, *spills, adds, 240)


def slopes_form(width: int) -> SlopesForm:
    """The form for heads of at most this width.

    Sums of a consumer of slopes take 128 registers: where they are narrow it has more rows, so that keys are read less.
    """
    if width <= 64:
        return SlopesForm(narrow_gradients_kernel, 64, 128, 128, 2, 3, 64, 2, 5)
    if width <= 128:
        return SlopesForm(narrow_gradients_kernel, 128, 64, 128, 2, 4, 128, 2, 4)
    return SlopesForm(wide_gradients_kernel, 256, 64, 64, 3, 2, 128, 1, 4)


class _Call(NamedTuple):
    """What all launches of a call share."""

    problem: KernelProblem
    form: SlopesForm
    seen: SeenRows
    rows: Rows
    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor
    found: Gradients
    ranges: Tensor
    slopes: Tensor


def slopes_gradients(
    problem: KernelProblem, saved: tuple[Tensor, ...], *, workspace_bytes: int = WORKSPACE_BYTES
) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    query, key, value = grouped_heads(problem.query), problem.key, problem.value
    form, seen = slopes_form(max(query.shape[-1], value.shape[-1])), SeenRows.of(problem)
    kinds = (query, key, value)
    found = Gradients(*(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in kinds), bias=None)
    rows = Rows.of(problem, saved)
    rows.between(range(0), range(problem.batch * problem.kv_heads * problem.group))
    chunks = chunks_for(problem, form, seen, workspace_bytes)
    most = max(chunk.blocks * len(chunk.rows) for chunk in chunks)
    call = _Call(
        problem, form, seen, rows, *(aligned(x) for x in (query.flatten(1, 2), key, value, rows.gradient)), found,
        key_tile_ranges(
            seen, problem.queries, problem.keys, key.device,
            key_tile=form.keys, row_tile=form.rows, rows=_whole(rows.padded),
        ),
        torch.empty(most * problem.group * form.keys, dtype=key.dtype, device=key.device),
    )  # fmt: skip
    for units, of_units in groupby(chunks, attrgetter("units")):
        _unit_gradients(call, units, list(of_units))
    return found


def chunks_for(
    problem: KernelProblem, form: SlopesForm, seen: SeenRows, workspace_bytes: int = WORKSPACE_BYTES
) -> tuple[Chunk, ...]:
    """The chunks of a problem."""
    spans = tile_spans(seen, problem.queries, problem.keys, key_tile=form.keys, row_tile=form.rows)
    slope_bytes = problem.group * form.keys * problem.query.element_size()
    return chunks_of(
        problem.batch * problem.kv_heads, tuple(spans), slope_bytes, -(-problem.queries // PADDING) * PADDING,
        processors=_processors(problem.query.device), workspace=workspace_bytes,
    )  # fmt: skip


def _unit_gradients(call: _Call, units: range, chunks: list[Chunk]) -> None:
    """Gradients of some units, or of one in several chunks."""
    problem, form, found = call.problem, call.form, call.found
    sums = None
    if chunks[0].carries_queries:
        sums = call.rows.lse.new_zeros(problem.group, _whole(call.rows.padded), form.d)
    for tiles, of_tiles in groupby(chunks, attrgetter("tiles")):
        parts = list(of_tiles)
        if parts[0].carries_keys:
            _carried_keys(call, tiles, parts, sums)
            continue
        written = (padded_box(found.key, 64, form.d), padded_box(found.value, 64, form.d))
        for chunk in parts:
            _chunk_gradients(call, chunk, written, sums)
    if sums is not None:
        whole = sums[:, : problem.queries, : found.query.shape[-1]] * problem.scale
        found.query.flatten(0, 1)[units.start] = whole.to(found.query.dtype)


def _carried_keys(call: _Call, tiles: range, chunks: list[Chunk], query_sums: Tensor | None) -> None:
    """Gradients of a run of key tiles whose rows come in several chunks, by way of sums."""
    form, found = call.form, call.found
    keys = slice(tiles.start * form.keys, min(tiles.stop * form.keys, call.problem.keys))
    sums = call.rows.lse.new_zeros(2, 1, 1, len(tiles) * form.keys * form.d // 64, 64)
    key_box, value_box = (Box(each, tuple(each.shape), each.stride(), (1, 1, form.d, 64)) for each in sums)
    for chunk in chunks:
        _chunk_gradients(call, chunk, (key_box, value_box), query_sums)
    for gradient, each in zip((found.key, found.value), sums, strict=True):
        whole = _in_rows(each, form.d)[: keys.stop - keys.start, : gradient.shape[-1]]
        gradient.flatten(0, 1)[chunks[0].units.start, keys] = whole.to(gradient.dtype)


def _chunk_gradients(call: _Call, chunk: Chunk, written: tuple[Box, Box], query_sums: Tensor | None) -> None:
    """Gradients of keys and values where they are ``written``, and of queries, or additions to their sums."""
    problem, form = call.problem, call.form
    shape = (chunk.blocks, problem.group, form.keys, len(chunk.rows))
    slopes = call.slopes[: torch.Size(shape).numel()].view(shape)
    spilled = Box(slopes, shape, slopes.stride(), (1, 1, 64, form.rows))
    _launch_keys(call, chunk, (*written, spilled))
    blocks = -(-len(chunk.rows) // (2 * form.parts * 64)) * problem.group * len(chunk.units)
    slots = (1, len(chunk.units)) if chunk.together > 1 else (len(chunk.tiles), 1)
    launch(
        query_gradients_kernel, blocks, (
            spilled._replace(block_shape=(1, 1, 64, 64)), padded_box(call.key, 64, form.d),
            padded_box(call.found.query.flatten(1, 2), 64, form.d),
        ), (
            call.rows.lse if query_sums is None else query_sums, call.ranges, problem.scale,
            chunk.units.start, *slots, problem.kv_heads, problem.group, chunk.rows.start, len(chunk.rows),
            chunk.tiles.start, len(chunk.tiles), call.ranges.shape[1] if call.ranges.shape[0] > 1 else 0,
            _whole(call.rows.padded), int(chunk.carries_queries),
        ), (form.parts, form.keys, form.d, form.ahead, 240), 168,
    )  # fmt: skip


def _launch_keys(call: _Call, chunk: Chunk, written: tuple[Box, ...]) -> None:
    """Gradients of keys and values, and slopes."""
    problem, form, seen, rows = call.problem, call.form, call.seen, call.rows
    no_rows = call.ranges
    launch(
        form.kernel, chunk.blocks, (
            padded_box(call.query, form.rows, form.d), padded_box(call.key, 64, form.columns),
            padded_box(call.value, 64, form.columns), padded_box(call.gradient, form.rows, form.d), *written,
        ), (
            rows.lse, rows.delta, no_rows if seen.first_rows is None else seen.first_rows,
            no_rows if seen.stop_rows is None else seen.stop_rows, problem.scale * LOG2_E, problem.scale,
            chunk.units.start * -(-problem.keys // form.keys) + chunk.tiles.start, chunk.together,
            problem.kv_heads, problem.group, problem.keys, seen.below, seen.above,
            chunk.rows.start, min(chunk.rows.stop, problem.queries), rows.padded,
        ), form.constants(
            hides=seen.hides(problem.queries, problem.keys, form.keys), packed=seen.is_packed, adds=chunk.carries_keys
        ), 168,
    )  # fmt: skip


def _in_rows(sums: Tensor, d: int) -> Tensor:
    """Sums of keys, which lie in tiles of 64 rows as registers of a product hold them, in rows."""
    return sums.view(-1, d // 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6).reshape(-1, d)


def _whole(rows: int) -> int:
    """Rows in whole blocks of queries."""
    return -(-rows // ROW_STEP) * ROW_STEP


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4
