"""Tensors of tokens as flat bytes: parts are cut out, packed into one message for each receiver, and put back."""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

from attenio.cluster.spans import Tokens

Shape: TypeAlias = tuple[tuple[int, ...], torch.dtype]
# Tokens are the third dimension of all tensors: (batch, heads, tokens, ...).
TOKENS = 2


def take(tensor: Tensor, held: Tokens, part: Tokens) -> Tensor:
    """The part of the tokens that a tensor holds; a view where it lies in one piece."""
    if held == part:
        return tensor
    pieces = [tensor[:, :, cut] for cut in held.slices(part)]
    if len(pieces) == 1:
        return pieces[0]
    return torch.cat(pieces, TOKENS) if pieces else tensor[:, :, :0]


def put(tensor: Tensor, held: Tokens, part: Tokens, given: Tensor) -> None:
    """Write a part of the tokens that a tensor holds."""
    start = 0
    for cut in held.slices(part):
        length = cut.stop - cut.start
        tensor[:, :, cut] = given[:, :, start : start + length]
        start += length


def add(tensor: Tensor, held: Tokens, part: Tokens, given: Tensor) -> None:
    """Add to a part of the tokens that a tensor holds."""
    start = 0
    for cut in held.slices(part):
        length = cut.stop - cut.start
        tensor[:, :, cut] += given[:, :, start : start + length]
        start += length


def with_tokens(tensor: Tensor, tokens: int) -> Shape:
    """The shape of a tensor like this one with so many tokens."""
    return (*tensor.shape[:TOKENS], tokens, *tensor.shape[TOKENS + 1 :]), tensor.dtype


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of the tensors, one after another, as bytes; those of wider types come first."""
    return torch.cat([tensor.contiguous().view(-1).view(torch.uint8) for tensor in tensors])


def packed_bytes(shapes: Sequence[Shape]) -> int:
    """How long a message of tensors of these shapes and types is."""
    return sum(prod(shape) * dtype.itemsize for shape, dtype in shapes)


def unpack(message: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
    """The tensors of a message; views of it."""
    found, start = [], 0
    for shape, dtype in shapes:
        stop = start + prod(shape) * dtype.itemsize
        found.append(message[start:stop].view(dtype).view(shape))
        start = stop
    return found
