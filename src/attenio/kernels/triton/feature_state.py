"""Approximate attention on a GPU: the kernels of ``features`` in order, chunk by chunk, with states in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.arguments import Widths, grouped_heads, padded_columns, strides_of
from attenio.kernels.gpu.tensor_cores import CHUNK, GROUP, KEY_TILE, padded
from attenio.kernels.triton.features import (
    linear_kernel,
    linear_prefix_kernel,
    prefix_kernel,
    quadratic_kernel,
    query_kernel,
)


@dataclass(frozen=True, kw_only=True)
class FeatureTiles:
    """Tiles of the loops over keys and over queries, their warps and stages, and room for states."""

    chunk: int = CHUNK
    key_tile: int = KEY_TILE
    key_warps: int = 4
    key_parts: int = 2
    key_stages: int = 3
    row_tile: int = 128
    inner_key_tile: int = KEY_TILE
    row_warps: int = 4
    row_stages: int = 3
    prefix_features: int = 8
    linear_tile: int = KEY_TILE
    linear_warps: int = 4
    state_bytes: int = 2**30  # as many heads run together as have room for their states, at least one

    @classmethod
    def of(cls, widths: Widths) -> "FeatureTiles":
        """The tiles whose sums fit into registers, the fastest of those tried on an H200."""
        if max(widths.d_padded, widths.width_padded) <= 64:
            return cls()
        return cls(key_parts=4, row_warps=8, row_stages=2, linear_warps=8)


class _State(NamedTuple):
    """What queries read: halves of M and N1, halves of D2, and the sums N and D1, weighted, of each state."""

    high: Tensor
    low: Tensor
    keys_high: Tensor
    keys_low: Tensor
    sums: Tensor


def polynomial_sums(
    problem: KernelProblem,
    coefficients: tuple[float, ...],
    centre: Tensor | None,
    *,
    causal: bool,
    dtype: torch.dtype | None = None,
    tiles: FeatureTiles | None = None,
) -> tuple[Tensor, Tensor]:
    """Output (batch, KV heads, group, queries, width) of a polynomial of degree at most 2, and its denominators.

    ``centre`` is (batch * KV heads, 1, d) in fp32 and contiguous; outputs have the type of the queries unless given.
    """
    c0, c1, c2 = (*coefficients, 0.0, 0.0)[:3]
    d, width = int(problem.query.shape[-1]), int(problem.value.shape[-1])
    widths = Widths(d, width, padded(d), padded_columns(width, 2))
    run = _Run(
        problem=problem, weights=(c0, c1 * problem.scale, c2 * problem.scale**2), centre=centre, causal=causal,
        widths=widths, tiles=tiles or FeatureTiles.of(widths),
    )  # fmt: skip
    query = grouped_heads(problem.query)
    output = query.new_empty((*query.shape[:-1], widths.width), dtype=dtype or query.dtype)
    below = query.new_empty(query.shape[:-1], dtype=torch.float32)
    for some, which in run.batches():
        some.read(some.states(), output[which], below[which])
    return output, below


@dataclass(frozen=True, kw_only=True, eq=False)
class _Run:
    """Heads that run together."""

    problem: KernelProblem
    weights: tuple[float, float, float]  # of the powers of q . k: the scale is in them
    centre: Tensor | None
    causal: bool
    widths: Widths
    tiles: FeatureTiles

    @property
    def heads(self) -> int:
        return self.problem.batch * self.problem.kv_heads

    @property
    def keys(self) -> int:
        """Keys that states are made of: a causal run has no use for the one after the last chunk."""
        keys, chunk = self.problem.keys, self.tiles.chunk
        return (keys - 1) // chunk * chunk if self.causal else keys

    @property
    def chunks(self) -> int:
        return -(-self.keys // self.tiles.chunk)

    @property
    def state_count(self) -> int:
        return self.chunks + 1 if self.causal else 1

    @property
    def pairs(self) -> int:
        groups = self.widths.d_padded // GROUP
        return groups * (groups + 1) // 2

    def batches(self) -> Iterator[tuple["_Run", tuple[slice, slice]]]:
        """Parts of the run, and which sequences and KV heads each has."""
        of_state = 4 * (self.widths.d_padded + 1) * self.widths.d_padded * self.widths.width_padded
        of_chunk = 4 * self.pairs * GROUP**2 * self.widths.width_padded
        at_once = max(1, self.tiles.state_bytes // (self.state_count * of_state + self.chunks * of_chunk))
        problem = self.problem
        if self.heads <= at_once:
            yield self, (slice(None), slice(None))
            return
        for batch in range(problem.batch):
            for head in range(0, problem.kv_heads, at_once):
                which = slice(batch, batch + 1), slice(head, min(head + at_once, problem.kv_heads))
                some = replace(
                    problem, query=problem.query[which], key=problem.key[which], value=problem.value[which]
                )  # fmt: skip
                centre = self.centre
                if centre is not None:
                    centre = centre.unflatten(0, (problem.batch, problem.kv_heads))[which].flatten(0, 1)
                yield replace(self, problem=some, centre=centre), which

    def states(self) -> _State:
        """Sums over keys: of all, or of those before each chunk."""
        d, width, d_padded, w_padded = self.widths
        half, single = ({"dtype": t, "device": self.problem.key.device} for t in (torch.bfloat16, torch.float32))
        lead = (self.heads, self.state_count)
        high, low = (torch.empty((*lead, d_padded + 1, d_padded, w_padded), **half) for _ in range(2))
        keys_high, keys_low = (torch.empty((*lead, d_padded, d_padded), **half) for _ in range(2))
        state = _State(high, low, keys_high, keys_low, torch.empty((*lead, w_padded + d_padded), **single))
        if self.chunks == 0:  # one chunk holds everything, and no state is read
            return state
        if self.weights[2]:
            self._quadratic(state)
        key, value, tiles = self.problem.key, self.problem.value, self.tiles
        products = torch.empty((self.heads, self.chunks, d_padded + 1, w_padded + d_padded), **single)
        linear_kernel[self.chunks * self.heads,](
            key, value, self.centre, products, *key.stride(), *value.stride(),
            self.problem.kv_heads, self.keys, self.chunks,
            CHUNK=tiles.chunk, KEY_TILE=tiles.linear_tile, D=d, WIDTH=width, D_PADDED=d_padded, W_PADDED=w_padded,
            K_EXACT=_exact(key, self.centre), V_EXACT=_exact(value), num_warps=tiles.linear_warps, num_stages=2,
        )  # fmt: skip
        linear_prefix_kernel[self.heads * (d_padded + 1),](
            products, *state, self.chunks, self.state_count, *self.weights,
            D_PADDED=d_padded, W_PADDED=w_padded, CAUSAL=self.causal, num_warps=1,
        )  # fmt: skip
        return state

    def _quadratic(self, state: _State) -> None:
        key, value, tiles = self.problem.key, self.problem.value, self.tiles
        d, width, d_padded, w_padded = self.widths
        parts = state.sums.new_empty(self.heads, self.chunks, self.pairs, GROUP**2, w_padded)
        quadratic_kernel[self.pairs * tiles.key_parts * self.chunks * self.heads,](
            key, value, self.centre, parts, *key.stride(), *value.stride(),
            self.problem.kv_heads, self.keys, self.chunks, self.pairs,
            CHUNK=tiles.chunk, KEY_TILE=tiles.key_tile, GROUP=GROUP, GROUPS=d_padded // GROUP, PARTS=tiles.key_parts,
            D=d, WIDTH=width, W_PADDED=w_padded, K_EXACT=_exact(key, self.centre), V_EXACT=_exact(value),
            num_warps=tiles.key_warps, num_stages=tiles.key_stages,
        )  # fmt: skip
        prefix_kernel[GROUP**2 // tiles.prefix_features * self.pairs * self.heads,](
            parts, state.high, state.low, self.chunks, self.pairs, self.state_count, self.weights[2],
            GROUP=GROUP, GROUPS=d_padded // GROUP, D_PADDED=d_padded, W_PADDED=w_padded,
            FEATURES=tiles.prefix_features, CAUSAL=self.causal, num_warps=4,
        )  # fmt: skip

    def read(self, state: _State, output: Tensor, below: Tensor) -> None:
        """Outputs and denominators of all queries."""
        query, key, value = grouped_heads(self.problem.query), self.problem.key, self.problem.value
        d, width, d_padded, w_padded = self.widths
        tiles, queries = self.tiles, self.problem.queries
        query_kernel[-(-queries // tiles.row_tile) * self.heads * self.problem.group,](
            query, key, value, self.centre, output, below, *state,
            *strides_of(query, key, value), output.stride(0), output.stride(2), output.stride(3),
            self.problem.kv_heads, self.problem.group, queries, self.problem.keys, self.state_count, *self.weights,
            CHUNK=tiles.chunk, ROW_TILE=tiles.row_tile, KEY_TILE=tiles.inner_key_tile,
            D=d, WIDTH=width, D_PADDED=d_padded, W_PADDED=w_padded,
            Q_EXACT=_exact(query), K_EXACT=_exact(key, self.centre), V_EXACT=_exact(value),
            QUADRATIC=self.weights[2] != 0, CAUSAL=self.causal,
            num_warps=tiles.row_warps, num_stages=tiles.row_stages,
        )  # fmt: skip


def _exact(tensor: Tensor, centre: Tensor | None = None) -> bool:
    """Whether entries are numbers of bf16 as they are."""
    return tensor.dtype == torch.bfloat16 and centre is None
