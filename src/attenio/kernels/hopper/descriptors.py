"""TMA descriptors of tensors, and whether TMA can load a tensor."""

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from attenio.kernels.hopper.tiles import side_by_side

# Types of 16 bits, by their names in Triton.
ELEMENTS = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
Sizes: TypeAlias = tuple[int, ...]


class TmaDescriptor(NamedTuple):
    """What Triton encodes a tensor map of; names are those of its ``TensorDescriptor``, which also checks them."""

    base: Tensor
    shape: Sizes
    strides: Sizes
    block_shape: Sizes
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def to_triton(self) -> Any:
        """As Triton's own class, which it compiles for."""
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

        layout = _layout(self.block_shape, self.base.dtype)
        return TensorDescriptor(self.base, list(self.shape), list(self.strides), list(self.block_shape), layout)


def padded_descriptor(tensor: Tensor, rows: int, width: int) -> TmaDescriptor:
    """Of tiles of so many rows of a tensor that is aligned; columns past the tensor's are zeros."""
    shape = tensor.shape
    return TmaDescriptor(tensor, shape, _strides(shape, tensor.stride()), (1, 1, rows, width))


def padded_descriptors(tensor: Tensor, rows: int, width: int) -> tuple[TmaDescriptor, TmaDescriptor | None]:
    """The same in side-by-side tiles, of which the second may be None."""
    wide, narrow = side_by_side(width)
    return padded_descriptor(tensor, rows, wide), padded_descriptor(tensor, rows, narrow) if narrow else None


@lru_cache(maxsize=1024)
def _strides(shape: Sizes, strides: Sizes) -> Sizes:
    """Strides of a descriptor: a dimension of one element has none of its own, and states a multiple of 16 bytes."""
    return *(step if size > 1 else shape[-1] for size, step in zip(shape[:3], strides, strict=False)), 1


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, or a copy of it, as TMA takes it."""
    return tensor if is_aligned(tensor) else tensor.clone(memory_format=torch.contiguous_format)


def is_aligned(tensor: Tensor) -> bool:
    """Whether TMA takes tiles of it: rows contiguous, everything at multiples of 16 bytes."""
    return tensor.data_ptr() % 16 == 0 and _strides_fit(tensor.shape, tensor.stride(), 16 // tensor.element_size())


@lru_cache(maxsize=1024)
def _strides_fit(shape: Sizes, strides: Sizes, elements: int) -> bool:
    outer = zip(shape[:-1], strides[:-1], strict=True)
    return strides[-1] == 1 and all(size == 1 or (step > 0 and step % elements == 0) for size, step in outer)


@lru_cache(maxsize=64)
def _layout(block_shape: Sizes, dtype: torch.dtype) -> Any:
    from triton.experimental.gluon import language as gl

    if dtype in (torch.float32, torch.int32):  # accumulators, which no product reads
        return gl.NVMMASharedLayout(0, 32, rank=len(block_shape))
    return gl.NVMMASharedLayout.get_default_for(list(block_shape), getattr(gl, ELEMENTS[dtype]))
