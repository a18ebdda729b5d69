"""Launches of the portable kernels by Triton itself, and the constants that all of them are compiled for."""

from typing import Any

import torch
from torch import Tensor

from attenio.kernels.call.choice import is_heard, note_launch
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.arguments import VisibilityArguments, Widths, common_factor
from attenio.kernels.gpu.capability import multiplies_parts
from attenio.kernels.replay.compiling import only_compiles


def launch_noted(kernel: Any, programs: int, arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Call a kernel whose parameters are tensors and numbers, and constants by name."""
    if only_compiles(kernel, programs, arguments, constants):
        return
    kernel[(programs,)](*arguments, **constants)
    if is_heard():
        note_launch(kernel.fn.__name__, programs=programs, **constants)


def constants_of(widths: Widths, seen: VisibilityArguments, tensors: tuple[Tensor, ...]) -> dict[str, Any]:
    """Widths of heads, what is known of restrictions, and of the strides of these tensors, when a kernel is compiled.

    Nothing here depends on lengths, or on how many sequences and heads there are.
    """
    return {
        "D": widths.d, "WIDTH": widths.width, "D_PADDED": widths.d_padded, "W_PADDED": widths.width_padded,
        "ALWAYS_HIDES": seen.always_hides, "BOOLEAN": seen.boolean, "LOG2_E": LOG2_E,
        "PRECISION": precision_of(tensors[0]), "ALIGN": common_factor(*tensors), "BIAS_ALIGN": seen.bias_align,
    }  # fmt: skip


def precision_of(tensor: Tensor) -> str:
    """How entries are multiplied (``products``): those of fp32 as three of bf16 where tensor cores take these."""
    return "bf16x6" if tensor.dtype == torch.float32 and multiplies_parts(tensor.device) else "ieee"
