"""Jagged nested tensors (``torch.nested``, ``layout=torch.jagged``): batches of sequences of different lengths.

Their memory is that of packed sequences, (heads, tokens of all sequences, width) with cumulative lengths. So a call on
them is one with ``cu_seqlens``, and what it gives is jagged as its queries are.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.checks import TensorMismatch, WrongType

_AXES = "(sequences, heads, tokens, width), or (sequences, tokens, width)"
# Arguments that jagged tensors do not go with.
_NOT_TAKEN = ("attn_mask", "cu_seqlens", "segment_ids", "segments", "block_mask", "prefix", "mask")


class Jagged(NamedTuple):
    """Queries, keys and values (1, heads, tokens, width), cumulative lengths of queries and keys, and who is jagged."""

    query: Tensor
    key: Tensor
    value: Tensor
    cu_seqlens: tuple[Tensor, Tensor]
    like: Tensor

    def restored(self, results: Any) -> Any:
        """An output (1, heads, tokens, width), or such with a log-sum-exp (1, heads, tokens), jagged as the queries."""
        if isinstance(results, tuple):
            output, lse = results
            return self._restored(output), self._restored(lse)
        return self._restored(results)

    def _restored(self, packed: Tensor) -> Tensor:
        has_heads = self.like.dim() == 4
        kept = packed[0] if has_heads else packed[0, 0]
        jagged: Tensor = torch.nested.nested_tensor_from_jagged(
            kept, self.like.offsets(), jagged_dim=2 if has_heads else 1
        )
        return jagged


def is_jagged(*tensors: Any) -> bool:
    """Whether one of these is a nested tensor of the jagged layout."""
    return any(isinstance(each, Tensor) and each.is_nested and each.layout == torch.jagged for each in tensors)


def jagged_of(query: Tensor, key: Tensor, value: Tensor, asked: CallArguments) -> Jagged:
    """Three jagged tensors as packed sequences, once it is known that they belong together."""
    tensors = {"query": query, "key": key, "value": value}
    for name in _NOT_TAKEN:
        if getattr(asked, name) is not None:
            raise TensorMismatch(
                f"{name} is given with jagged tensors, which say where sequences begin; leave it out, or pack the"
                " sequences with cu_seqlens="
            )
    for name, tensor in tensors.items():
        if not is_jagged(tensor):
            dense = next(each for each in tensors if is_jagged(tensors[each]))
            raise WrongType(f"{dense} is jagged and {name} is not; give all three as jagged nested tensors, or none")
        if tensor.dim() not in (3, 4) or tensor.dim() != query.dim() or tensor._ragged_idx != tensor.dim() - 2:
            raise TensorMismatch(
                f"{name} has {tensor.dim()} dimensions and sequences of different lengths along {tensor._ragged_idx};"
                f" give {_AXES}, all three alike"
            )
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        counts = ", ".join(f"{tensor.shape[0]} of {name}" for name, tensor in tensors.items())
        raise TensorMismatch(f"there are {counts}: sequences; give as many of each")
    query, key, value = (each if each.lengths() is None else each.contiguous() for each in (query, key, value))
    mine, theirs, values = query.offsets(), key.offsets(), value.offsets()
    if not (theirs is values or torch.compiler.is_compiling() or torch.equal(theirs, values)):
        raise TensorMismatch("sequences of key and value differ in length; make them equal, sequence by sequence")
    return Jagged(_packed(query), _packed(key), _packed(value), (mine, theirs), query)


def _packed(jagged: Tensor) -> Tensor:
    values: Tensor = jagged.values()
    return values[None] if jagged.dim() == 4 else values[None, None]
