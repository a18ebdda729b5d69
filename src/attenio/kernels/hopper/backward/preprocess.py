"""What the backward kernels need of every row before them, and leave of every row behind.

``rows_kernel`` stands between launches: it turns the sums of dQ of rows that are done into gradients, and for rows that
come next it clears sums and finds, in one pass over O and dO,
    lse_i = m_i + log2 l_i  (infinite where a row sees nothing, so that its weights are 0);  D_i = dO_i . O_i
and, where sums are integers, how many grains are 1 (``grains``).
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from attenio.kernels.hopper.backward.fixed_point import Extremes, fineness_of
from attenio.kernels.hopper.launch import launch_specialized
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import grouped_heads

__all__ = ["PADDING", "Rows"]

# Tiles of rows divide this, and log-sum-exp is there for so many rows more.
PADDING = 128


@triton.jit
def _convert(
    Sums, Fineness, dQ, head, at, tile, queries, slope, WIDTH: tl.constexpr, D: tl.constexpr, WHOLE: tl.constexpr
):  # fmt: skip
    """Sums of 64 rows of a head to gradients; tiles of 64 x 64 lie in memory as registers of a product held them."""
    rows = tile * 64 + tl.arange(0, 64)
    units = tl.full([64], slope, tl.float32)
    if WHOLE:
        units /= tl.load(Fineness + at // D + tl.arange(0, 64))
    for part in tl.static_range(D // 64):
        sums = tl.load(Sums + at + part * 4096 + tl.arange(0, 4096))
        found = sums.reshape(8, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5).reshape(64, 64)
        columns = part * 64 + tl.arange(0, 64)
        kept = (rows < queries)[:, None] & (columns < WIDTH)[None, :]
        to = dQ + (head * queries + rows)[:, None] * WIDTH + columns[None, :]
        tl.store(to, (found * units[:, None]).to(dQ.dtype.element_ty), mask=kept, eviction_policy="evict_first")


@triton.jit
def _prepare(
    Out, dO, Largest, Total, Lse, Delta, Fineness, Extremes, batch, head, from_row, to_row, sums_row, unit, tile,
    o_b, o_h, o_n, g_b, g_h, g_n, queries, WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    """The numbers of 64 rows of a head, which stand from ``from_row`` on and go to ``to_row``, or ``sums_row``."""
    positions, columns = tile * 64 + tl.arange(0, 64), tl.arange(0, PADDED_WIDTH)
    inside = positions < queries
    kept = inside[:, None] & (columns < WIDTH)[None, :]
    rows = positions.to(tl.int64)[:, None]
    o = Out + batch * o_b + head * o_h + rows * o_n + columns[None, :]
    g = dO + batch * g_b + head * g_h + rows * g_n + columns[None, :]
    total = tl.load(Total + from_row + positions, mask=inside, other=0.0)
    largest = tl.load(Largest + from_row + positions, mask=inside, other=0.0)
    output = tl.load(o, mask=kept, other=0.0, eviction_policy="evict_first").to(tl.float32)
    gradient = tl.load(g, mask=kept, other=0.0).to(tl.float32)
    tl.store(Lse + to_row + positions, tl.where(total == 0.0, float("inf"), largest + tl.log2(total)))
    delta = tl.sum(output * gradient, 1)
    tl.store(Delta + to_row + positions, delta)
    if SHARES > 0:
        tl.store(Fineness + sums_row + positions, fineness_of(gradient, delta, Extremes, unit, SHARES))


@triton.jit(do_not_specialize=["first_done", "done", "first_next", "following"])
def rows_kernel(
    Out, dO, Largest, Total, Lse, Delta, Sums, Fineness, Extremes, dQ,
    o_b, o_h, o_n, g_b, g_h, g_n, heads, group, queries, padded, slope, first_done, done, first_next, following,
    WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr, D_WIDTH: tl.constexpr, D: tl.constexpr, SUMS: tl.constexpr,
    SHARES: tl.constexpr,
):  # fmt: skip
    """A program takes 64 rows of a head that is done, one of ``done`` from ``first_done`` on, and those of one to come.

    Sums are there for as many heads as a launch has, and every launch counts them from 0. They are integers where
    extremes were found, in so many SHARES of a head.
    """
    tiles = padded // 64
    tile, place = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    if SUMS:
        at = (place * padded + tile * 64) * D
        if place < done:
            _convert(Sums, Fineness, dQ, first_done + place, at, tile, queries, slope, D_WIDTH, D, SHARES > 0)
        tl.debug_barrier()
        if place < following:
            for part in tl.static_range(D // 64):
                tl.store(Sums + at + part * 4096 + tl.arange(0, 4096), tl.zeros([4096], Sums.dtype.element_ty))
    if place < following:
        head = first_next + place
        _prepare(
            Out, dO, Largest, Total, Lse, Delta, Fineness, Extremes, head // heads, head % heads,
            head * queries, head * padded, place * padded, head // group, tile,
            o_b, o_h, o_n, g_b, g_h, g_n, queries, WIDTH, PADDED_WIDTH, SHARES,
        )  # fmt: skip


class Rows(NamedTuple):
    """What the rows of a call bring along, the two numbers of each, and the sums that launches of a lane share.

    Sums are integers where there is ``fineness`` (grains in 1, for each row of sums), which extremes of keys tell.
    """

    output: Tensor
    gradient: Tensor
    largest: Tensor
    total: Tensor
    lse: Tensor
    delta: Tensor
    sums: Tensor | None
    fineness: Tensor | None
    extremes: Extremes | None
    group: int

    @classmethod
    def of(
        cls, problem: KernelProblem, saved: tuple[Tensor, ...], at_once: int = 0, d: int = 0, *, counted: bool = False
    ) -> "Rows":
        """From output, largest, total and gradient; with sums ``d`` wide of so many heads at once, if any.

        Integers, if grains are ``counted``.
        """
        flat = (grouped_heads(tensor).flatten(1, 2) for tensor in (saved[0], saved[3]))
        output, gradient = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in flat)
        padded = -(-problem.queries // PADDING) * PADDING
        heads, device = problem.batch * problem.kv_heads * problem.group, output.device
        lse, delta = torch.empty(2, heads * padded, dtype=torch.float32, device=device)
        sums = fineness = extremes = None
        if d and counted:
            sums = torch.empty(at_once * padded, d, dtype=torch.int32, device=device)
            fineness = torch.empty(at_once * padded, dtype=torch.float32, device=device)
            extremes = Extremes.of(problem)
        elif d:
            sums = torch.empty(at_once * padded, d, dtype=torch.float32, device=device)
        largest, total = saved[1].contiguous(), saved[2].contiguous()
        return cls(output, gradient, largest, total, lse, delta, sums, fineness, extremes, problem.group)

    @property
    def padded(self) -> int:
        """Rows of a head in memory."""
        return -(-int(self.output.shape[2]) // PADDING) * PADDING

    def of_lane(self, lane: int, lanes: int) -> "Rows":
        """The same rows with the sums of one of so many lanes, an equal part of these."""
        sums, fineness = (None if each is None else each.chunk(lanes)[lane] for each in (self.sums, self.fineness))
        return self._replace(sums=sums, fineness=fineness)

    def scan(self, units: range) -> None:
        """Find the extremes of some KV heads, where these tell what a grain is; before ``between`` for their rows."""
        if self.extremes is not None and units:
            self.extremes.find(units)

    def between(self, done: range, following: range, query_gradient: Tensor | None = None, slope: float = 1.0) -> None:
        """After a launch for the heads that are ``done``, and before one for those that follow."""
        heads, queries, width = self.output.shape[1:]
        extremes, group = self.extremes, self.group
        sums, found, widths = self.lse, self.lse, (64, 64)
        if self.sums is not None and query_gradient is not None:
            sums, found = self.sums, query_gradient
            widths = int(found.shape[-1]), int(sums.shape[-1])
        launch_specialized(
            rows_kernel, max(len(done), len(following)) * self.padded // 64, (
                self.output, self.gradient, self.largest, self.total, self.lse, self.delta, sums,
                self.lse if self.fineness is None else self.fineness,
                self.lse if extremes is None else extremes.found,
                found, *self.output.stride()[:3], *self.gradient.stride()[:3], heads, group, queries, self.padded,
                slope, done.start, len(done), following.start, len(following),
            ), (
                width, max(16, 1 << (width - 1).bit_length()), *widths, self.sums is not None,
                0 if extremes is None else extremes.found.shape[1],
            ),
        )  # fmt: skip
