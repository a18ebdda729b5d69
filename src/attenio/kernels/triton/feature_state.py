"""Approximate attention on a GPU: the kernels of ``features`` in order, chunk by chunk, with the state in memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attenio.kernels.problem import KernelProblem
from attenio.kernels.tensor_cores import CHUNK, GROUP, KEY_TILE
from attenio.kernels.triton.features import (
    linear_kernel,
    linear_prefix_kernel,
    prefix_kernel,
    quadratic_kernel,
    query_kernel,
)
from attenio.kernels.triton.launch import Widths, grouped_heads, strides_of, widths_of

__all__ = ["FeatureTiles", "polynomial_sums"]


@dataclass(frozen=True, kw_only=True)
class FeatureTiles:
    """Tiles of the loops over keys and over queries, and the warps and stages that they are run with."""

    chunk: int = CHUNK
    key_tile: int = KEY_TILE
    key_warps: int = 4
    key_parts: int = 2
    key_stages: int = 2
    row_tile: int = 128
    inner_key_tile: int = KEY_TILE
    row_warps: int = 4
    row_stages: int = 3
    prefix_features: int = 8
    linear_tile: int = KEY_TILE

    @classmethod
    def of(cls, widths: Widths) -> "FeatureTiles":
        """The tiles whose sums fit into registers, the fastest of those tried on an H200."""
        if max(widths.d_padded, widths.width_padded) <= 64:
            return cls()
        return cls(key_parts=4, row_warps=8, row_stages=2)


@dataclass(frozen=True, kw_only=True)
class _State:
    """What queries read: halves of M and N1, halves of D2, and the sums N and D1, weighted, for each state."""

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
    weights = (c0, c1 * problem.scale, c2 * problem.scale**2)
    widths = _widths(problem)
    tiles = tiles or FeatureTiles.of(widths)
    if causal and problem.keys <= tiles.chunk:
        state = _nothing(problem, widths)
    else:
        state = _state(problem, weights, centre, widths, tiles, causal=causal)
    return _queries(problem, weights, centre, widths, tiles, state, causal=causal, dtype=dtype or problem.query.dtype)


def _widths(problem: KernelProblem) -> Widths:
    """Coordinates come in two halves of whole groups."""
    found = widths_of(problem)
    return found._replace(d_padded=max(2 * GROUP, found.d_padded))


def _exact(tensor: Tensor, centre: Tensor | None = None) -> bool:
    """Whether entries are numbers of bf16 as they are."""
    return tensor.dtype == torch.bfloat16 and centre is None


def _state(
    problem: KernelProblem,
    weights: tuple[float, float, float],
    centre: Tensor | None,
    widths: Widths,
    tiles: FeatureTiles,
    *,
    causal: bool,
) -> _State:
    key, value = problem.key, problem.value
    heads, device = problem.batch * problem.kv_heads, key.device
    d, width, d_padded, w_padded = widths
    # a causal run has no use for the state after the last chunk
    keys = (problem.keys - 1) // tiles.chunk * tiles.chunk if causal else problem.keys
    chunks = -(-keys // tiles.chunk)
    states = chunks + 1 if causal else 1
    strides = (*key.stride(), *value.stride())
    groups = d_padded // GROUP
    pairs = groups * (groups + 1) // 2
    shape = (heads, states, d_padded + 1, d_padded, w_padded)
    high, low = (torch.empty(shape, dtype=torch.bfloat16, device=device) for _ in range(2))
    if weights[2]:
        parts = torch.empty((heads, chunks, pairs, GROUP * GROUP, w_padded), dtype=torch.float32, device=device)
        quadratic_kernel[pairs * tiles.key_parts * chunks * heads,](
            key, value, centre, parts, *strides, problem.kv_heads, keys, chunks, pairs,
            CHUNK=tiles.chunk, KEY_TILE=tiles.key_tile, GROUP=GROUP, GROUPS=groups, PARTS=tiles.key_parts,
            D=d, WIDTH=width, W_PADDED=w_padded, K_EXACT=_exact(key, centre), V_EXACT=_exact(value),
            num_warps=tiles.key_warps, num_stages=tiles.key_stages,
        )  # fmt: skip
        prefix_kernel[GROUP * GROUP // tiles.prefix_features * pairs * heads,](
            parts, high, low, chunks, pairs, states, weights[2],
            GROUP=GROUP, GROUPS=groups, D_PADDED=d_padded, W_PADDED=w_padded, FEATURES=tiles.prefix_features,
            CAUSAL=causal, num_warps=4,
        )  # fmt: skip
    wide = w_padded + d_padded
    products = torch.empty((heads, chunks, d_padded + 1, wide), dtype=torch.float32, device=device)
    linear_kernel[chunks * heads,](
        key, value, centre, products, *strides, problem.kv_heads, keys, chunks,
        CHUNK=tiles.chunk, KEY_TILE=tiles.linear_tile, D=d, WIDTH=width, D_PADDED=d_padded, W_PADDED=w_padded,
        V_EXACT=_exact(value), K_EXACT=_exact(key, centre), num_warps=4, num_stages=2,
    )  # fmt: skip
    keys_high, keys_low = (high.new_empty(heads, states, d_padded, d_padded) for _ in range(2))
    sums = products.new_empty(heads, states, wide)
    linear_prefix_kernel[heads * (d_padded + 1),](
        products, high, low, keys_high, keys_low, sums, chunks, states, *weights,
        D_PADDED=d_padded, W_PADDED=w_padded, CAUSAL=causal, num_warps=1,
    )  # fmt: skip
    return _State(high=high, low=low, keys_high=keys_high, keys_low=keys_low, sums=sums)


def _nothing(problem: KernelProblem, widths: Widths) -> _State:
    """No state is read where one chunk holds everything."""
    none = torch.empty(1, dtype=torch.bfloat16, device=problem.key.device)
    return _State(high=none, low=none, keys_high=none, keys_low=none, sums=none.float())


def _queries(
    problem: KernelProblem,
    weights: tuple[float, float, float],
    centre: Tensor | None,
    widths: Widths,
    tiles: FeatureTiles,
    state: _State,
    *,
    causal: bool,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    query, key, value = grouped_heads(problem.query), problem.key, problem.value
    d, width, d_padded, w_padded = widths
    shape = query.shape[:-1]
    output = torch.empty((*shape, width), dtype=dtype, device=query.device)
    below = torch.empty(shape, dtype=torch.float32, device=query.device)
    heads = problem.batch * problem.kv_heads * problem.group
    query_kernel[-(-problem.queries // tiles.row_tile) * heads,](
        query, key, value, centre, output, below, state.high, state.low, state.keys_high, state.keys_low, state.sums,
        *strides_of(query, key, value), output.stride(0), output.stride(2), output.stride(3),
        problem.kv_heads, problem.group, problem.queries, problem.keys,
        state.sums.shape[1] if state.sums.dim() > 1 else 1, *weights,
        CHUNK=tiles.chunk, ROW_TILE=tiles.row_tile, KEY_TILE=tiles.inner_key_tile,
        D=d, WIDTH=width, D_PADDED=d_padded, W_PADDED=w_padded,
        Q_EXACT=_exact(query), K_EXACT=_exact(key, centre), V_EXACT=_exact(value),
        QUADRATIC=weights[2] != 0, CAUSAL=causal, num_warps=tiles.row_warps, num_stages=tiles.row_stages,
    )  # fmt: skip
    return output, below
