"""The backward pass on Hopper: which problems it takes, and by which of two dataflows they run.

Blocks keep keys while rows pass. Parts of dQ are added to accumulators, in any order (``key_stationary``); or dS is
spilled to memory and multiplied with keys by a kernel of its own (``spilled_gradients``). The second repeats to the
bit, and is faster for wide heads. Accumulators of integers repeat to the bit too; narrower heads take them if they
must.
"""

import torch
from torch import Tensor

from attenio.kernels import triton
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.results import Gradients
from attenio.kernels.hopper.backward.chunks import ROW_STEP
from attenio.kernels.hopper.backward.config import config_of
from attenio.kernels.hopper.backward.fixed_point import fixed_point_suffices
from attenio.kernels.hopper.backward.key_stationary import (
    key_stationary_gradients,
    key_stationary_grids,
    uses_fixed_point,
)
from attenio.kernels.hopper.backward.masks import Band
from attenio.kernels.hopper.backward.spilled_gradients import carries, spilled_gradients, spilled_grids
from attenio.kernels.hopper.proving import is_right, small_problem
from attenio.planning.shared_cache import Grid, Sweep


def supports(problem: KernelProblem) -> bool:
    """Whether these kernels compute the problem: 16-bit heads up to 256 wide, and no mask but bands and ranges."""
    seen = problem.visible
    restricted = (seen.bias, seen.query_ids, seen.blocks, problem.dropout)
    widths = problem.query.shape[-1], problem.value.shape[-1]
    return (
        problem.query.dtype in (torch.bfloat16, torch.float16)
        and all(0 < width <= 256 and width % 8 == 0 for width in widths)
        and all(given is None for given in restricted)
        and min(problem.query.numel(), problem.key.numel()) > 0
        and (not problem.deterministic or config_of(problem).spills or fixed_point_suffices(problem))
        and problem.scale > 0.0  # masked_scores scores are -inf before they are scaled
    )


def is_proven(problem: KernelProblem) -> bool:
    """Whether the kernels for this problem have given the gradients of the portable ones on this device."""
    dtype, device, config, band = problem.query.dtype, problem.query.device, config_of(problem), Band.of(problem)
    masked, carried = band.masks(problem.queries, problem.keys, config.keys), config.spills and carries(problem)

    def both() -> tuple[list[Tensor], list[Tensor]]:
        queries, keys = (2 * config.rows + 40, 3 * config.keys + 24) if masked else (4 * config.rows, 4 * config.keys)
        trial = small_problem(
            (2 * ROW_STEP + queries if carried else queries, keys), (config.d, config.width), dtype, device,
            masked=masked, packed=band.packed, deterministic=problem.deterministic,
        )  # fmt: skip
        attended = triton.attend(trial)
        saved = (*attended, trial.query.flip(2, 3)[..., : config.width].contiguous())
        mine = spilled_gradients(trial, saved, workspace_bytes=1) if carried else gradients(trial, saved)
        return list(mine[:3]), list(triton.two_pass(trial, saved)[:3])

    tiles = "packed" if band.packed else "masked" if masked else "whole"
    if config.spills:
        way = "dS spilled and carried" if carried else "dS spilled"
    else:
        way = "dQ in fixed point" if uses_fixed_point(problem) else "dQ added in any order"
    columns = str(config.d) if config.d == config.width else f"{config.d} and {config.width}"
    return is_right(f"gradients {columns} wide, {tiles} tiles, {way}", dtype, device, both)


def gradients(problem: KernelProblem, saved: tuple[Tensor, ...]) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    return spilled_gradients(problem, saved) if config_of(problem).spills else key_stationary_gradients(problem, saved)


def gradient_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...] | None:
    """The programs of all launches, for a prediction of the bytes that they move below L2, if they can be told."""
    return spilled_grids(problem) if config_of(problem).spills else key_stationary_grids(problem)
