"""The backward pass that spills slopes dS to memory: how it is launched. Its gradients repeat to the bit.

    prepare all rows
    for each chunk of units, key tiles and rows (``chunks``):
        gradients of its keys and values, whose slopes go to the workspace     (``wide``)
        gradients of its queries: the slopes times keys                        (``queries``)

Every number is written by one program of a launch, and launches follow each other: where chunks carry sums, they are
added in the same order always.
"""

from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.hopper.backward.chunks import ROW_STEP, WORKSPACE_BYTES, Chunk, chunks_of
from attenio.kernels.hopper.backward.config import BackwardCall, BackwardForm, form_of, processors_of
from attenio.kernels.hopper.backward.masks import Band, SeenRows, key_tile_ranges
from attenio.kernels.hopper.backward.preprocess import PADDING, Rows
from attenio.kernels.hopper.backward.spilled_query_gradients import query_gradients_kernel
from attenio.kernels.hopper.launch import Box, launch, padded_boxes
from attenio.kernels.hopper.tiles import side_by_side
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.two_pass import Gradients
from attenio.planning.shared_cache import Grid, Sweep

__all__ = ["AHEAD", "REGISTERS", "carries", "chunks_for", "slopes_gradients", "slopes_grids"]

# Tiles of keys that are on their way to a block of queries, and registers of its threads.
AHEAD, REGISTERS = 4, 240


class _Spilled(NamedTuple):
    """Memory for the slopes of a chunk, and which key tiles each 64 rows see."""

    slopes: Tensor
    ranges: Tensor


def slopes_gradients(
    problem: KernelProblem, saved: tuple[Tensor, ...], *, workspace_bytes: int = WORKSPACE_BYTES
) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    form = form_of(problem)
    seen, rows = SeenRows.of(problem), Rows.of(problem, saved)
    rows.between(range(0), range(problem.batch * problem.kv_heads * problem.group))
    call = BackwardCall.of(problem, form, seen, rows)
    chunks = chunks_for(problem, form, workspace_bytes)
    words = max(chunk.blocks * len(chunk.rows) for chunk in chunks) * problem.group * form.keys
    spilled = _Spilled(
        torch.empty(words, dtype=call.key.dtype, device=call.key.device),
        key_tile_ranges(
            seen, problem.queries, problem.keys, call.key.device,
            key_tile=form.keys, row_tile=form.rows, rows=rows.padded,
        ),
    )  # fmt: skip
    for units, of_units in groupby(chunks, attrgetter("units")):
        _unit_gradients(call, spilled, units, list(of_units))
    return call.found


def chunks_for(problem: KernelProblem, form: BackwardForm, workspace_bytes: int = WORKSPACE_BYTES) -> tuple[Chunk, ...]:
    """The chunks of a problem."""
    spans = Band.of(problem).spans(problem.queries, problem.keys, form.keys, form.rows)
    slope_bytes = problem.group * form.keys * problem.query.element_size()
    return chunks_of(
        problem.batch * problem.kv_heads, spans, slope_bytes, -(-problem.queries // PADDING) * PADDING,
        processors=processors_of(problem.query.device), workspace=workspace_bytes,
    )  # fmt: skip


def _unit_gradients(call: BackwardCall, spilled: _Spilled, units: range, chunks: list[Chunk]) -> None:
    """Gradients of some units, or of one in several chunks."""
    problem, form, found = call.problem, call.form, call.found
    sums = None
    if chunks[0].carries_queries:
        sums = call.rows.lse.new_zeros(problem.group, call.rows.padded, form.d)
    for tiles, of_tiles in groupby(chunks, attrgetter("tiles")):
        parts = list(of_tiles)
        if parts[0].carries_keys:
            _carried_keys(call, spilled, tiles, parts, sums)
            continue
        for chunk in parts:
            _chunk_gradients(call, spilled, chunk, call.key_gradients, sums)
    if sums is not None:
        whole = sums[:, : problem.queries, : found.query.shape[-1]] * problem.scale
        found.query.flatten(0, 1)[units.start] = whole.to(found.query.dtype)


def _carried_keys(
    call: BackwardCall, spilled: _Spilled, tiles: range, chunks: list[Chunk], query_sums: Tensor | None
) -> None:
    """Gradients of a run of key tiles whose rows come in several chunks, by way of sums."""
    form, found = call.form, call.found
    keys = slice(tiles.start * form.keys, min(tiles.stop * form.keys, call.problem.keys))
    of_keys, of_values = (
        call.rows.lse.new_zeros(1, 1, len(tiles) * form.keys * width // 64, 64) for width in (form.d, form.width)
    )
    written = *_sums_boxes(of_keys, form.d), *_sums_boxes(of_values, form.width)
    for chunk in chunks:
        _chunk_gradients(call, spilled, chunk, written, query_sums)
    for gradient, sums, width in ((found.key, of_keys, form.d), (found.value, of_values, form.width)):
        whole = _in_rows(sums, width)[: keys.stop - keys.start, : gradient.shape[-1]]
        gradient.flatten(0, 1)[chunks[0].units.start, keys] = whole.to(gradient.dtype)


def _chunk_gradients(
    call: BackwardCall, spilled: _Spilled, chunk: Chunk, written: tuple[Box | None, ...], query_sums: Tensor | None
) -> None:
    """Gradients of keys and values where they are ``written``, and of queries, or additions to their sums."""
    problem, form, ranges = call.problem, call.form, spilled.ranges
    shape = (chunk.blocks, problem.group, form.keys, len(chunk.rows))
    slopes = spilled.slopes[: torch.Size(shape).numel()].view(shape)
    box = Box(slopes, shape, slopes.stride(), (1, 1, 64, form.rows))
    call.launch_keys(chunk, written, box)
    blocks = -(-len(chunk.rows) // ROW_STEP) * problem.group * len(chunk.units)
    slots = (1, len(chunk.units)) if chunk.together > 1 else (len(chunk.tiles), 1)
    launch(
        query_gradients_kernel, blocks, (
            box._replace(block_shape=(1, 1, 64, 64)), *padded_boxes(call.key, 64, form.d),
            *padded_boxes(call.found.query.flatten(1, 2), 64, form.d),
        ), (
            call.rows.lse if query_sums is None else query_sums, ranges, problem.scale,
            chunk.units.start, *slots, problem.kv_heads, problem.group, chunk.rows.start, len(chunk.rows),
            chunk.tiles.start, len(chunk.tiles), ranges.shape[1] if ranges.shape[0] > 1 else 0,
            call.rows.padded, int(chunk.carries_queries),
        ), (*side_by_side(form.d), AHEAD, REGISTERS), 168,
    )  # fmt: skip


def carries(problem: KernelProblem) -> bool:
    """Whether gradients are carried from chunk to chunk, because the slopes of one unit have no room."""
    form = form_of(problem)
    chunk = chunks_for(problem, form)[0]
    return chunk.carries_queries or chunk.carries_keys


def slopes_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...] | None:
    """The programs of all launches, to predict the bytes that they move below L2; None where chunks carry sums."""
    if carries(problem):
        return None
    element, d, width = problem.query.element_size(), int(problem.query.shape[-1]), int(problem.value.shape[-1])
    form, band, group = form_of(problem), Band.of(problem), problem.group
    processors, both, causal = processors_of(problem.query.device), (d + width) * element, band.above < problem.keys
    keys = Grid(
        units=1, rows=problem.keys, passing=group * problem.queries, tile=form.keys, resident=processors,
        read_bytes=both, written_bytes=both, passing_bytes=both + 8, swept_bytes=width * element,
        spilled_bytes=element, causal=causal and group == 1, backwards=True,
    )  # fmt: skip
    queries = Grid(
        units=1, rows=problem.queries, passing=problem.keys, tile=ROW_STEP, resident=processors,
        read_bytes=0, written_bytes=d * element, passing_bytes=d * element, fetched_bytes=element, sharing=group,
        causal=causal,
    )  # fmt: skip
    found: list[Grid | Sweep] = [
        Sweep(
            done=0, following=problem.batch * problem.kv_heads, first_unit=0, passing=group * problem.queries,
            read_bytes=2 * width * element + 8, written_bytes=d * element, swept_bytes=width * element, updated_bytes=0,
        )
    ]  # fmt: skip
    for chunk in chunks_for(problem, form):
        size = len(chunk.units)
        found.append(replace(keys, units=size, first_unit=chunk.units.start, together=chunk.together))
        found.append(replace(queries, units=size * group, together=size * group if chunk.together > 1 else 1))
    return tuple(found)


def _sums_boxes(sums: Tensor, width: int) -> tuple[Box | None, ...]:
    """Boxes of a block's sums: rows of 64 for each 64 columns of its side-by-side tiles."""
    shape, steps = tuple(sums.shape), sums.stride()
    return tuple(Box(sums, shape, steps, (1, 1, each, 64)) if each else None for each in side_by_side(width))


def _in_rows(sums: Tensor, d: int) -> Tensor:
    """Sums of keys, which lie in tiles of 64 rows as registers of a product hold them, in rows."""
    return sums.view(-1, d // 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6).reshape(-1, d)
