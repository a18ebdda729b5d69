"""Launches of the portable kernels by Triton itself, and the constants that all of them are compiled for."""

from typing import Any

from attenio.kernels.call.choice import is_heard, note_launch
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.arguments import VisibilityArguments, Widths


def launch_noted(kernel: Any, programs: int, arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Call a kernel whose parameters are tensors and numbers, and constants by name."""
    kernel[(programs,)](*arguments, **constants)
    if is_heard():
        note_launch(kernel.fn.__name__, programs=programs, **constants)


def constants_of(widths: Widths, seen: VisibilityArguments) -> dict[str, Any]:
    """Widths of heads, and what is known of restrictions when a kernel is compiled."""
    return {
        "D": widths.d, "WIDTH": widths.width, "D_PADDED": widths.d_padded, "W_PADDED": widths.width_padded,
        "ALWAYS_HIDES": seen.always_hides, "BOOLEAN": seen.boolean, "LOG2_E": LOG2_E, "PRECISION": "ieee",
    }  # fmt: skip
