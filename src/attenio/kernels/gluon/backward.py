"""The backward pass on Hopper: which problems it takes, and how they are launched."""

import torch
from torch import Tensor

from attenio.kernels import triton
from attenio.kernels.gluon.backward_masks import SeenRows
from attenio.kernels.gluon.backward_sums import sums_form, sums_gradients, sums_grids
from attenio.kernels.gluon.proving import is_right, small_problem
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.two_pass import Gradients
from attenio.planning.shared_cache import Grid, Sweep

__all__ = ["gradient_grids", "is_proven", "supports", "two_pass"]


def supports(problem: KernelProblem) -> bool:
    """Whether these kernels compute the problem: 16-bit heads up to 128 wide, and no mask but a band."""
    seen = problem.visible
    restricted = (seen.bias, seen.query_ids, seen.blocks, seen.first, problem.dropout)
    widths = problem.query.shape[-1], problem.value.shape[-1]
    return (
        problem.query.dtype in (torch.bfloat16, torch.float16)
        and all(0 < width <= 128 and width % 8 == 0 for width in widths)
        and all(given is None for given in restricted)
        and min(problem.query.numel(), problem.key.numel()) > 0
        and not problem.deterministic  # additions come in any order
        and problem.scale > 0.0  # hidden scores are -inf before they are scaled
    )


def is_proven(problem: KernelProblem) -> bool:
    """Whether the kernel for this problem has given the gradients of the portable ones on this device."""
    dtype, device = problem.query.dtype, problem.query.device
    form = sums_form(max(problem.query.shape[-1], problem.value.shape[-1]))
    hides = SeenRows.of(problem).hides(problem.queries, problem.keys, form.keys)

    def both() -> tuple[list[Tensor], list[Tensor]]:
        queries, keys = (2 * form.rows + 40, 3 * form.keys + 24) if hides else (4 * form.rows, 4 * form.keys)
        trial = small_problem(queries, keys, form.d, dtype, device, hides=hides)
        attended = triton.attend(trial)
        saved = (*attended, trial.query.flip(2, 3))
        return list(two_pass(trial, saved)[:3]), list(triton.two_pass(trial, saved)[:3])

    return is_right(f"gradients {form.d} wide, {'masked' if hides else 'whole'} tiles", dtype, device, both)


def two_pass(problem: KernelProblem, saved: tuple[Tensor, ...]) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    return sums_gradients(problem, saved)


def gradient_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...]:
    """The programs of all launches, for a prediction of the bytes that they move below L2."""
    return sums_grids(problem)
