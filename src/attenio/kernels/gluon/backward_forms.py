"""Kernels of the backward pass and their tiles, and the boxes that the copy engine takes of its tensors."""

from typing import Any, NamedTuple

from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from attenio.kernels.gluon.backward_narrow import narrow_gradients_kernel
from attenio.kernels.gluon.backward_wide import wide_gradients_kernel
from attenio.kernels.problem import KernelProblem

__all__ = ["BackwardForm", "backward_form", "boxed", "hides"]


class BackwardForm(NamedTuple):
    """A kernel and its tiles: ``d`` is the width it works in, wider than the heads where columns are zeros."""

    kernel: Any
    d: int
    rows: int
    keys: int
    stages: int
    slots: int
    registers: int


def backward_form(width: int) -> BackwardForm:
    """The form for heads of at most this width.

    Registers of a computing thread, of 64 keys: two gradients of 64 x d, scores and their slopes of 64 x rows. 128 rows
    halve the reads of keys out of shared memory, but fit only beside heads of 64. ``slots`` are tiles of dS at once.
    """
    if width <= 64:
        return BackwardForm(narrow_gradients_kernel, 64, 128, 128, 2, 3, 240)
    if width <= 128:
        return BackwardForm(narrow_gradients_kernel, 128, 64, 128, 2, 4, 240)
    return BackwardForm(wide_gradients_kernel, 256, 64, 64, 2, 2, 240)


def hides(problem: KernelProblem) -> bool:
    """Whether some tile holds a score that is not required."""
    seen, form = problem.visible, backward_form(max(problem.query.shape[-1], problem.value.shape[-1]))
    return seen.below > -problem.queries or seen.above < problem.keys - 1 or problem.keys % form.keys != 0


def boxed(tensor: Tensor, rows: int, width: int, swizzle: int = 128) -> TensorDescriptor:
    """(batch, heads, tokens, width), which is aligned, in boxes of rows of a head; what lies outside reads as zero."""
    steps = [step if size > 1 else tensor.shape[-1] for size, step in zip(tensor.shape, tensor.stride(), strict=True)]
    layout = gl.NVMMASharedLayout(swizzle, tensor.element_size() * 8, rank=4)
    return TensorDescriptor(tensor, list(tensor.shape), [*steps[:3], 1], [1, 1, rows, width], layout)
