"""The forward pass on a GPU: which kernel runs, on what grid, with the tiles of its plan."""

from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.stacking import stacked
from attenio.kernels.gpu.arguments import (
    Shape,
    flops_of,
    forward_widths_of,
    grouped_heads,
    kind_of,
    restrictions_of,
    scaled,
    strides_of,
)
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.gpu.counters import counters
from attenio.kernels.gpu.tuning import beginning_with, tuned
from attenio.kernels.triton.choice import choices, choose
from attenio.kernels.triton.launching import constants_of, launch_noted
from attenio.kernels.triton.order import ordered, turn_of
from attenio.kernels.triton.tiles import ForwardTiles
from attenio.planning.shared_cache import Grid


def attend(problem: KernelProblem) -> Attended:
    """Attention by what is chosen for this GPU."""
    return run(problem, choose(problem))


def run(problem: KernelProblem, choice: Choice) -> Attended:
    """Attention by a choice; a call that is large enough measures other tiles beside its own the first time."""
    shape, device = problem.query.shape[:-1], problem.query.device
    output = torch.empty((*shape, problem.value.shape[-1]), dtype=problem.query.dtype, device=device)
    attended = Attended(output, *(torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2)))
    if choice.own is not None:
        _split(problem, attended, choice.own, prefix_results(problem, choice))
    elif choice.split is not None:
        _split(problem, attended, choice)
    else:
        others = choices(Shape.of(problem), processors_of(device))
        tuned(
            kind_of("forward", problem), beginning_with(choice, others),
            lambda each: _stationary(problem, attended, each.kernel), device, flops_of(problem),
        )  # fmt: skip
    return attended


def _stationary(problem: KernelProblem, attended: Attended, tiles: ForwardTiles) -> None:
    from attenio.kernels.triton.attenio import attenio_kernel

    query, scale = scaled(problem)
    query, shape, seen = grouped_heads(query), Shape.of(problem), restrictions_of(problem, scale)
    grid, columns = _grid(shape, tiles, problem.query.device), shape.columns
    launch_noted(
        attenio_kernel, grid.units * grid.tiles, (
            query, problem.key, _values(problem), attended.output, attended.largest, attended.total,
            *strides_of(query, problem.key, problem.value), *_output_strides(attended.output), turn_of(grid),
            problem.kv_heads, problem.group // tiles.pack, problem.queries, problem.keys, *seen.band, *seen.data,
        ), {
            "ROW_TILE": tiles.row_tile, "KEY_TILE": tiles.key_tile, "PACK": tiles.pack,
            **constants_of(shape.widths, seen, (query, problem.key, problem.value, attended.output)),
            "D_PADDED": columns.d, "D_BEYOND": columns.d_beyond,
            "W_PADDED": columns.width, "W_BEYOND": columns.width_beyond,
            "num_warps": tiles.warps, "num_stages": tiles.stages,
        },
    )  # fmt: skip


def _values(problem: KernelProblem) -> Tensor | None:
    """Values as kernels take them: none where keys hold them."""
    return None if problem.values_in_keys else problem.value


def grid_of(problem: KernelProblem, tiles: ForwardTiles) -> Grid:
    """The programs of the query-stationary kernel, in the order in which they run."""
    return _grid(Shape.of(problem), tiles, problem.query.device)


@lru_cache(maxsize=1024)
def _grid(shape: Shape, tiles: ForwardTiles, device: torch.device) -> Grid:
    widths, element = shape.widths, shape.element
    grid = Grid(
        units=shape.batch_heads * shape.group // tiles.pack, rows=shape.queries * tiles.pack, tile=tiles.row_tile,
        passing=min(shape.keys, shape.band.width), resident=1, read_bytes=widths.d * element,
        written_bytes=widths.width * element + 8, passing_bytes=shape.key_bytes, sharing=shape.group // tiles.pack,
        causal=shape.band.is_causal, drops_reads=True,
    )  # fmt: skip
    of_query, of_key = shape.padded_columns
    shared = (tiles.row_tile * of_query + tiles.stages * tiles.key_tile * of_key) * element
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
    problem: KernelProblem, attended: Attended | None, choice: Choice, prefix: SplitResults | None = None
) -> SplitResults:
    """Run ``split_keys``, joined with a prefix; without ``attended`` only partial results are written."""
    try:
        return _split_with(problem, attended, choice, prefix)
    except OutOfResources:
        shape, here = Shape.of(problem), processors_of(problem.query.device)
        *others, last = choices(shape, here, splits_keys=True, skipped=problem.prefix if prefix else 0)
        for each in others:
            with suppress(OutOfResources):
                return _split_with(problem, attended, each, prefix)
        return _split_with(problem, attended, last, prefix)


def _split_with(
    problem: KernelProblem, attended: Attended | None, choice: Choice, prefix: SplitResults | None
) -> SplitResults:
    from attenio.kernels.triton.split_keys import split_keys_kernel

    query, scale = scaled(problem)
    query, widths, seen = grouped_heads(query), forward_widths_of(problem), restrictions_of(problem, scale)
    tiles, split = choice.kernel, choice.split
    assert split is not None
    row_tiles = -(-problem.group * problem.queries // tiles.row_tile)
    blocks = problem.batch * problem.kv_heads * row_tiles
    results = SplitResults.of(problem, split.splits)
    written = attended or Attended(results.sums, results.sums, results.sums)
    launch_noted(
        split_keys_kernel, split.splits * blocks, (
            query, problem.key, _values(problem), *written, *results, counters(problem.query.device, blocks),
            None if prefix is None else prefix.sums, None if prefix is None else prefix.statistics,
            *strides_of(query, problem.key, problem.value), *_output_strides(written.output),
            problem.kv_heads, problem.queries, problem.keys, split.first, split.keys,
            0 if prefix is None else prefix.sums.shape[2],
            *seen.band, *seen.data,
        ), {
            "ROW_TILE": tiles.row_tile, "KEY_TILE": tiles.key_tile, "PACK": problem.group,
            **constants_of(widths, seen, (query, problem.key, problem.value, written.output)),
            "SPLITS": split.splits, "PREFIX_SPLITS": 0 if prefix is None else prefix.sums.shape[1],
            "JOINS": attended is not None, "num_warps": tiles.warps, "num_stages": tiles.stages,
        },
    )  # fmt: skip
    return results


def prefix_results(problem: KernelProblem, choice: Choice) -> SplitResults:
    """Sums of the shared prefix for the rows of all requests, stacked, by a choice that has keys of their own."""
    return _split(stacked(problem), None, choice)


def _output_strides(output: Tensor) -> tuple[int, int, int]:
    batch, head, position = (output.stride(0), output.stride(2), output.stride(3)) if output.dim() == 5 else (0, 0, 0)
    return batch, head, position
