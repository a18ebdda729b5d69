"""fp32 on Hopper with parts of bf16 that are made before (``in_parts``): which problems, and their launches.

A first kernel writes the parts of a matrix once. Made inside a kernel, as portable ones do, parts of keys are made
again by every tile of queries, and none of them waits in shared memory as products take it.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended, Gradients
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.arguments import grouped_heads, scaled
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.descriptors import TmaDescriptor
from attenio.kernels.hopper.proving import forward_by_definition, gradients_by_definition, is_right, small_problem
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.kernels.triton.parts import split
from attenio.planning import Dataflow, Tiles

# Columns of a piece, and of the widest heads whose sums stay in registers.
_PIECE, _WIDEST = 64, 256
_WHY = "parts of bf16 are made once, before; products load pieces of both sides, so that 128 rows of any width stay"


@dataclass(frozen=True, kw_only=True)
class PartsTiles:
    """Rows that stay and rows that pass; registers of a consumer, and of every thread at first."""

    rows: int = 128
    passing: int = 64
    registers: int = 240
    registers_at_start: int = 168


TILES = PartsTiles()


def why_not(problem: KernelProblem, *, backward: bool = False) -> str | None:
    """Why these kernels do not compute a problem: they take fp32, bands, and rows enough to make parts for."""
    seen, query = problem.visible, problem.query
    if query.dtype != torch.float32:
        return "parts are made of fp32"
    if not all(0 < columns <= _WIDEST for columns in (query.shape[-1], problem.value.shape[-1])):
        return f"sums of up to {_WIDEST} columns stay in registers"
    if any(given is not None for given in (seen.bias, seen.query_ids, seen.blocks, seen.first, problem.dropout)):
        return "masks, ids, blocks, ranges and dropout are computed by portable kernels"
    if problem.softcap or (problem.sinks is not None and not backward):
        return "caps and sinks are computed by portable kernels"
    if not (problem.batch * problem.kv_heads * problem.group):
        return "there are no heads"
    fewest = _fewest(max(_columns(query), _columns(problem.value)), backward=backward)
    if min(problem.queries, problem.keys, Band.of(problem).width) < fewest:
        return f"parts are made where each row meets {fewest} others or more"
    if problem.values_in_keys and not backward:
        return "values that are part of their keys are read once by portable kernels"
    if problem.prefix and can_stack(problem):
        return "a shared prefix is computed for all requests at once"
    return None


def _fewest(columns: int, *, backward: bool) -> int:
    """Rows that each row has to meet, so that making its parts does not take longer than they save.

    Of 256, 512, 1,024 and more that were measured on an H200, the first from which on it saves time.
    """
    if backward:
        return 1024 if columns <= _PIECE else 256
    return 512 if columns <= 2 * _PIECE else 256


def is_proven(problem: KernelProblem, *, backward: bool = False, tries: bool = True) -> bool:
    """Whether they have given what the definition gives on this device; unless this ``tries`` them, they are right."""
    widths = int(problem.query.shape[-1]), int(problem.value.shape[-1])
    both = partial(_gradients_twice if backward else _output_twice, widths, problem.query.device)
    name = f"fp32 in parts, {widths[0]} and {widths[1]} wide, {'gradients' if backward else 'outputs'}"
    return is_right(name, torch.float32, problem.query.device, both if tries else None)


def choose(problem: KernelProblem) -> Choice:
    """What runs for a problem that ``why_not`` has nothing against."""
    return _choice(problem.queries, problem.keys)


def choose_backward(problem: KernelProblem) -> Choice:
    """What computes its gradients."""
    return _backward_choice(problem.queries, problem.keys)


@lru_cache(maxsize=1024)
def _choice(queries: int, keys: int) -> Choice:
    return Choice(
        dataflow=Dataflow.ATTENIO,
        tiles=Tiles.of(query_tile=min(TILES.rows, queries), key_tile=min(TILES.passing, keys)),
        language="Gluon", name="query_parts_kernel", kernel=TILES, why=_WHY,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _backward_choice(queries: int, keys: int) -> Choice:
    return Choice(
        dataflow=Dataflow.TWO_PASS,
        tiles=Tiles.of(
            query_tile=min(TILES.rows, queries), head_tile=1, key_tile=min(TILES.passing, keys),
            stationary_keys=min(TILES.rows, keys), passing_queries=min(TILES.passing, queries),
        ),
        language="Gluon", name="query_parts_kernel and key_parts_kernel", kernel=TILES, why=_WHY,
    )  # fmt: skip


def attend(problem: KernelProblem) -> Attended:
    """Attention with its matrices in parts."""
    query, scale = scaled(problem)
    q, k, v = (split(x, _columns(x)) for x in (grouped_heads(query), problem.key, problem.value))
    shape, device = problem.query.shape[:-1], query.device
    output = torch.empty((*shape, problem.value.shape[-1]), dtype=query.dtype, device=device)
    attended = Attended(output, *(torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2)))
    _launch_queries(problem, (q, q, k, v), scale, (*attended[1:], attended.total, output), softmax=True)
    return attended


def gradients(problem: KernelProblem, saved: tuple[Tensor, ...]) -> Gradients:
    """Gradients with all matrices in parts; dK and dV have a pass each, which takes the registers of one."""
    from attenio.kernels.hopper.in_parts import key_parts_kernel

    query, output, gradient = (grouped_heads(x) for x in (problem.query, saved[0], saved[3]))
    rows = _statistics(saved[1], saved[2])
    delta = torch.empty_like(rows[0])
    q, k, v = (split(x, _columns(x)) for x in (query, problem.key, problem.value))
    do = split(gradient, _columns(gradient), other=output, sums=delta)
    results = Gradients(
        query=torch.empty(query.shape, dtype=query.dtype, device=query.device),
        key=torch.empty(problem.key.shape, dtype=query.dtype, device=query.device),
        value=torch.empty(problem.value.shape, dtype=query.dtype, device=query.device), bias=None,
    )  # fmt: skip
    scale = problem.scale * LOG2_E
    _launch_queries(problem, (q, do, k, v), scale, (*rows, delta, results.query), softmax=False)
    blocks = problem.batch * problem.kv_heads * -(-problem.keys // TILES.rows)
    for of_keys, written in ((True, results.key), (False, results.value)):
        _launch(key_parts_kernel, problem, blocks, (k, v, q, do), scale, (*rows, delta, written), of_keys)
    return results


def _launch_queries(
    problem: KernelProblem, matrices: tuple[Tensor, ...], scale: float, rows: tuple[Tensor, ...], *, softmax: bool
) -> None:
    from attenio.kernels.hopper.in_parts import query_parts_kernel

    heads = problem.batch * problem.kv_heads * problem.group
    blocks = heads * -(-problem.queries // TILES.rows)
    _launch(query_parts_kernel, problem, blocks, matrices, scale, rows, softmax)


def _launch(
    kernel: Any, problem: KernelProblem, blocks: int, matrices: tuple[Tensor, ...], scale: float,
    rows: tuple[Tensor, ...], variant: bool,
) -> None:  # fmt: skip
    below, above, _ = Band.of(problem)
    filled = (-(-size // TILES.rows) * TILES.rows for size in (problem.queries, problem.keys))
    widths = int(problem.query.shape[-1]), int(problem.value.shape[-1])
    launch(
        kernel, blocks, tuple(map(_descriptor, matrices)), (
            *rows, problem.queries, problem.keys, *filled, problem.group, below, above, scale, problem.scale,
        ), (*widths, _columns(problem.query), _columns(problem.value), variant, TILES.registers),
        CompileOptions(registers=TILES.registers_at_start),
    )  # fmt: skip


def _columns(tensor: Tensor) -> int:
    """Columns of whole pieces."""
    return -(-int(tensor.shape[-1]) // _PIECE) * _PIECE


def _statistics(largest: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """m and 1 / l of rows; 0 of those that see nothing, and of those that heads are filled up with."""
    nothing, more = total == 0.0, (0, -total.shape[-1] % TILES.rows)
    return pad(largest.masked_fill(nothing, 0.0), more), pad((1.0 / total).masked_fill(nothing, 0.0), more)


def _descriptor(parts: Tensor) -> TmaDescriptor:
    columns = 3 * parts.shape[-1]
    return TmaDescriptor(parts, (parts.numel() // columns, columns), (columns, 1), (_PIECE, _PIECE))


def _output_twice(widths: tuple[int, int], device: torch.device) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and log-sum-exps of a small problem, by these kernels and by the definition."""
    trial = small_problem((300, 345), widths, torch.float32, device, masked=True)
    mine, theirs = attend(trial), Attended(*forward_by_definition(trial))
    return [mine.output, mine.largest + mine.total.log2()], [theirs.output, theirs.largest + theirs.total.log2()]


def _gradients_twice(widths: tuple[int, int], device: torch.device) -> tuple[list[Tensor], list[Tensor]]:
    trial = small_problem((300, 345), widths, torch.float32, device, masked=True)
    gradient = torch.randn(*trial.query.shape[:-1], widths[1], device=device)
    mine = gradients(trial, (*forward_by_definition(trial), gradient))
    return list(mine[:3]), gradients_by_definition(trial, gradient)
