"""How large the data of a call are, in one pass: what a certificate on a GPU needs."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import torch
import triton
import triton.language as tl

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.promise import Promise
from attenio.kernels.gpu import tensor_cores
from attenio.kernels.gpu.arguments import grouped_heads, strides_of, widths_of
from attenio.kernels.gpu.tensor_cores import Sizes
from attenio.kernels.triton.sweep import load_rows

_TILES, _ROWS = 8, 64  # rows of a program, in tiles that it holds at once


@triton.jit
def longest(rows):
    """The largest sum of squares of a row; infinite where it is NaN."""
    squares = tl.sum(rows * rows, 1)
    return tl.max(tl.where(squares == squares, squares, float("inf")))


@triton.jit
def sizes_kernel(
    Q, K, V, Largest, Sums, q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d,
    kv_heads, group, queries, keys, programs,
    ROWS: tl.constexpr, TILES: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
):  # fmt: skip
    """Of each head and run of rows: Largest squares of queries and keys, of -V and V by columns; Sums of keys."""
    program, head = tl.program_id(0) % programs, (tl.program_id(0) // programs).to(tl.int64)
    batch, kv_head = head // kv_heads, head % kv_heads
    dims, columns = tl.arange(0, D_PADDED), tl.arange(0, W_PADDED)
    nothing = tl.zeros([ROWS], tl.int32)
    of_queries, of_keys = 0.0, 0.0
    sums = tl.zeros([D_PADDED], tl.float32)
    low, high = tl.full([W_PADDED], float("-inf"), tl.float32), tl.full([W_PADDED], float("-inf"), tl.float32)
    for tile in range(TILES):
        rows = (program * TILES + tile) * ROWS + tl.arange(0, ROWS)
        k = load_rows(K + batch * k_b + kv_head * k_h, rows, nothing, 0, k_n, k_d, keys, D, D_PADDED).to(tl.float32)
        of_keys = tl.maximum(of_keys, longest(k))
        sums += tl.sum(k, 0)
        v = load_rows(V + batch * v_b + kv_head * v_h, rows, nothing, 0, v_n, v_d, keys, WIDTH, W_PADDED)
        v = v.to(tl.float32)
        is_number, inside = v == v, (rows < keys)[:, None]
        high = tl.maximum(high, tl.max(tl.where(inside, tl.where(is_number, v, float("inf")), float("-inf")), 0))
        low = tl.maximum(low, tl.max(tl.where(inside, tl.where(is_number, -v, float("inf")), float("-inf")), 0))
        for member in range(group):
            at = Q + batch * q_b + (kv_head * group + member) * q_h
            q = load_rows(at, rows, nothing, 0, q_n, q_d, queries, D, D_PADDED).to(tl.float32)
            of_queries = tl.maximum(of_queries, longest(q))
    place = head * programs + program
    Largest += place * (2 + 2 * WIDTH)
    tl.store(Largest, of_queries)
    tl.store(Largest + 1, of_keys)
    tl.store(Largest + 2 + columns, low, mask=columns < WIDTH)
    tl.store(Largest + 2 + WIDTH + columns, high, mask=columns < WIDTH)
    tl.store(Sums + place * D + dims, sums, mask=dims < D)


def sizes_of(problem: KernelProblem) -> Sizes:
    """The sizes of a problem, read back from the GPU once."""
    query, key, value = grouped_heads(problem.query), problem.key, problem.value
    d, width, d_padded, w_padded = widths_of(problem)
    heads = problem.batch * problem.kv_heads
    programs = -(-max(problem.queries, problem.keys) // (_ROWS * _TILES))
    largest = torch.empty((heads, programs, 2 + 2 * width), dtype=torch.float32, device=key.device)
    sums = largest.new_empty(heads, programs, d)
    sizes_kernel[heads * programs,](
        query, key, value, largest, sums, *strides_of(query, key, value),
        problem.kv_heads, problem.group, problem.queries, problem.keys, programs,
        ROWS=_ROWS, TILES=_TILES, D=d, WIDTH=width, D_PADDED=d_padded, W_PADDED=w_padded, num_warps=4,
    )  # fmt: skip
    centre = sums.sum(1, keepdim=True) / problem.keys
    statistics = torch.cat([largest.amax(1), centre.square().sum(-1)], 1).cpu()
    squares, low, high, mean = statistics.split([2, width, width, 1], 1)
    return Sizes.checked(torch.cat([squares, mean], 1).sqrt().T, low.neg(), high, centre)


def promise_for(problem: KernelProblem, tolerance: float, *, causal: bool) -> Promise:
    """The certificate of these data, which may say to use exact; InvalidInput where they have none."""
    return tensor_cores.promise_for(problem, tolerance, causal=causal, sizes_of=sizes_of)
