"""The forward pass on a GPU: which kernel runs, on what grid, with the tiles of its plan."""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.stacking import can_stack, stacked
from attenio.kernels.gpu.arguments import (
    LOG2_E,
    Shape,
    flops_of,
    grouped_heads,
    kind_of,
    restrictions_of,
    scaled,
    strides_of,
    widths_of,
)
from attenio.kernels.gpu.counters import counters
from attenio.kernels.gpu.results import Attended
from attenio.kernels.gpu.tuning import tuned
from attenio.kernels.triton.attenio import attenio_kernel
from attenio.kernels.triton.order import ordered, turn_of
from attenio.kernels.triton.split_keys import split_keys_kernel
from attenio.kernels.triton.tiles import ForwardTiles, forward_tiles, splits_for
from attenio.planning.shared_cache import Grid


def attend(problem: KernelProblem) -> Attended:
    """Attention by the plan for this GPU."""
    attended = _empty(problem)
    if attended.output.numel() == 0 or problem.keys == 0:
        attended.output.zero_()
        attended.total.zero_()
        attended.largest.fill_(-torch.inf)
    elif can_stack(problem):
        _after_prefix(problem, attended)
    else:
        tiles = forward_tiles(problem)
        if tiles[0].splits_keys:
            _split(problem, attended)
        else:
            tuned(
                kind_of("forward", problem), tiles, lambda each: _stationary(problem, attended, each),
                problem.query.device, flops_of(problem),
            )  # fmt: skip
    return attended


def _empty(problem: KernelProblem) -> Attended:
    shape, device = problem.query.shape[:-1], problem.query.device
    output = torch.empty((*shape, problem.value.shape[-1]), dtype=problem.query.dtype, device=device)
    largest, total = (torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2))
    return Attended(output, largest, total)


def _stationary(problem: KernelProblem, attended: Attended, tiles: ForwardTiles) -> None:
    query, scale = scaled(problem)
    query, widths, seen = grouped_heads(query), widths_of(problem), restrictions_of(problem, scale)
    grid = grid_of(problem, tiles)
    attenio_kernel[(grid.units * grid.tiles,)](
        query, problem.key, problem.value, attended.output, attended.largest, attended.total,
        *strides_of(query, problem.key, problem.value), *_output_strides(attended.output), turn_of(grid),
        problem.kv_heads, problem.group // tiles.pack, problem.queries, problem.keys, *seen.band, *seen.data,
        ROW_TILE=tiles.row_tile, KEY_TILE=tiles.key_tile, PACK=tiles.pack,
        D=widths.d, WIDTH=widths.width, D_PADDED=widths.d_padded, W_PADDED=widths.width_padded,
        ALWAYS_HIDES=seen.always_hides, BOOLEAN=seen.boolean, LOG2_E=LOG2_E, PRECISION="ieee",
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


def grid_of(problem: KernelProblem, tiles: ForwardTiles) -> Grid:
    """The programs of the query-stationary kernel, in the order in which they run."""
    return _grid(Shape.of(problem), tiles, problem.query.device)


@lru_cache(maxsize=1024)
def _grid(shape: Shape, tiles: ForwardTiles, device: torch.device) -> Grid:
    widths, element = shape.widths, shape.element
    band = max(1, shape.above - shape.below + 1)
    grid = Grid(
        units=shape.batch_heads * shape.group // tiles.pack,
        rows=shape.queries * tiles.pack,
        passing=min(shape.keys, band),
        tile=tiles.row_tile,
        resident=1,
        read_bytes=widths.d * element,
        written_bytes=widths.width * element + 8,
        passing_bytes=shape.both_bytes,
        sharing=shape.group // tiles.pack,
        causal=shape.is_causal,
        drops_reads=True,
    )
    padded = widths.d_padded + widths.width_padded
    shared = (tiles.row_tile * widths.d_padded + tiles.stages * tiles.key_tile * padded) * element
    return ordered(grid, device, warps=tiles.warps, shared_bytes=shared)


class SplitResults(NamedTuple):
    """Outputs of runs of keys, not divided yet: (batch x KV heads, splits, rows, width); largest and total of each."""

    sums: Tensor
    statistics: Tensor

    @classmethod
    def of(cls, problem: KernelProblem, splits: int) -> "SplitResults":
        """Room for them."""
        batch_heads, rows = problem.batch * problem.kv_heads, problem.group * problem.queries
        sums = torch.empty(
            (batch_heads, splits, rows, problem.value.shape[-1]), dtype=torch.float32, device=problem.query.device
        )
        return cls(sums, sums.new_empty((batch_heads, splits, 2, rows)))


def _split(
    problem: KernelProblem, attended: Attended | None, *, skipped: int = 0, prefix: SplitResults | None = None
) -> SplitResults:
    """Run ``split_keys`` over the keys from ``skipped`` on; without ``attended`` only partial results are written."""
    candidates = forward_tiles(problem, splits_keys=True)
    for tiles in candidates[:-1]:
        try:
            return _split_with(problem, attended, tiles, skipped, prefix)
        except OutOfResources:
            continue
    return _split_with(problem, attended, candidates[-1], skipped, prefix)


def _split_with(
    problem: KernelProblem, attended: Attended | None, tiles: ForwardTiles, skipped: int, prefix: SplitResults | None
) -> SplitResults:
    query, scale = scaled(problem)
    query, widths, seen = grouped_heads(query), widths_of(problem), restrictions_of(problem, scale)
    rows, batch_heads = problem.group * problem.queries, problem.batch * problem.kv_heads
    row_tiles = -(-rows // tiles.row_tile)
    below, above, _ = seen.band
    start = max(skipped, max(0, below) // tiles.key_tile * tiles.key_tile)
    seen_keys = min(problem.keys, problem.queries + above) - start
    keys_per_split, splits = splits_for(problem, tiles, batch_heads * row_tiles, max(1, seen_keys))
    results = SplitResults.of(problem, splits)
    written = attended or Attended(results.sums, results.sums, results.sums)
    arrived = counters(problem.query.device, batch_heads * row_tiles)
    split_keys_kernel[(splits * batch_heads * row_tiles,)](
        query, problem.key, problem.value, *written, *results, arrived,
        None if prefix is None else prefix.sums, None if prefix is None else prefix.statistics,
        *strides_of(query, problem.key, problem.value), *_output_strides(written.output),
        problem.kv_heads, problem.queries, problem.keys, start, keys_per_split,
        0 if prefix is None else prefix.sums.shape[2],
        *seen.band, *seen.data,
        ROW_TILE=tiles.row_tile, KEY_TILE=tiles.key_tile, PACK=problem.group,
        D=widths.d, WIDTH=widths.width, D_PADDED=widths.d_padded, W_PADDED=widths.width_padded,
        ALWAYS_HIDES=seen.always_hides, BOOLEAN=seen.boolean, LOG2_E=LOG2_E, PRECISION="ieee",
        SPLITS=splits, PREFIX_SPLITS=0 if prefix is None else prefix.sums.shape[1], JOINS=attended is not None,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    return results


def _after_prefix(problem: KernelProblem, attended: Attended) -> None:
    """The prefix once, for the rows of all requests together; then each request's own keys, joined with it."""
    _split(problem, attended, skipped=problem.prefix, prefix=prefix_results(problem))


def prefix_results(problem: KernelProblem) -> SplitResults:
    """Sums of the shared prefix for the rows of all requests, stacked."""
    return _split(stacked(problem), None)


def _output_strides(output: Tensor) -> tuple[int, int, int]:
    batch, head, position = (output.stride(0), output.stride(2), output.stride(3)) if output.dim() == 5 else (0, 0, 0)
    return batch, head, position
