"""Heads of other widths and forms: 96 and 192 wide, values narrower than keys, groups, windows, packed sequences."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import torch
from cases import (
    HIDDEN,
    OURS,
    TOKENS,
    Attend,
    Case,
    Inputs,
    Seen,
    causal,
    error_of_gradients,
    error_of_rows,
    flex,
    on,
    pulled,
    randoms,
)
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import pad

from attenio import attention
from attenio.measurement.contenders import backend

N = 8192
DIRECTIONS = ("forward", "backward")
# Of keys and of values.
WIDTHS = ((96, 96), (192, 192), (192, 128))
KV_HEADS = 4
WINDOW = 1024
# No tile divides any of them, nor do they grow or shrink.
LENGTHS = (1871, 403, 4099, 997, 2503, 1399, 3001, 2111)


@dataclass(frozen=True, kw_only=True)
class Form:
    """Heads of one kind, and who attends to them.

    There are as many heads as bring the columns of values next to 2,048: 21 of 96, 11 of 192. ``scores`` are those of a
    head of one sequence, and ``kv_heads`` 0 where every head has its own keys.
    """

    mask: str
    seen: Seen | None
    scores: float
    attends: dict[str, Attend]
    d: int = 128
    width: int = 128
    n: int = N
    kv_heads: int = 0
    # Whether heads lie between tokens in memory, as kernels for packed sequences have them.
    between_tokens: bool = False

    @property
    def heads(self) -> int:
        return round(HIDDEN / self.width)

    @property
    def batch(self) -> int:
        return TOKENS // self.n

    def inputs(self) -> Inputs:
        shared = self.kv_heads or self.heads
        kinds = (self.heads, self.d), (shared, self.d), (shared, self.width)
        if not self.between_tokens:
            return randoms(*((self.batch, heads, self.n, width) for heads, width in kinds))
        q, k, v = randoms(*((self.batch, self.n, heads, width) for heads, width in kinds))
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def case(self, direction: str) -> Case:
        is_forward = direction == "forward"
        # Products with columns of keys and of values: S and O, or S, dQ and dK, and dP and dV.
        columns = self.d + self.width if is_forward else 3 * self.d + 2 * self.width
        widths = f"{self.d}" if self.d == self.width else f"{self.d}/{self.width}"
        return Case(
            name=f"{direction} d={widths} {self.mask} n={self.n}", part="others",
            flops=2.0 * self.batch * self.heads * self.scores * columns,
            about={
                "d": self.d, "width": self.width, "heads": self.heads, "kv_heads": self.kv_heads or self.heads,
                "n": self.n, "mask": self.mask, "direction": direction,
            },
            inputs=self.inputs,
            contenders={name: (on if is_forward else pulled)(attend) for name, attend in self.attends.items()},
            error=(error_of_rows if is_forward else error_of_gradients)(self.seen),
        )  # fmt: skip


def others() -> Iterator[Case]:
    for direction in DIRECTIONS:
        for d, width in WIDTHS:
            for is_causal in (False, True):
                yield of_width(d, width, is_causal).case(direction)
    for direction in DIRECTIONS:
        yield grouped().case(direction)
    yield windowed().case("backward")  # its forward pass is in the part of that name
    for direction in DIRECTIONS:
        yield packed().case(direction)


def of_width(d: int, width: int, is_causal: bool) -> Form:
    flash = backend(SDPBackend.FLASH_ATTENTION, is_causal=is_causal)
    attends: dict[str, Attend] = {
        OURS: lambda q, k, v: attention(q, k, v, is_causal=is_causal),
        "cudnn": backend(SDPBackend.CUDNN_ATTENTION, is_causal=is_causal),
    }
    if d == width:
        attends["flash"] = flash
    else:  # it takes values as wide as keys only, and is given columns of zeros
        attends["flash padded"] = lambda q, k, v: flash(q, k, pad(v, (0, d - width)))[..., :width]
    return Form(
        mask="causal" if is_causal else "full", seen=causal if is_causal else None,
        scores=N * N * (0.5 if is_causal else 1.0), attends=attends, d=d, width=width,
    )  # fmt: skip


def grouped() -> Form:
    options = {"is_causal": True, "enable_gqa": True}
    attends: dict[str, Attend] = {
        OURS: lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True),
        "cudnn": backend(SDPBackend.CUDNN_ATTENTION, **options),
        "flash": backend(SDPBackend.FLASH_ATTENTION, **options),
    }
    return Form(mask="causal, grouped", seen=causal, scores=0.5 * N * N, attends=attends, kv_heads=KV_HEADS)


def windowed() -> Form:
    def seen(i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (j > i - WINDOW)

    attends: dict[str, Attend] = {
        OURS: lambda q, k, v: attention(q, k, v, window=WINDOW),
        "flash": varlen((TOKENS,), (WINDOW - 1, 0)),
        "flex": flex(seen, TOKENS),
    }
    return Form(
        mask=f"window {WINDOW}", seen=seen, scores=TOKENS * WINDOW, attends=attends, n=TOKENS, between_tokens=True
    )


def packed() -> Form:
    """Beside FlashAttention-2 only: cuDNN takes nested tensors in PyTorch 2.11, but no graph captures them there."""
    attends: dict[str, Attend] = {
        OURS: lambda q, k, v: attention(q, k, v, is_causal=True, cu_seqlens=starts_of(LENGTHS, q.device)),
        "flash": varlen(LENGTHS, (-1, 0)),
    }
    return Form(
        mask=f"causal, {len(LENGTHS)} packed", seen=seen_in_packed(LENGTHS, is_causal=True),
        scores=0.5 * sum(length**2 for length in LENGTHS), attends=attends, n=sum(LENGTHS), between_tokens=True,
    )  # fmt: skip


@cache
def starts_of(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Where packed sequences start, and the end: made once, since a graph that is captured can copy nothing there."""
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)


def seen_in_packed(lengths: tuple[int, ...], *, is_causal: bool) -> Seen:
    """Which keys of packed sequences a query sees: those of its own, and with ``is_causal`` none after it."""

    def seen(i: Tensor, j: Tensor) -> Tensor:
        stops = starts_of(lengths, i.device)[1:]
        mine, theirs = (torch.searchsorted(stops, at.contiguous(), right=True) for at in (i, j))
        return (mine == theirs) & (j <= i) if is_causal else mine == theirs

    return seen


def varlen(lengths: tuple[int, ...], window: tuple[int, int]) -> Attend:
    """FlashAttention-2 of packed sequences, with so many keys before and after a query's own, -1 for all."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn  # PyTorch has it in this form since 2.11

        starts, longest = starts_of(lengths, q.device), max(lengths)
        tokens = (x[0].transpose(0, 1) for x in (q, k, v))
        found: Tensor = varlen_attn(*tokens, starts, starts, longest, longest, window_size=window)
        return found.transpose(0, 1)[None]

    return call
