"""The backward pass on Hopper: which problems it takes, and how they are launched."""

from dataclasses import replace

import torch
from torch import Tensor

from attenio.kernels import triton
from attenio.kernels.gluon.backward_forms import BackwardForm, backward_form, hides
from attenio.kernels.gluon.backward_sums import sums_gradients
from attenio.kernels.gluon.proving import is_right, small_problem
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.two_pass import Gradients
from attenio.planning.shared_cache import Grid

__all__ = ["BackwardForm", "backward_form", "gradient_grids", "is_proven", "supports", "two_pass"]

def supports(problem: KernelProblem) -> bool:
    """Whether these kernels compute the problem: 16-bit heads up to 256 wide, and no mask but a band."""
    seen = problem.visible
    restricted = (seen.bias, seen.query_ids, seen.blocks, seen.first, problem.dropout)
    widths = problem.query.shape[-1], problem.value.shape[-1]
    return (
        problem.query.dtype in (torch.bfloat16, torch.float16)
        and all(0 < width <= 256 and width % 8 == 0 for width in widths)
        and all(given is None for given in restricted)
        and min(problem.query.numel(), problem.key.numel()) > 0
        and problem.scale > 0.0  # hidden scores are -inf before they are scaled
    )


def is_proven(problem: KernelProblem) -> bool:
    """Whether the kernel for this problem has given the gradients of the portable ones on this device."""
    dtype, device = problem.query.dtype, problem.query.device
    form, masked = backward_form(max(problem.query.shape[-1], problem.value.shape[-1])), hides(problem)

    def both() -> tuple[list[Tensor], list[Tensor]]:
        queries, keys = (2 * form.rows + 40, 3 * form.keys + 24) if masked else (4 * form.rows, 4 * form.keys)
        trial = small_problem(
            queries, keys, form.d, dtype, device, hides=masked, deterministic=problem.deterministic
        )  # fmt: skip
        attended = triton.attend(trial)
        saved = (*attended, trial.query.flip(2, 3))
        return list(two_pass(trial, saved)[:3]), list(triton.two_pass(trial, saved)[:3])

    order = "in order" if problem.deterministic else "in any order"
    name = f"gradients {form.d} wide, {'masked' if masked else 'whole'} tiles, {order}"
    return is_right(name, dtype, device, both)


def two_pass(problem: KernelProblem, saved: tuple[Tensor, ...]) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    return sums_gradients(problem, saved)


def gradient_grids(problem: KernelProblem) -> tuple[Grid, Grid, Grid]:
    """The programs of the three kernels, for a prediction of the bytes that they move below L2."""
    element, d, width = problem.query.element_size(), int(problem.query.shape[-1]), int(problem.value.shape[-1])
    form, units = backward_form(max(d, width)), problem.batch * problem.kv_heads
    processors = torch.cuda.get_device_properties(problem.query.device).multi_processor_count
    heads, sums, both = units * problem.group, 4 * form.d, (d + width) * element
    single = Grid(
        units=heads, rows=problem.queries, passing=1, tile=64, resident=16 * processors,
        read_bytes=2 * width * element + 8, written_bytes=sums + 8, passing_bytes=0, drops_reads=True,
    )  # fmt: skip
    gradients = Grid(
        units=units, rows=problem.keys, passing=problem.group * problem.queries, tile=form.keys, resident=processors,
        read_bytes=both, written_bytes=both, passing_bytes=both + 8, updated_bytes=sums,
        causal=problem.visible.above < problem.keys and problem.group == 1,
    )  # fmt: skip
    return single, gradients, replace(single, read_bytes=sums, written_bytes=d * element)
