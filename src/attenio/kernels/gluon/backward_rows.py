"""What the backward kernels need of every row before, and leave of every row after.

``prepare_kernel``, one pass over O and dO, clears the sums of dQ and finds
    lse_i = m_i + log2 l_i  (infinite where a row sees nothing, so that its weights are 0);  D_i = dO_i . O_i
and, where sums are integers, in which grain they are counted.
``convert_kernel`` turns the sums into gradients.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

from attenio.kernels.gluon.backward_grains import fineness_of

__all__ = ["convert_kernel", "prepare_kernel"]


@triton.jit
def prepare_kernel(
    Out, dO, Largest, Total, Lse, Delta, Fineness, Extremes, Work, work_size, share,
    o_b, o_h, o_n, g_b, g_h, g_n, heads, group, queries, padded,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    """A program takes ROWS rows of a head, and clears ``share`` words of the work space."""
    tiles = padded // ROWS
    tile, unit = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    batch, head = unit // heads, unit % heads
    positions, columns = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, PADDED_WIDTH)
    inside = positions < queries
    kept = inside[:, None] & (columns < WIDTH)[None, :]
    rows = positions.to(tl.int64)[:, None]
    o = tl.load(Out + batch * o_b + head * o_h + rows * o_n + columns[None, :], mask=kept, other=0.0)
    g = tl.load(dO + batch * g_b + head * g_h + rows * g_n + columns[None, :], mask=kept, other=0.0)
    at = unit * queries + positions
    total = tl.load(Total + at, mask=inside, other=0.0)
    lse = tl.load(Largest + at, mask=inside, other=0.0) + tl.log2(total)
    to = unit * padded + positions
    tl.store(Lse + to, tl.where(total == 0.0, float("inf"), lse))
    gradient = g.to(tl.float32)
    delta = tl.sum(o.to(tl.float32) * gradient, 1)
    tl.store(Delta + to, delta)
    if SHARES > 0:
        tl.store(Fineness + to, fineness_of(gradient, delta, Extremes, unit // group, SHARES))
    first = tl.program_id(0).to(tl.int64) * share
    for offset in range(0, share, 1024):
        here = first + offset + tl.arange(0, 1024)
        tl.store(Work + here, tl.zeros([1024], Work.dtype.element_ty), mask=here < work_size)


@triton.jit
def convert_kernel(Sums, Fineness, dQ, slope, queries, padded, WIDTH: tl.constexpr, D: tl.constexpr):
    """A program takes a tile of 64 x 64, which lies in memory as registers of a product held it."""
    parts = padded // 64 * (D // 64)
    part, head = tl.program_id(0) % parts, (tl.program_id(0) // parts).to(tl.int64)
    sums = tl.load(Sums + tl.program_id(0).to(tl.int64) * 4096 + tl.arange(0, 4096))
    tile = sums.reshape(8, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5).reshape(64, 64)
    rows = part // (D // 64) * 64 + tl.arange(0, 64)
    columns = part % (D // 64) * 64 + tl.arange(0, 64)
    kept = (rows < queries)[:, None] & (columns < WIDTH)[None, :]
    at = dQ + (head * queries + rows)[:, None] * WIDTH + columns[None, :]
    if Sums.dtype.element_ty == tl.int32:
        tile = tile / tl.load(Fineness + head * padded + rows)[:, None]
    tl.store(at, (tile * slope).to(dQ.dtype.element_ty), mask=kept)
