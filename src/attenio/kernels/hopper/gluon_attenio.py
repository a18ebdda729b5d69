"""The dataflow ``attenio`` in Gluon: its launch."""

from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache, partial
from sys import modules
from typing import Any

import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.gpu.arguments import scaled
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.descriptors import aligned, padded_descriptors
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.ranges import VisibleKeys
from attenio.kernels.hopper.schedule import LaunchPlan
from attenio.kernels.hopper.tiles import ROWS, GluonTiles, side_by_side
from attenio.kernels.replay.compiling import compile_alone
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.kernels.replay.launches import is_compiled as launches_compiled
from attenio.kernels.replay.standing_in import begin, begun

# Where the kernel for rows of 64 is, which is imported where it is launched.
_KERNELS = "attenio.kernels.hopper.attenio"
# Programs that walk keys together are at most so many stretches of key tiles from each other.
_LAG = 4


def launch_attenio(problem: KernelProblem, attended: Attended, tiles: GluonTiles, plan: LaunchPlan) -> None:
    """Launch the lists of programs, queries and outputs by heads."""
    (query, scale), whole, (d, width), band = scaled(problem), plan.starts, plan.columns, plan.band
    progress = torch.zeros(plan.stretches, dtype=torch.int32, device=query.device) if plan.stretches else whole
    described = (
        *padded_descriptors(aligned(query.flatten(1, 2)), ROWS, d),
        *padded_descriptors(aligned(problem.key), tiles.key_tile, d),
        *padded_descriptors(aligned(problem.value), tiles.key_tile, width),
        *padded_descriptors(attended.output.flatten(1, 2), ROWS, width),
    )  # fmt: skip
    given = (attended.largest, attended.total, plan.starts, plan.entries)
    sizes = (problem.kv_heads * problem.group, problem.group, problem.queries, problem.keys)
    options = CompileOptions(registers=tiles.registers_at_start)
    if tiles.wide:
        from attenio.kernels.hopper.attenio_256_rows import attenio_256_rows_kernel

        arguments: tuple[Any, ...] = (*given, progress, *sizes, scale)
        constants: tuple[int, ...] = (tiles.key_tile, tiles.stages, d, width, plan.pace, _LAG, tiles.registers)
        return launch(attenio_256_rows_kernel, plan.programs, described[::2], arguments, constants, options)
    from attenio.kernels.hopper.attenio import attenio_kernel

    seen, steps = (whole, whole, whole), (0, 0)
    if band.packed:
        seen = ranges = VisibleKeys.of(problem, band)
        steps = (ranges.first.stride(0), ranges.bounds.stride(0)) if ranges.first.shape[0] > 1 else (0, 0)
    sinks = attended.total if problem.sinks is None else problem.sinks.detach().float()
    inner, scale = (scale / LOG2_E / problem.softcap, problem.softcap * LOG2_E) if problem.softcap else (1.0, scale)
    arguments = (*given, *seen, progress, sinks, *steps, *sizes, band.below, band.above, scale, inner)
    constants = _constants_of(problem, tiles, plan.columns, band, plan.pace)
    return launch(attenio_kernel, plan.programs, described, arguments, constants, options)


def _constants_of(
    problem: KernelProblem, tiles: GluonTiles, columns: tuple[int, int], band: Band, pace: int
) -> tuple[int, ...]:
    """What the kernel is compiled for."""
    own = _constants(tiles, columns, band, problem.keys, pace)
    return *own, problem.sinks is not None, bool(problem.softcap), tiles.shared


def is_compiled(problem: KernelProblem, tiles: GluonTiles, kind: ForwardKind) -> bool:
    """Whether the kernel for rows of 64 is compiled for a problem of a kind."""
    # Another thread may be importing the module: its kernel is not there yet then.
    kernel = getattr(modules.get(_KERNELS), "attenio_kernel", None)
    if kernel is None or tiles.wide:
        return False
    constants = _constants_of(problem, tiles, tiles.columns(*kind.columns), kind.band, kind.pace_of(tiles))
    options = CompileOptions(registers=tiles.registers_at_start)
    compiling = begun((constants, options, kind.dtype, kind.device))
    if compiling is not None and compiling.done() and compiling.exception() is None:
        return True
    return launches_compiled(kernel, problem.query, constants, options)


def begin_compiling_attenio(problem: KernelProblem, plan: LaunchPlan) -> Future[None]:
    """Compile what a plan launches for a problem, on a thread; tensors that only have sizes stand for the problem's."""
    tiles, device, query = plan.tiles, problem.query.device, problem.query
    assert isinstance(tiles, GluonTiles) and not tiles.wide
    sized = {name: _sized(getattr(problem, name)) for name in ("query", "key", "value", "sinks")}
    seen = problem.visible._replace(first=_sized(problem.visible.first), stop=_sized(problem.visible.stop))
    twin = replace(problem, visible=seen, **sized)
    rows = torch.empty(query.shape[:-1], dtype=torch.float32, device="meta")
    results = Attended(twin.query.new_empty((*query.shape[:-1], problem.value.shape[-1])), rows, rows)
    own = plan._replace(starts=_sized(plan.starts), entries=_sized(plan.entries))
    constants = _constants_of(problem, tiles, plan.columns, plan.band, plan.pace)
    key = (constants, CompileOptions(registers=tiles.registers_at_start), query.dtype, device)
    return begin(key, partial(compile_alone, partial(launch_attenio, twin, results, tiles, own), device))


def _sized(tensor: Any) -> Any:
    """Size, strides and type of a tensor, and nothing else of it."""
    return None if tensor is None else torch.empty_like(tensor, device="meta", requires_grad=False)


@lru_cache(maxsize=256)
def _constants(tiles: GluonTiles, columns: tuple[int, int], band: Band, keys: int, pace: int) -> tuple[int, ...]:
    """What the kernel is compiled for, but for sinks and a cap."""
    masked = tiles.masks or not band.is_dense or keys % tiles.key_tile != 0
    return (
        tiles.consumers, tiles.key_tile, tiles.stages, *side_by_side(columns[0]), *side_by_side(columns[1]),
        masked, band.cuts_before, band.packed, tiles.ping_pong, tiles.staged, tiles.held, pace, _LAG, tiles.registers,
    )  # fmt: skip
