"""Matrices of fp32 written as parts of bf16: a row of one becomes three rows, side by side, that sum to it."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import torch
import triton
import triton.language as tl
from torch import Tensor

from attenio.kernels.triton.products import nearest_parts

# Rows of a head are filled up to a multiple of so many with zeros; a program writes some of them.
ROWS, _WRITTEN = 128, 16


# Sizes of a call: it is not compiled again for others, as it would be where one of them is a multiple of 16.
@triton.jit(do_not_specialize=["heads", "count", "tiles"])
def split_kernel(
    X, Parts, Other, Sums, x_b, x_h, x_n, x_d, o_b, o_h, o_n, o_d, heads, count, tiles,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, LOADED: tl.constexpr,
):  # fmt: skip
    """Write the parts of ROWS rows of one head, zeros beyond its ``count`` rows and WIDTH columns, and X . Other.

    Of LOADED columns, a power of two, the first PADDED are written.
    """
    tile, head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    batch, of_batch = head // heads, head % heads
    rows, columns = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, LOADED)
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    places = rows[:, None].to(tl.int64)
    x = tl.load(X + (batch * x_b + of_batch * x_h) + places * x_n + columns[None, :] * x_d, mask=inside, other=0.0)
    head_part, middle, last = nearest_parts(x)
    at = Parts + (head * tiles * ROWS + rows)[:, None] * (3 * PADDED) + columns[None, :]
    written = (columns < PADDED)[None, :]
    tl.store(at, head_part, mask=written)
    tl.store(at + PADDED, middle, mask=written)
    tl.store(at + 2 * PADDED, last, mask=written)
    if Other is not None:
        at = Other + (batch * o_b + of_batch * o_h) + places * o_n + columns[None, :] * o_d
        other = tl.load(at, mask=inside, other=0.0)
        tl.store(Sums + head * tiles * ROWS + rows, tl.sum(x * other, 1))


def split(tensor: Tensor, padded: int, *, other: Tensor | None = None, sums: Tensor | None = None) -> Tensor:
    """Parts (batch, heads, rows, three, columns) of a tensor (batch, heads, rows, width), or of one by KV heads.

    Where there is another, ``sums`` gets the sums of the rows of both, multiplied entry by entry, of as many rows.
    """
    *_, count, width = tensor.shape
    batch, heads = tensor.shape[0], tensor.shape[1:-2].numel()
    filled = -(-count // ROWS) * ROWS
    parts = torch.empty((batch, heads, filled, 3, padded), dtype=torch.bfloat16, device=tensor.device)
    tiles = filled // _WRITTEN
    if parts.numel():
        split_kernel[(batch * heads * tiles,)](
            tensor, parts, other, sums, *_strides(tensor), *_strides(tensor if other is None else other),
            heads, count, tiles, ROWS=_WRITTEN, WIDTH=width, PADDED=padded, LOADED=1 << (padded - 1).bit_length(),
        )  # fmt: skip
    return parts


def _strides(tensor: Tensor) -> tuple[int, ...]:
    return tensor.stride(0), *tensor.stride()[-3:]
