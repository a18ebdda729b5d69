"""The dataflow ``spilled_gradients``: dS goes to memory and is multiplied with K later. Gradients repeat to the bit.

    prepare all rows
    for each chunk of batch x KV heads, key tiles and rows (``chunks``):
        gradients of its keys and values, whose dS goes to the workspace     (``spilled_key_gradients``)
        gradients of its queries: dS times keys                              (``spilled_query_gradients``)

Every number is written by one program of a launch, and launches follow each other: where chunks carry accumulators,
additions always come in the same order.
"""

from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.backward.chunks import ROW_STEP, WORKSPACE_BYTES, Chunk, chunks_of, query_heads_in_turns
from attenio.kernels.hopper.backward.config import (
    REGISTERS_AT_START,
    BackwardCall,
    BackwardConfig,
    config_of,
)
from attenio.kernels.hopper.backward.masks import VisibleRows, key_tile_ranges
from attenio.kernels.hopper.backward.preprocess import PADDING, RowStatistics
from attenio.kernels.hopper.backward.spilled_query_gradients import spilled_query_gradients_kernel
from attenio.kernels.hopper.descriptors import TmaDescriptor, padded_descriptors
from attenio.kernels.hopper.tiles import side_by_side
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.planning.shared_cache import Grid, Sweep

# Tiles of keys that are prefetched for a block of queries, and registers of its threads.
AHEAD, REGISTERS = 4, 240


class _Workspace(NamedTuple):
    """Memory for dS of a chunk, and which key tiles each 64 rows see."""

    ds: Tensor
    ranges: Tensor


def spilled_gradients(
    problem: KernelProblem,
    saved: tuple[Tensor, ...],
    *,
    workspace_bytes: int = WORKSPACE_BYTES,
    config: BackwardConfig | None = None,
) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    config = config or config_of(problem)
    visible, statistics = VisibleRows.of(problem), RowStatistics.of(problem, saved)
    statistics.between(range(0), range(problem.batch * problem.kv_heads * problem.group))
    call = BackwardCall.of(problem, config, visible, statistics)
    chunks = chunks_for(problem, config, workspace_bytes)
    words = max(chunk.blocks * len(chunk.rows) for chunk in chunks) * problem.group * config.keys
    workspace = _Workspace(
        torch.empty(words, dtype=call.key.dtype, device=call.key.device),
        key_tile_ranges(
            visible, problem.queries, problem.keys, call.key.device,
            key_tile=config.keys, row_tile=config.rows, rows=statistics.padded,
        ),
    )  # fmt: skip
    for batch_heads, of_heads in groupby(chunks, attrgetter("batch_heads")):
        _head_gradients(call, workspace, batch_heads, list(of_heads))
    return call.gradients


def chunks_for(
    problem: KernelProblem, config: BackwardConfig, workspace_bytes: int = WORKSPACE_BYTES
) -> tuple[Chunk, ...]:
    """The chunks of a problem."""
    spans = Band.of(problem).spans(problem.queries, problem.keys, config.keys, config.rows)
    ds_bytes = problem.group * config.keys * problem.query.element_size()
    return chunks_of(
        problem.batch * problem.kv_heads, spans, ds_bytes, -(-problem.queries // PADDING) * PADDING,
        processors=processors_of(problem.query.device), workspace=workspace_bytes,
    )  # fmt: skip


def _head_gradients(call: BackwardCall, workspace: _Workspace, batch_heads: range, chunks: list[Chunk]) -> None:
    """Gradients of some batch x KV heads, or of one in several chunks."""
    problem, config, gradients = call.problem, call.config, call.gradients
    dq_acc = None
    if chunks[0].carries_queries:
        dq_acc = call.statistics.lse.new_zeros(problem.group, call.statistics.padded, config.d)
    for tiles, of_tiles in groupby(chunks, attrgetter("tiles")):
        parts = list(of_tiles)
        if parts[0].carries_keys:
            _carried_keys(call, workspace, tiles, parts, dq_acc)
            continue
        for chunk in parts:
            _chunk_gradients(call, workspace, chunk, call.key_gradients, dq_acc)
    if dq_acc is not None:
        dq = dq_acc[:, : problem.queries, : gradients.query.shape[-1]] * problem.scale
        gradients.query.flatten(0, 1)[batch_heads.start] = dq.to(gradients.query.dtype)


def _carried_keys(
    call: BackwardCall, workspace: _Workspace, tiles: range, chunks: list[Chunk], dq_acc: Tensor | None
) -> None:
    """Gradients of a run of key tiles whose rows come in several chunks, by way of accumulators."""
    config, gradients = call.config, call.gradients
    keys = slice(tiles.start * config.keys, min(tiles.stop * config.keys, call.problem.keys))
    dk_acc, dv_acc = (
        call.statistics.lse.new_zeros(1, 1, len(tiles) * config.keys * width // 64, 64)
        for width in (config.d, config.width)
    )
    outputs = *_accumulator_descriptors(dk_acc, config.d), *_accumulator_descriptors(dv_acc, config.width)
    for chunk in chunks:
        _chunk_gradients(call, workspace, chunk, outputs, dq_acc)
    for gradient, acc, width in ((gradients.key, dk_acc, config.d), (gradients.value, dv_acc, config.width)):
        rows = _in_rows(acc, width)[: keys.stop - keys.start, : gradient.shape[-1]]
        gradient.flatten(0, 1)[chunks[0].batch_heads.start, keys] = rows.to(gradient.dtype)


def _chunk_gradients(
    call: BackwardCall,
    workspace: _Workspace,
    chunk: Chunk,
    outputs: tuple[TmaDescriptor | None, ...],
    dq_acc: Tensor | None,
) -> None:
    """Gradients of keys and values to their outputs, and of queries, or additions to their accumulator."""
    problem, config, ranges = call.problem, call.config, workspace.ranges
    shape = (chunk.blocks, problem.group, config.keys, len(chunk.rows))
    ds = workspace.ds[: torch.Size(shape).numel()].view(shape)
    descriptor = TmaDescriptor(ds, shape, ds.stride(), (1, 1, 64, config.rows))
    call.launch_keys(chunk, outputs, descriptor)
    blocks = -(-len(chunk.rows) // ROW_STEP) * problem.group * len(chunk.batch_heads)
    launch(
        spilled_query_gradients_kernel, blocks, (
            descriptor._replace(block_shape=(1, 1, 64, 64)), *padded_descriptors(call.key, 64, config.d),
            *padded_descriptors(call.gradients.query.flatten(1, 2), 64, config.d),
        ), (
            call.statistics.lse if dq_acc is None else dq_acc, ranges, problem.scale,
            chunk.batch_heads.start, _query_heads_together(problem, chunk), problem.kv_heads,
            call.group_parts, problem.group, chunk.rows.start, len(chunk.rows),
            chunk.tiles.start, len(chunk.tiles), ranges.shape[1] if ranges.shape[0] > 1 else 0,
            call.statistics.padded, int(chunk.carries_queries),
        ), (*side_by_side(config.d), AHEAD, REGISTERS), CompileOptions(registers=REGISTERS_AT_START),
    )  # fmt: skip


def _query_heads_together(problem: KernelProblem, chunk: Chunk) -> int:
    """Query heads whose blocks of rows come in turns."""
    config, heads = config_of(problem), len(chunk.batch_heads) * problem.group
    spans = Band.of(problem).spans(problem.queries, problem.keys, config.keys, config.rows)
    return query_heads_in_turns(heads, spans, len(chunk.rows), processors_of(problem.query.device)) if heads > 1 else 1


def carries(problem: KernelProblem) -> bool:
    """Whether accumulators are carried from chunk to chunk, because dS of one head has no room."""
    chunk = chunks_for(problem, config_of(problem))[0]
    return chunk.carries_queries or chunk.carries_keys


def spilled_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...] | None:
    """The programs of all launches, to predict the bytes that they move below L2; None where accumulators are
    carried."""
    if carries(problem):
        return None
    element, d, width = problem.query.element_size(), int(problem.query.shape[-1]), int(problem.value.shape[-1])
    config, band, group = config_of(problem), Band.of(problem), problem.group
    processors, both, causal = processors_of(problem.query.device), (d + width) * element, band.above < problem.keys
    keys = Grid(
        units=1, rows=problem.keys, passing=group * problem.queries, tile=config.keys, resident=processors,
        read_bytes=both, written_bytes=both, passing_bytes=both + 8, swept_bytes=width * element,
        spilled_bytes=element, causal=causal and group == 1, backwards=True,
    )  # fmt: skip
    queries = Grid(
        units=1, rows=problem.queries, passing=problem.keys, tile=ROW_STEP, resident=processors,
        read_bytes=0, written_bytes=d * element, passing_bytes=d * element, fetched_bytes=element, sharing=group,
        causal=causal,
    )  # fmt: skip
    grids: list[Grid | Sweep] = [
        Sweep(
            done=0, following=problem.batch * problem.kv_heads, first_unit=0, passing=group * problem.queries,
            read_bytes=2 * width * element + 8, written_bytes=d * element, swept_bytes=width * element, updated_bytes=0,
            last_first=True,
        )
    ]  # fmt: skip
    for chunk in chunks_for(problem, config):
        size = len(chunk.batch_heads)
        grids.append(replace(keys, units=size, first_unit=chunk.batch_heads.start, together=chunk.together))
        grids.append(replace(queries, units=size * group, together=_query_heads_together(problem, chunk)))
    return tuple(grids)


def _accumulator_descriptors(acc: Tensor, width: int) -> tuple[TmaDescriptor | None, ...]:
    """Of a block's accumulators: rows of 64 for each 64 columns of its side-by-side tiles."""
    shape, strides = tuple(acc.shape), acc.stride()
    return tuple(TmaDescriptor(acc, shape, strides, (1, 1, each, 64)) if each else None for each in side_by_side(width))


def _in_rows(acc: Tensor, d: int) -> Tensor:
    """Accumulators of keys, which lie in tiles of 64 rows as registers of a product hold them, in rows."""
    return acc.view(-1, d // 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6).reshape(-1, d)
