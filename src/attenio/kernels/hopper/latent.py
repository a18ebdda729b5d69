"""Latents on Hopper, whose first 512 columns are values: which problems ``split_latents`` takes, and on what grid.

It is written in CUDA C++, and in Gluon for what that does not take and where it was not right or does not compile.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor

from attenio.kernels.call.choice import READ_ONCE, Choice, Split
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.gpu.arguments import Shape, restrictions_of, scaled
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.cuda import split_latents as cuda
from attenio.kernels.hopper.cuda.split_latents import CudaLatentTiles, LatentBuild
from attenio.kernels.hopper.descriptors import ELEMENTS, aligned, is_aligned, padded_descriptor
from attenio.kernels.hopper.proving import forward_by_definition
from attenio.kernels.hopper.tiles import ROWS
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.planning import Dataflow, Tiles

VALUE_WIDTH, MOST_WIDTH, TAIL = 512, 576, 64
# Queries of a sequence at most: more are prefill, whose row tiles would walk keys that they do not see.
_QUERIES = 64
# Measured on an H200: a program takes as long before its first and after its last tile as for so many tiles, a join as
# long as for two, and each 100 MB of runs that are written and read for 12 more.
_START_TILES, _JOIN_TILES, _TILES_PER_BYTE = 10, 2, 12 / 1e8


@dataclass(frozen=True, kw_only=True)
class LatentTiles:
    """Rows and keys of a tile, stages of the ring of latents, and registers of the warpgroups that accumulate O."""

    rows: int = ROWS
    key_tile: int = 64
    stages: int = 3
    registers: int = 160
    registers_at_start: int = 168


TILES = LatentTiles()


def why_not(problem: KernelProblem) -> str | None:
    """Why this kernel does not compute a problem: it takes latents of 16 bits, and few queries."""
    seen, d = problem.visible, problem.query.shape[-1]
    if not problem.values_in_keys:
        return "values are no part of the keys"
    if problem.query.dtype not in ELEMENTS:
        return "tensor cores take 16-bit heads"
    if not (problem.value.shape[-1] == VALUE_WIDTH and VALUE_WIDTH <= d <= MOST_WIDTH and d % 8 == 0):
        return f"latents of {VALUE_WIDTH} columns, with up to {MOST_WIDTH - VALUE_WIDTH} more in keys, are taken"
    if any(given is not None for given in (seen.query_ids, seen.blocks, seen.bias, problem.dropout)):
        return "masks, ids, blocks and dropout are computed by portable kernels"
    if problem.softcap:
        return "caps are computed by portable kernels"
    if not 0 < problem.queries <= _QUERIES:
        return f"up to {_QUERIES} queries are taken"
    if not (problem.group and problem.batch * problem.kv_heads):
        return "there are no heads"
    first, stop = _keys_of(Shape.of(problem))
    if first >= stop:
        return "no key is seen"
    return None if is_aligned(problem.key) else "TMA cannot load keys that lie so"


def choose(problem: KernelProblem, processors: int | None = None) -> Choice:
    """What runs for a problem that ``why_not`` has nothing against."""
    shape, dtype, device = Shape.of(problem), problem.query.dtype, problem.query.device
    split, tiles = _split(shape, processors or processors_of(device)), cuda.tiles_of(problem)
    if tiles is not None:
        build = cuda.build_of(tiles, shape.queries, shape.band, split)
        if cuda.is_ready(build, dtype, device, partial(_computed_twice, build, dtype, device)):
            return _choice(shape, split, tiles)
    return _choice(shape, split, TILES)


def _keys_of(shape: Shape) -> tuple[int, int]:
    """The first key that some row sees, and the one after the last."""
    return max(0, shape.band.below), min(shape.keys, shape.queries + shape.band.above)


@lru_cache(maxsize=4096)
def _split(shape: Shape, processors: int) -> Split:
    first, stop = _keys_of(shape)
    total = -(-(stop - first) // TILES.key_tile)
    splits = splits_for(total, shape.batch_heads, shape.group * shape.queries, processors)
    return Split(first, stop, -(-total // splits) * TILES.key_tile, splits)


@lru_cache(maxsize=4096)
def _choice(shape: Shape, split: Split, tiles: LatentTiles | CudaLatentTiles) -> Choice:
    return Choice(
        dataflow=Dataflow.SPLIT_KEYS,
        tiles=Tiles.of(
            query_tile=shape.queries, head_tile=shape.group, key_tile=min(tiles.key_tile, shape.keys),
            keys_per_split=min(split.keys, shape.keys),
        ),
        language="CUDA C++" if isinstance(tiles, CudaLatentTiles) else "Gluon", name=cuda.KERNEL, kernel=tiles,
        why=READ_ONCE, split=split, values_in_keys=True,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def splits_for(total: int, batch_heads: int, rows: int, processors: int) -> int:
    """Into how many runs so many key tiles are cut: what makes the last wave of programs end soonest."""
    row_tiles, best = -(-rows // TILES.rows), (math.inf, 1)
    run_bytes = batch_heads * rows * VALUE_WIDTH * 4 * 2
    for splits in range(1, min(total, max(1, 2 * processors // (batch_heads * row_tiles))) + 1):
        waves = -(-batch_heads * row_tiles * splits // processors)
        join = _JOIN_TILES + splits * run_bytes * _TILES_PER_BYTE if splits > 1 else 0.0
        best = min(best, (waves * (-(-total // splits) + _START_TILES) + join, splits))
    return best[1]


def attend(problem: KernelProblem, choice: Choice | None = None) -> Attended:
    """Attention of a problem that ``why_not`` has nothing against."""
    choice = choose(problem) if choice is None else choice
    split, tiles, device = choice.split, choice.kernel, problem.query.device
    assert split is not None
    (query, scale), kv_heads, queries = scaled(problem), problem.kv_heads, problem.queries
    rows, batch_heads, splits = problem.group * queries, problem.batch * kv_heads, split.splits
    query = aligned(query.contiguous()).view(problem.batch, kv_heads, rows, -1)
    output = torch.empty((*problem.query.shape[:-1], VALUE_WIDTH), dtype=query.dtype, device=device)
    largest, total = (torch.empty(problem.query.shape[:-1], dtype=torch.float32, device=device) for _ in range(2))
    results = runs = (output, largest, total)
    if splits > 1:
        part = (batch_heads, splits, rows)
        narrow = isinstance(tiles, CudaLatentTiles) and not cuda.has_wide_runs(split)
        kind = query.dtype if narrow else torch.float32
        sums = (torch.empty(part, device=device) for _ in range(2))
        runs = (torch.empty((*part, VALUE_WIDTH), dtype=kind, device=device), *sums)
    if isinstance(tiles, CudaLatentTiles):
        cuda.launch_split_latents(problem, query, scale, runs, split, tiles)
    else:
        _launch_gluon(problem, query, scale, runs, split, tiles)
    if splits > 1:
        _join(runs, results, splits, rows)
    return Attended(*results)


def _launch_gluon(
    problem: KernelProblem, query: Tensor, scale: float, runs: tuple[Tensor, ...], split: Split, tiles: LatentTiles
) -> None:
    from attenio.kernels.hopper.split_latents import split_latents_kernel

    kv_heads, queries, rows, splits = problem.kv_heads, problem.queries, query.shape[2], split.splits
    seen = restrictions_of(problem, scale)
    first, stop, range_b, *_, sinks = seen.data
    below, above, _ = seen.band
    cuts = queries > 1 and (queries - 1 + below > split.first or above + 1 < split.stop)
    launch(
        split_latents_kernel, problem.batch * kv_heads * splits * -(-rows // tiles.rows),
        (padded_descriptor(query, tiles.rows, VALUE_WIDTH // 2), padded_descriptor(query, tiles.rows, TAIL),
         padded_descriptor(problem.key, tiles.key_tile, VALUE_WIDTH // 2),
         padded_descriptor(problem.key, tiles.key_tile, TAIL)),
        (*runs, first, stop, sinks, range_b, kv_heads, queries, rows, split.first, split.stop, splits,
         -(-rows // tiles.rows), below, above, scale),
        (tiles.key_tile, tiles.stages, query.shape[-1] > VALUE_WIDTH, cuts or first is not None, sinks is not None,
         tiles.registers),
        CompileOptions(registers=tiles.registers_at_start, overlaps=True, kinds=(splits > 1, first is None)),
    )  # fmt: skip


def _join(runs: tuple[Tensor, ...], results: tuple[Tensor, ...], splits: int, rows: int) -> None:
    """Bring runs together; a program takes all columns of a row where rows are many.

    Many runs in 16 bits are added up within a warp: 64 took 7 us with four warps, 6 with two and 4 with one.
    """
    from attenio.kernels.hopper.joined_runs import join_kernel

    at_once, parts = min(1 << (splits - 1).bit_length(), 64), 1 if results[1].numel() >= 1024 else 4
    launch(
        join_kernel, results[1].numel() * parts, (), (*runs, *results, splits, rows),
        (VALUE_WIDTH // parts, VALUE_WIDTH, at_once if parts > 1 else min(at_once, 16), True),
        CompileOptions(
            warps=1 if parts > 1 and runs[0].dtype != torch.float32 else 4, overlaps=True,
            kinds=(runs[0].dtype, results[0].dtype),
        ),
    )  # fmt: skip


def _computed_twice(build: LatentBuild, dtype: torch.dtype, device: torch.device) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and log-sum-exps of each head of a small problem by a build, two times, and by the definition."""
    trial, splits = cuda.trial_of(build, dtype, device)
    shape = Shape.of(trial)
    first, stop = _keys_of(shape)
    tiles = -(-(stop - first) // TILES.key_tile)
    split = Split(first, stop, -(-tiles // splits) * TILES.key_tile, splits)
    assert cuda.build_of(build.tiles, shape.queries, Band.of(trial), split) == build, "another build would be proven"
    theirs = _by_heads(Attended(*forward_by_definition(trial)))
    mine = [part for _ in range(2) for part in _by_heads(attend(trial, _choice(shape, split, build.tiles)))]
    return mine, 2 * theirs


def _by_heads(attended: Attended) -> list[Tensor]:
    """Each by itself: few wrong rows among many would not be seen in the norm of all."""
    sums = attended.largest + attended.total.log2()
    return [*attended.output.flatten(0, 1).unbind(), *sums.flatten(0, 1).unbind()]
