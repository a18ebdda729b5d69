"""Pre- and postprocessing of rows between the launches of the backward kernels.

``preprocess_kernel`` converts the dQ accumulators of rows that are done to gradients. For rows that come next it clears
the accumulators and computes, in one pass over O and dO,
    lse_i = m_i + log2 l_i  (infinite where a row sees nothing, so that its P is 0);  D_i = dO_i . O_i
and, where accumulators are integers, the fixed-point scale of the row (``fixed_point``). Kernels that subtract lse and
D by products take them as ``OFFSETS`` numbers of bf16 (``cuda/key_stationary.cu``).
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.arguments import common_factor, grouped_heads
from attenio.kernels.hopper.backward.fixed_point import Maxima, fixed_point_scale
from attenio.kernels.hopper.cuda.key_stationary import OFFSETS, SHIFT
from attenio.kernels.replay.launches import launch_specialized
from attenio.kernels.triton.visible import aligned

# Tiles of rows divide this, and log-sum-exp is there for so many rows more.
PADDING = 128
_PADDING = tl.constexpr(PADDING)
# Numbers of a row as products take lse and delta.
_OFFSETS = tl.constexpr(OFFSETS)
_SHIFTED_BACK = tl.constexpr(2.0**-SHIFT)
_LOG2_E = tl.constexpr(LOG2_E)
_HUGE = tl.constexpr(2.0**120)
# Rows of more columns are worked on by twice as many warps: 49 microseconds for 57 at 1K tokens of 128 columns.
_NARROW = 64


@triton.jit
def _convert_columns(
    DQAcc, dQ, head, at, rows, factors, queries, WIDTH: tl.constexpr, FIRST: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Some columns of 64 rows: a tile of them lies in memory as registers of a product held it."""
    acc = tl.load(DQAcc + at + FIRST * 64 + tl.arange(0, 64 * COLUMNS), eviction_policy="evict_first")
    tiles = acc.reshape(COLUMNS // 8, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5).reshape(64, COLUMNS)
    columns = FIRST + tl.arange(0, COLUMNS)
    inside_tile = (rows < queries)[:, None] & (columns < WIDTH)[None, :]
    to = dQ + (head * queries + rows)[:, None] * WIDTH + columns[None, :]
    tl.store(to, (tiles * factors[:, None]).to(dQ.dtype.element_ty), mask=inside_tile, eviction_policy="evict_first")


@triton.jit
def _convert(
    DQAcc, DQScale, dQ, head, at, tile, queries, scale, WIDTH: tl.constexpr, D: tl.constexpr, FIXED_POINT: tl.constexpr
):  # fmt: skip
    """DQAcc of 64 rows of a head to gradients, 64 columns after 64 columns."""
    rows = tile * 64 + tl.arange(0, 64)
    factors = tl.full([64], scale, tl.float32)
    if FIXED_POINT:
        factors /= tl.load(DQScale + at // D + tl.arange(0, 64))
    for part in tl.static_range(D // 64):
        _convert_columns(DQAcc, dQ, head, at, rows, factors, queries, WIDTH, part * 64, 64)
    if D % 64 > 0:
        _convert_columns(DQAcc, dQ, head, at, rows, factors, queries, WIDTH, D // 64 * 64, D % 64)


@triton.jit
def _clear(DQAcc, at, D: tl.constexpr):
    for part in tl.static_range(D // 64):
        tl.store(DQAcc + at + part * 4096 + tl.arange(0, 4096), tl.zeros([4096], DQAcc.dtype.element_ty))
    if D % 64 > 0:
        REST: tl.constexpr = D % 64 * 64
        tl.store(DQAcc + at + D // 64 * 4096 + tl.arange(0, REST), tl.zeros([REST], DQAcc.dtype.element_ty))


@triton.jit
def _bf16_part(numbers, place):
    """The first, second or third of three numbers of bf16 that sum to one of fp32, as fp32."""
    first = numbers.to(tl.bfloat16).to(tl.float32)
    second = (numbers - first).to(tl.bfloat16).to(tl.float32)
    return tl.where(place == 0, first, tl.where(place == 1, second, numbers - first - second))


@triton.jit
def _prepare(
    Out, dO, Largest, Total, Lse, Delta, DQScale, MaximaBits, batch, head, from_row, to_row, acc_row, batch_head, tile,
    o_b, o_h, o_n, g_b, g_h, g_n, queries, scale, WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr, PARTS: tl.constexpr,
    AS_OFFSETS: tl.constexpr,
):  # fmt: skip
    """The numbers of 64 rows of a head, which are read from ``from_row`` on and go to ``to_row``, or ``acc_row``.

    They are two of fp32, or eight of bf16 ``AS_OFFSETS``: three that sum to lse over the scale, three that sum to
    delta, and two zeros.
    """
    of_tile, columns = tl.arange(0, 64), tl.arange(0, PADDED_WIDTH)
    positions = tile * 64 + of_tile
    inside = positions < queries
    inside_tile = inside[:, None] & (columns < WIDTH)[None, :]
    rows = positions.to(tl.int64)[:, None]
    o = Out + batch * o_b + head * o_h + rows * o_n + columns[None, :]
    g = dO + batch * g_b + head * g_h + rows * g_n + columns[None, :]
    total = tl.load(Total + from_row + positions, mask=inside, other=0.0)
    largest = tl.load(Largest + from_row + positions, mask=inside, other=0.0)
    output = tl.load(o, mask=inside_tile, other=0.0, eviction_policy="evict_first").to(tl.float32)
    gradient = tl.load(g, mask=inside_tile, other=0.0).to(tl.float32)
    lse, delta = tl.where(total == 0.0, float("inf"), largest + tl.log2(total)), tl.sum(output * gradient, 1)
    if AS_OFFSETS:
        place = tl.arange(0, _OFFSETS)[None, :]
        # Products multiply each by 0: an infinite lse would be NaN, and an infinite delta make P so, where dP is
        # infinite anyway. NaN stays NaN.
        lse = lse / (scale * _LOG2_E)
        lse = tl.where(tl.abs(lse) > _HUGE, tl.where(lse > 0.0, _HUGE, -_HUGE), lse)
        delta = tl.where(tl.abs(delta) <= _HUGE, delta, 0.0)
        numbers = tl.where(place < 3, _bf16_part(lse[:, None], place), _bf16_part(delta[:, None], place - 3))
        to = Lse + (to_row + positions)[:, None] * _OFFSETS + place
        tl.store(to, tl.where(place < 6, numbers, 0.0).to(tl.bfloat16))
    else:
        tl.store(Lse + to_row + positions, lse)
        tl.store(Delta + to_row + positions, delta)
    if PARTS > 0:
        tl.store(DQScale + acc_row + positions, fixed_point_scale(gradient, delta, MaximaBits, batch_head, PARTS))


# Another length, batch or number of heads runs what is compiled: of strides only what divides them is known.
_ANY_NUMBER = [
    "o_b", "o_h", "o_n", "g_b", "g_h", "g_n", "heads", "group", "queries", "padded", "first_done", "done", "first_next",
    "following",
]  # fmt: skip


@triton.jit(do_not_specialize=_ANY_NUMBER)
def preprocess_kernel(
    Out, dO, Largest, Total, Lse, Delta, DQAcc, DQScale, MaximaBits, dQ,
    o_b, o_h, o_n, g_b, g_h, g_n, heads, group, queries, padded, scale, first_done, done, first_next, following,
    WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr, D_WIDTH: tl.constexpr, D: tl.constexpr, ACCUMULATES: tl.constexpr,
    PARTS: tl.constexpr, AS_OFFSETS: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """A program takes 64 rows of a head that is done, one of ``done`` from ``first_done`` on, and those of one to come.

    DQAcc are there for as many heads as a launch has, and every launch counts them from 0. They are integers where
    there are maxima, of so many PARTS of a head. The last rows come first: of these L2 holds most of what the launch
    before has left, and of the first ones then most of what the next begins with.
    """
    o_b, o_h, o_n = aligned((o_b, o_h, o_n), ALIGN)
    g_b, g_h, g_n = aligned((g_b, g_h, g_n), ALIGN)
    padded = padded // _PADDING * _PADDING
    tiles, number = padded // 64, tl.num_programs(0) - 1 - tl.program_id(0)
    tile, place = number % tiles, (number // tiles).to(tl.int64)
    if ACCUMULATES:
        at = (place * padded + tile * 64) * D
        if place < done:
            factor = scale * _SHIFTED_BACK if AS_OFFSETS else scale
            _convert(DQAcc, DQScale, dQ, first_done + place, at, tile, queries, factor, D_WIDTH, D, PARTS > 0)
        tl.debug_barrier()
        if place < following:
            _clear(DQAcc, at, D)
    if place < following:
        head = first_next + place
        _prepare(
            Out, dO, Largest, Total, Lse, Delta, DQScale, MaximaBits, head // heads, head % heads,
            head * queries, head * padded, place * padded, head // group, tile,
            o_b, o_h, o_n, g_b, g_h, g_n, queries, scale, WIDTH, PADDED_WIDTH, PARTS, AS_OFFSETS,
        )  # fmt: skip


class RowStatistics(NamedTuple):
    """O, dO, m and l of the rows of a call; lse and delta of each; and the dQ accumulators that launches of a stream
    share.

    Accumulators are integers where there is ``dq_scale``, the fixed-point scale of each row, which follows from the
    maxima of keys and values.
    """

    output: Tensor
    gradient: Tensor
    largest: Tensor
    total: Tensor
    lse: Tensor
    delta: Tensor
    dq_acc: Tensor | None
    dq_scale: Tensor | None
    maxima: Maxima | None
    group: int
    # Whether ``lse`` has both, as operands of products: eight numbers of bf16 for each row.
    as_offsets: bool = False

    @classmethod
    def of(
        cls,
        problem: KernelProblem,
        saved: tuple[Tensor, ...],
        at_once: int = 0,
        d: int = 0,
        *,
        fixed_point: bool = False,
        as_offsets: bool = False,
    ) -> "RowStatistics":
        """From output, largest, total and gradient; with accumulators ``d`` wide of so many heads at once, if any."""
        flat = (grouped_heads(tensor).flatten(1, 2) for tensor in (saved[0], saved[3]))
        output, gradient = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in flat)
        padded = -(-problem.queries // PADDING) * PADDING
        heads, device = problem.batch * problem.kv_heads * problem.group, output.device
        if as_offsets:
            lse = delta = torch.empty(heads * padded, OFFSETS, dtype=torch.bfloat16, device=device)
        else:
            lse, delta = torch.empty(2, heads * padded, dtype=torch.float32, device=device)
        dq_acc = dq_scale = maxima = None
        if d and fixed_point:
            dq_acc = torch.empty(at_once * padded, d, dtype=torch.int32, device=device)
            dq_scale = torch.empty(at_once * padded, dtype=torch.float32, device=device)
            maxima = Maxima.of(problem)
        elif d:
            dq_acc = torch.empty(at_once * padded, d, dtype=torch.float32, device=device)
        largest, total = saved[1].contiguous(), saved[2].contiguous()
        return cls(output, gradient, largest, total, lse, delta, dq_acc, dq_scale, maxima, problem.group, as_offsets)

    @property
    def offsets(self) -> Tensor:
        """lse and delta as operands of products, where that is what they are."""
        assert self.as_offsets
        return self.lse

    @property
    def padded(self) -> int:
        """Rows of a head in memory."""
        return -(-int(self.output.shape[2]) // PADDING) * PADDING

    def of_stream(self, index: int, streams: int) -> "RowStatistics":
        """The same rows with the accumulators of one of so many streams, an equal part of these."""
        dq_acc, dq_scale = (
            None if each is None else each.chunk(streams)[index] for each in (self.dq_acc, self.dq_scale)
        )
        return self._replace(dq_acc=dq_acc, dq_scale=dq_scale)

    def compute_maxima(self, batch_heads: range) -> None:
        """Of some batch x KV heads, where fixed-point scales need them; before ``between`` for their rows."""
        if self.maxima is not None and batch_heads:
            self.maxima.compute(batch_heads)

    def between(self, done: range, following: range, query_gradient: Tensor | None = None, scale: float = 1.0) -> None:
        """After a launch for the heads that are ``done``, and before one for those that follow."""
        heads, queries, width = self.output.shape[1:]
        maxima, group = self.maxima, self.group
        dq_acc, dq, widths = self.lse, self.lse, (64, 64)
        if self.dq_acc is not None and query_gradient is not None:
            dq_acc, dq = self.dq_acc, query_gradient
            widths = int(dq.shape[-1]), int(dq_acc.shape[-1])
        launch_specialized(
            preprocess_kernel, max(len(done), len(following)) * self.padded // 64, (
                self.output, self.gradient, self.largest, self.total, self.lse, self.delta, dq_acc,
                self.lse if self.dq_scale is None else self.dq_scale,
                self.lse if maxima is None else maxima.bits,
                dq, *self.output.stride()[:3], *self.gradient.stride()[:3], heads, group, queries, self.padded,
                scale, done.start, len(done), following.start, len(following),
            ), (
                width, max(16, 1 << (width - 1).bit_length()), *widths, self.dq_acc is not None,
                0 if maxima is None else maxima.bits.shape[1], self.as_offsets,
                common_factor(self.output, self.gradient),
            ), warps=4 if width <= _NARROW else 8,
        )  # fmt: skip
