"""Batched products in buffers that are reused: a new one of a megabyte costs as much as an exponential of its elements.

A batch of one is a plain product, which takes the library less time to start.
"""

import torch
from torch import Tensor

PIECE = 16


def product(left: Tensor, right: Tensor, buffer: Tensor) -> Tensor:
    """left @ right over (batch * KV heads, ...), in the first words of a flat buffer."""
    shape = (left.shape[0], left.shape[1], right.shape[2])
    into = buffer[: shape[0] * shape[1] * shape[2]].view(shape)
    if shape[0] == 1:
        torch.mm(left[0], right[0], out=into[0])
    else:
        torch.bmm(left, right, out=into)
    return into


def product_in_pieces(left: Tensor, right: Tensor, buffer: Tensor) -> Tensor:
    """The same, summed up in pieces, as the library's product of one row is: half the error, but slower."""
    into = product(left[..., :PIECE], right[:, :PIECE], buffer)
    for at in range(PIECE, left.shape[2], PIECE):
        add_product(into, left[..., at : at + PIECE], right[:, at : at + PIECE])
    return into


def add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    """into += left @ right over (batch * KV heads, ...)."""
    if into.shape[0] == 1:
        into[0].addmm_(left[0], right[0])
    else:
        into.baddbmm_(left, right)
