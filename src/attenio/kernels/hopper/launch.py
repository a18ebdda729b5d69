"""Launching Gluon kernels: boxes that the copy engine takes of a tensor, and kernels by what they are compiled for.

Numbers are declared ``do_not_specialize`` and pointers ``do_not_specialize_on_alignment``, so nothing but constants and
types distinguishes calls, and once compiled for those a kernel is called directly.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from attenio.kernels.hopper.compiled import Compiled
from attenio.kernels.hopper.lanes import current_lane, forks_and_joins
from attenio.kernels.hopper.tiles import side_by_side

__all__ = [
    "ELEMENTS",
    "Box",
    "Launched",
    "aligned",
    "boxes",
    "is_aligned",
    "launch",
    "launch_specialized",
    "listening",
    "padded_box",
    "padded_boxes",
]

ELEMENTS = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
Sizes: TypeAlias = tuple[int, ...]
_compiled: dict[tuple[Any, ...], Compiled] = {}
_listener = threading.local()


class Box(NamedTuple):
    """What Triton makes a tensor map of; names are those of its ``TensorDescriptor``, which also checks them."""

    base: Tensor
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def described(self) -> TensorDescriptor:
        """As Triton's own class, which it compiles for."""
        layout = _layout(self.block_shape, self.base.dtype)
        return TensorDescriptor(self.base, list(self.shape), list(self.strides), list(self.block_shape), layout)


def boxes(tensor: Tensor, rows: int) -> tuple[Box, Box | None]:
    """Boxes of so many rows of a tensor (batch, heads, rows, width): its side-by-side tiles, the second may be none."""
    tensor = aligned(tensor)
    shape = tensor.shape
    strides, first, second = _cuts(shape, tensor.stride(), rows)
    return Box(tensor, shape, strides, first), None if second is None else Box(tensor, shape, strides, second)


def padded_box(tensor: Tensor, rows: int, width: int) -> Box:
    """One box of so many rows of a tensor that is aligned; columns past the tensor's are zeros."""
    shape = tensor.shape
    return Box(tensor, shape, _cuts(shape, tensor.stride(), rows)[0], (1, 1, rows, width))


def padded_boxes(tensor: Tensor, rows: int, width: int) -> tuple[Box, Box | None]:
    """The same in side-by-side tiles, of which the second may be none."""
    wide, narrow = side_by_side(width)
    return padded_box(tensor, rows, wide), padded_box(tensor, rows, narrow) if narrow else None


@lru_cache(maxsize=1024)
def _cuts(shape: Sizes, strides: Sizes, rows: int) -> tuple[Sizes, Sizes, Sizes | None]:
    """Steps of a descriptor and the boxes of the side-by-side tiles."""
    # A dimension of one element has no step of its own, and whatever it states must be a multiple of 16 bytes.
    steps = (*(step if size > 1 else shape[-1] for size, step in zip(shape[:3], strides, strict=False)), 1)
    wide, narrow = side_by_side(shape[-1])
    return steps, (1, 1, rows, wide), (1, 1, rows, narrow) if narrow else None


def launch(
    kernel: Any,
    programs: int,
    described: tuple[Box | None, ...],
    arguments: tuple[Any, ...],
    constants: tuple[Any, ...],
    registers: int | None = None,
    *,
    warps: int = 4,
    overlaps: bool = False,
    kinds: tuple[Any, ...] = (),
) -> None:
    """Call a kernel whose parameters are boxes, tensors and numbers, and constants, in this order.

    ``kinds`` tells apart what it is compiled for beside the constants: arguments that may be missing, or of another
    type. Where it ``overlaps`` the end of the launch before it, the kernel itself waits for what that writes.
    """
    one = next(box.base for box in described if box is not None)
    key = (id(kernel), one.device, one.dtype, warps, overlaps, kinds, constants)
    ready, rest = _compiled.get(key), (*arguments, *constants)
    if ready is not None:
        ready(programs, described, rest)
    else:
        slow = tuple(box if box is None else box.described() for box in described)
        options = {"num_warps": warps, "maxnreg": registers, "launch_pdl": overlaps}
        ready = _compiled[key] = Compiled(kernel[(programs,)](*slow, *rest, **options))
    heard = getattr(_listener, "launches", None)
    if heard is not None:
        heard.append(Launched(ready, programs, described, rest, current_lane(), forks_and_joins()))


def launch_specialized(
    kernel: Any, programs: int, arguments: tuple[Any, ...], constants: tuple[Any, ...], *, warps: int = 4
) -> None:
    """Call a kernel that Triton also compiles for what it sees in numbers and addresses, such as multiples of 16."""
    rest = (*arguments, *constants)
    made = kernel[(programs,)](*rest, num_warps=warps)
    heard = getattr(_listener, "launches", None)
    if heard is not None:
        heard.append(Launched(Compiled(made), programs, (), rest, current_lane(), forks_and_joins()))


class Launched(NamedTuple):
    """A launch that has happened, in which lane, and after how many forks and joins."""

    ready: Compiled
    programs: int
    described: tuple[Box | None, ...]
    rest: tuple[Any, ...]
    lane: int = 0
    marks: int = 0


@contextmanager
def listening() -> Iterator[list[Launched]]:
    """All launches of this thread from here on."""
    _listener.launches = []
    try:
        yield _listener.launches
    finally:
        _listener.launches = None


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, or a copy of it, as the copy engine takes it."""
    return tensor if is_aligned(tensor) else tensor.clone(memory_format=torch.contiguous_format)


def is_aligned(tensor: Tensor) -> bool:
    """Whether the copy engine takes boxes of it: rows contiguous, everything at multiples of 16 bytes."""
    return tensor.data_ptr() % 16 == 0 and _steps_fit(tensor.shape, tensor.stride(), 16 // tensor.element_size())


@lru_cache(maxsize=1024)
def _steps_fit(shape: Sizes, strides: Sizes, unit: int) -> bool:
    outer = zip(shape[:-1], strides[:-1], strict=True)
    return strides[-1] == 1 and all(size == 1 or (step > 0 and step % unit == 0) for size, step in outer)


@lru_cache(maxsize=64)
def _layout(block_shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    if dtype in (torch.float32, torch.int32):  # sums, which no product reads
        return gl.NVMMASharedLayout(0, 32, rank=len(block_shape))
    return gl.NVMMASharedLayout.get_default_for(list(block_shape), ELEMENTS[dtype])
