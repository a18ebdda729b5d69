"""The dataflow ``attenio`` in Gluon: its launch."""

from functools import lru_cache
from typing import Any

import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.gpu.arguments import scaled
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.descriptors import aligned, padded_descriptors
from attenio.kernels.hopper.ranges import VisibleKeys
from attenio.kernels.hopper.schedule import LaunchPlan
from attenio.kernels.hopper.tiles import ROWS, GluonTiles, side_by_side
from attenio.kernels.replay.launches import CompileOptions, launch

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
    constants = (
        *_constants(tiles, plan.columns, band, problem.keys, plan.pace),
        problem.sinks is not None, bool(problem.softcap), tiles.shared,
    )  # fmt: skip
    return launch(attenio_kernel, plan.programs, described, arguments, constants, options)


@lru_cache(maxsize=256)
def _constants(tiles: GluonTiles, columns: tuple[int, int], band: Band, keys: int, pace: int) -> tuple[int, ...]:
    """What the kernel is compiled for, but for sinks and a cap."""
    masked = not band.is_dense or keys % tiles.key_tile != 0
    return (
        tiles.consumers, tiles.key_tile, tiles.stages, *side_by_side(columns[0]), *side_by_side(columns[1]),
        masked, band.cuts_before, band.packed, tiles.ping_pong, tiles.staged, tiles.held, pace, _LAG, tiles.registers,
    )  # fmt: skip
