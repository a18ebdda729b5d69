"""The backward pass on Hopper: which problems it takes, and in which of two forms they run.

Blocks keep keys while rows pass. Their shares of dQ are added to sums, in any order; or the slopes dS that these come
from are spilled to memory and multiplied with keys by a kernel of its own. The second form repeats to the bit, and is
the faster one of wide heads. So do sums of integers, which others take if they must repeat.
"""

import torch
from torch import Tensor

from attenio.kernels import triton
from attenio.kernels.hopper.backward.chunks import ROW_STEP
from attenio.kernels.hopper.backward.config import form_of
from attenio.kernels.hopper.backward.fixed_point import grains_suffice
from attenio.kernels.hopper.backward.key_stationary import counts_grains, sums_gradients, sums_grids
from attenio.kernels.hopper.backward.masks import Band
from attenio.kernels.hopper.backward.spilled_gradients import carries, slopes_gradients, slopes_grids
from attenio.kernels.hopper.proving import is_right, small_problem
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.two_pass import Gradients
from attenio.planning.shared_cache import Grid, Sweep

__all__ = ["gradient_grids", "is_proven", "supports", "two_pass"]


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
        and (not problem.deterministic or form_of(problem).spills or grains_suffice(problem))
        and problem.scale > 0.0  # hidden scores are -inf before they are scaled
    )


def is_proven(problem: KernelProblem) -> bool:
    """Whether the kernels for this problem have given the gradients of the portable ones on this device."""
    dtype, device, form, band = problem.query.dtype, problem.query.device, form_of(problem), Band.of(problem)
    hides, carried = band.hides(problem.queries, problem.keys, form.keys), form.spills and carries(problem)

    def both() -> tuple[list[Tensor], list[Tensor]]:
        queries, keys = (2 * form.rows + 40, 3 * form.keys + 24) if hides else (4 * form.rows, 4 * form.keys)
        trial = small_problem(
            2 * ROW_STEP + queries if carried else queries, keys, (form.d, form.width), dtype, device,
            hides=hides, packed=band.packed, deterministic=problem.deterministic,
        )  # fmt: skip
        attended = triton.attend(trial)
        saved = (*attended, trial.query.flip(2, 3)[..., : form.width].contiguous())
        mine = slopes_gradients(trial, saved, workspace_bytes=1) if carried else two_pass(trial, saved)
        return list(mine[:3]), list(triton.two_pass(trial, saved)[:3])

    tiles = "packed" if band.packed else "masked" if hides else "whole"
    if form.spills:
        way = "slopes spilled and carried" if carried else "slopes spilled"
    else:
        way = "integer sums" if counts_grains(problem) else "sums in any order"
    columns = str(form.d) if form.d == form.width else f"{form.d} and {form.width}"
    return is_right(f"gradients {columns} wide, {tiles} tiles, {way}", dtype, device, both)


def two_pass(problem: KernelProblem, saved: tuple[Tensor, ...]) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    return slopes_gradients(problem, saved) if form_of(problem).spills else sums_gradients(problem, saved)


def gradient_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...] | None:
    """The programs of all launches, for a prediction of the bytes that they move below L2, if they can be told."""
    return slopes_grids(problem) if form_of(problem).spills else sums_grids(problem)
