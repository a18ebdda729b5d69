"""How ``vmap`` moves its dimension into the batch of an operator's tensors, or takes its elements one by one."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import torch

from attenio.kernels.torch_operator.schema import Arguments, BackwardArguments

Operator: TypeAlias = Callable[..., tuple[Any, ...]]
# Where the mapped dimension of each argument is, if it has one; results, and where it is in these.
Places: TypeAlias = tuple[int | None, ...]
Mapped: TypeAlias = tuple[tuple[Any, ...], tuple[int, ...]]
_Flat = TypeVar("_Flat", Arguments, BackwardArguments)

_HEADS = ("query", "key", "value")
_RESULTS = ("output", "largest", "total", "gradient")
# What may have a batch of 1 that stands for all, and what is always one for a batch.
_SHARED = ("bias", "first", "stop", "query_ids", "key_ids")
_ONE_FOR_ALL = ("blocks", "seed", "sinks")


def _into_batch(given: _Flat, dims: _Flat, size: int, names: tuple[str, ...]) -> _Flat:
    """Tensors (batch, ...) with the mapped dimension merged into the batch; those not mapped repeat."""
    merged: dict[str, Any] = {}
    for name in names:
        tensor, dim = getattr(given, name), getattr(dims, name)
        if tensor is None or (dim is None and name in _SHARED and tensor.shape[0] == 1):
            continue
        moved = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        merged[name] = moved.flatten(0, 1)
    return given._replace(**merged)


def _one_by_one(operate: Operator, size: int, dims: Places, args: tuple[Any, ...]) -> Mapped:
    """Each element of the mapped dimension by itself: for what the elements of a batch may not differ in."""
    results = [
        operate(*(arg if dim is None else arg.select(dim, k) for arg, dim in zip(args, dims, strict=True)))
        for k in range(size)
    ]
    stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
    return stacked, (0,) * len(stacked)


def mapped(operate: Operator, info: Any, in_dims: Places, *arguments: Any) -> Mapped:
    """What the operator gives for each element of the mapped dimension, by calls of ``operate``."""
    size, given, dims = info.batch_size, Arguments(*arguments), Arguments(*in_dims)  # type: ignore[arg-type]
    # A prefix belongs to one batch.
    if given.prefix or _differs(given, dims):
        return _one_by_one(operate, size, in_dims, arguments)
    results = operate(*_into_batch(given, dims, size, _HEADS + _SHARED))
    return tuple(part.unflatten(0, (size, -1)) for part in results), (0, 0, 0)


def mapped_backward(operate: Operator, info: Any, in_dims: Places, *arguments: Any) -> Mapped:
    """The same for the operator of its gradients; a bias whose gradient is required has one for each element."""
    size, given, dims = info.batch_size, BackwardArguments(*arguments), BackwardArguments(*in_dims)  # type: ignore[arg-type]
    if given.bias is not None or _differs(given, dims):
        return _one_by_one(operate, size, in_dims, arguments)
    of_query, of_key, of_value, _ = operate(*_into_batch(given, dims, size, _HEADS + _SHARED + _RESULTS))
    gradients = [part.unflatten(0, (size, -1)) for part in (of_query, of_key, of_value)]
    return (*gradients, of_query.new_empty(size, 0)), (0, 0, 0, 0)


def _differs(given: _Flat, dims: _Flat) -> bool:
    """Whether elements differ in what a batch has in common, or a mapped tensor stands for a batch of several: merging
    would lose which element it belongs to. Every element drops weights of its own."""
    if given.seed is not None or any(getattr(dims, name) is not None for name in _ONE_FOR_ALL):
        return True
    batch = given.query.shape[0] if dims.query != 0 else given.query.shape[1]
    return batch > 1 and any(
        getattr(dims, name) is not None and getattr(given, name).movedim(getattr(dims, name), 0).shape[1] == 1
        for name in _SHARED
    )
