"""How ``vmap`` moves its dimension into the batch of an operator's tensors, or takes its elements one by one."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from attenio.kernels.operator import TENSORS

__all__ = ["Mapped", "Places", "mapped", "mapped_backward"]

Operator: TypeAlias = Callable[..., tuple[Any, ...]]
# Where the mapped dimension of each argument is, if it has one; results, and where it is in these.
Places: TypeAlias = tuple[int | None, ...]
Mapped: TypeAlias = tuple[tuple[Any, ...], tuple[int, ...]]


def _into_batch(tensors: tuple[Any, ...], dims: Places, size: int, *, share: bool) -> list[Any]:
    """Tensors (batch, ...) with the mapped dimension merged into the batch; those not mapped repeat."""
    merged: list[Any] = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None:
            merged.append(None)
        elif dim is None and share and tensor.shape[0] == 1:
            merged.append(tensor)
        else:
            moved = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            merged.append(moved.flatten(0, 1))
    return merged


def _one_by_one(operate: Operator, size: int, dims: Places, args: tuple[Any, ...]) -> Mapped:
    """Each element of the mapped dimension by itself: for what the elements of a batch may not differ in."""
    results = [
        operate(*(arg if dim is None else arg.select(dim, k) for arg, dim in zip(args, dims, strict=True)))
        for k in range(size)
    ]
    stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
    return stacked, (0,) * len(stacked)


def mapped(operate: Operator, info: Any, in_dims: Places, *args: Any) -> Mapped:
    """What the operator gives for each element of the mapped dimension, by calls of ``operate``."""
    size, prefix = info.batch_size, args[15]
    # Blocks and seeds are one for a batch, a prefix belongs to it, and a bias of a batch of 1 would meet two batches.
    if any(dim is not None for dim in in_dims[8:TENSORS]) or prefix or args[9] is not None or _is_shared(args, in_dims):
        return _one_by_one(operate, size, in_dims, args)
    tensors = _into_batch(args[:3], in_dims[:3], size, share=False)
    tensors += _into_batch(args[3:8], in_dims[3:8], size, share=True)
    found = operate(*tensors, *args[8:])
    return tuple(part.unflatten(0, (size, -1)) for part in found), (0, 0, 0)


def mapped_backward(operate: Operator, info: Any, in_dims: Places, *args: Any) -> Mapped:
    """The same for the operator of its gradients."""
    size = info.batch_size
    one_for_all = any(dim is not None for dim in in_dims[8:TENSORS]) or args[9] is not None or args[3] is not None
    if one_for_all or _is_shared(args, in_dims):
        return _one_by_one(operate, size, in_dims, args)
    tensors = _into_batch(args[:3], in_dims[:3], size, share=False)
    tensors += _into_batch(args[3:8], in_dims[3:8], size, share=True)
    results = _into_batch(args[10:14], in_dims[10:14], size, share=False)
    of_query, of_key, of_value, _ = operate(*tensors, *args[8:10], *results, *args[14:])
    found = [part.unflatten(0, (size, -1)) for part in (of_query, of_key, of_value)]
    return (*found, of_query.new_empty(size, 0)), (0, 0, 0, 0)


def _is_shared(args: tuple[Any, ...], in_dims: Places) -> bool:
    """Whether a mapped tensor stands for a whole batch of several: merging would lose which element it belongs to."""
    batch = args[0].shape[0] if in_dims[0] != 0 else args[0].shape[1]
    return any(
        tensor is not None and dim is not None and tensor.movedim(dim, 0).shape[1] == 1 and batch > 1
        for tensor, dim in zip(args[3:8], in_dims[3:8], strict=True)
    )
