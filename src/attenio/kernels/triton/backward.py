"""The backward pass on a GPU: grids and tiles of the two passes, and how they are launched."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Gradients
from attenio.kernels.gpu.arguments import Shape, flops_of, grouped_heads, kind_of, restrictions_of, widths_of
from attenio.kernels.gpu.tuning import beginning_with, preferred, tuned
from attenio.kernels.replay.compiling import compile_side_by_side
from attenio.kernels.triton.choice import choose_backward
from attenio.kernels.triton.launching import constants_of, launch_noted
from attenio.kernels.triton.order import ordered, turn_of
from attenio.kernels.triton.tiles import BackwardTiles, backward_tiles
from attenio.planning.shared_cache import Grid


def gradients(problem: KernelProblem, saved: tuple[Tensor, ...], *, with_bias: bool = False) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    return run_backward(problem, saved, choose_backward(problem), with_bias=with_bias)


def run_backward(
    problem: KernelProblem, saved: tuple[Tensor, ...], choice: Choice, *, with_bias: bool = False
) -> Gradients:
    """The gradients by a choice; a call that is large enough measures other tiles beside its own the first time."""
    from attenio.kernels.triton.two_pass import key_gradients_kernel, query_gradient_kernel

    output, largest, total, gradient = saved[0], saved[1].contiguous(), saved[2].contiguous(), saved[3]
    query, output, gradient = (grouped_heads(tensor) for tensor in (problem.query, output, gradient))
    if with_bias and problem.visible.bias is not None:  # its gradient is written where the bias is read
        problem = replace(problem, visible=problem.visible._replace(bias=problem.visible.bias.contiguous()))
    bias, device = problem.visible.bias, query.device
    gradients = Gradients(
        query=torch.empty(query.shape, dtype=query.dtype, device=device),
        key=torch.empty(problem.key.shape, dtype=query.dtype, device=device),
        value=torch.empty(problem.value.shape, dtype=query.dtype, device=device),
        bias=torch.zeros(bias.shape, dtype=torch.float32, device=device) if with_bias and bias is not None else None,
    )
    seen = restrictions_of(problem, problem.scale * LOG2_E)
    delta, shape = torch.empty_like(total), Shape.of(problem)
    tensors = (query, problem.key, problem.value, output, gradient)
    constants = constants_of(widths_of(problem), seen, tensors)
    key, value, sizes = problem.key, problem.value, (problem.group, problem.queries, problem.keys)

    def first_pass(first: BackwardTiles) -> None:
        grid = query_gradient_grid(shape, first, device)
        launch_noted(
            query_gradient_kernel, grid.units * grid.tiles, (
                query, key, value, output, gradient, largest, total, delta, gradients.query,
                *_of_heads(query), *key.stride(), *value.stride(), *_of_heads(output), *_of_heads(gradient),
                turn_of(grid), problem.kv_heads * problem.group, *sizes, *seen.band, problem.scale, *seen.data,
                gradients.bias,
            ), {
                "ROW_TILE": first.stationary, "KEY_TILE": first.passing, "num_warps": first.warps,
                "num_stages": first.stages, **constants,
            },
        )  # fmt: skip

    def second_pass(second: BackwardTiles) -> None:
        grid = key_gradients_grid(shape, second, device)
        launch_noted(
            key_gradients_kernel, grid.units * grid.tiles, (
                query, key, value, gradient, largest, total, delta, gradients.key, gradients.value,
                *_rows_that_see(problem, second.stationary),
                *_of_heads(query), *key.stride(), *value.stride(), *_of_heads(gradient), turn_of(grid),
                problem.kv_heads, *sizes, *seen.band, problem.scale, *seen.data,
            ), {
                "KEY_TILE": second.stationary, "ROW_TILE": second.passing, "num_warps": second.warps,
                "num_stages": second.stages, **constants,
            },
        )  # fmt: skip

    flops, chosen, (first, second) = flops_of(problem), choice.kernel, backward_tiles(shape)
    names = kind_of("query gradient", problem), kind_of("key gradients", problem)
    candidates = beginning_with(chosen.query_gradient, first), beginning_with(chosen.key_gradients, second)
    form = (device, query.dtype, chosen, *constants.items())

    def both_passes() -> None:
        for name, tiles, run in zip(names, candidates, (first_pass, second_pass), strict=True):
            run(preferred(name, tiles, device)[0])

    if device.type == "cuda" and form not in _compiled:
        compile_side_by_side(both_passes)
        _compiled.add(form)
    # A bias collects over several runs of the first pass: measuring would add to it more than once.
    tuned(names[0], candidates[0], first_pass, device, 0 if with_bias else flops)
    tuned(names[1], candidates[1], second_pass, device, flops)
    return gradients


# Both passes of what is here were compiled side by side.
_compiled: set[tuple[Any, ...]] = set()


@lru_cache(maxsize=1024)
def query_gradient_grid(shape: Shape, tiles: BackwardTiles, device: torch.device) -> Grid:
    """The programs of the first pass: queries, outputs and their gradients stay, keys and values pass."""
    widths, element = shape.widths, shape.element
    grid = Grid(
        units=shape.batch_heads * shape.group, rows=shape.queries, passing=shape.keys,
        tile=tiles.stationary, resident=1, sharing=shape.group, causal=shape.band.is_causal, drops_reads=True,
        read_bytes=shape.both_bytes + widths.width * element + 8, written_bytes=widths.d * element + 4,
        passing_bytes=shape.both_bytes,
    )  # fmt: skip
    return _ordered(shape, grid, tiles, device)


@lru_cache(maxsize=1024)
def key_gradients_grid(shape: Shape, tiles: BackwardTiles, device: torch.device) -> Grid:
    """The programs of the second pass: keys and values stay, queries and gradients of outputs pass."""
    grid = Grid(
        units=shape.batch_heads, rows=shape.keys, passing=shape.group * shape.queries,
        tile=tiles.stationary, resident=1, causal=shape.band.is_causal and shape.group == 1, drops_reads=True,
        read_bytes=shape.both_bytes, written_bytes=shape.both_bytes, passing_bytes=shape.both_bytes + 12,
    )  # fmt: skip
    return _ordered(shape, grid, tiles, device)


def _ordered(shape: Shape, grid: Grid, tiles: BackwardTiles, device: torch.device) -> Grid:
    widest = max(shape.widths.d_padded, shape.widths.width_padded) * shape.element
    shared = 2 * (tiles.stationary + tiles.stages * tiles.passing) * widest
    return ordered(grid, device, warps=tiles.warps, shared_bytes=shared)


def _of_heads(tensor: Tensor) -> tuple[int, ...]:
    batch, _, head, position, dim = tensor.stride()
    return batch, head, position, dim


def _rows_that_see(problem: KernelProblem, key_tile: int) -> tuple[Tensor | None, Tensor | None]:
    """For every tile of keys the first position that sees one of its keys, and the one after the last.

    Ranges of keys never move backwards from one position to the next in packed sequences, so that a search finds them;
    positions that see nothing are passed over by the kernel itself.
    """
    first, stop = problem.visible.first, problem.visible.stop
    if first is None or stop is None:
        return None, None
    edges = torch.arange(0, problem.keys, key_tile, device=first.device)
    ends = torch.clamp(edges + key_tile, max=problem.keys)
    highest = torch.cummax(stop, 1).values
    lowest = torch.flip(torch.cummin(torch.flip(first, (1,)), 1).values, (1,))
    starts = torch.searchsorted(highest, edges.expand(first.shape[0], -1).contiguous(), right=True)
    stops = torch.searchsorted(lowest, ends.expand(first.shape[0], -1).contiguous(), right=False)
    shape = (problem.batch, len(edges))
    return tuple(rows.expand(shape).to(torch.int32).contiguous() for rows in (starts, stops))
