"""The inner loop of every forward kernel: rows stay, tiles of keys pass, the softmax is kept online.

for each tile j of KEY_TILE keys between start and stop:
    S = Q_i K_j^T;  m' = max(m, max S);  P = exp2(S - m');  l = l exp2(m - m') + sum P;  O = O exp2(m - m') + P V_j
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

from attenio.kernels.triton.visible import dropout_factors, hide


@triton.jit
def load_rows(X, positions, heads, stride_h, stride_n, stride_d, count, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Rows of a matrix (heads of a group, positions, WIDTH) that stay; what is outside becomes zero.

    They are read once, so they are the first that the L2 may give up for the rows that pass.
    """
    columns = tl.arange(0, PADDED)
    at = X + heads[:, None].to(tl.int64) * stride_h + positions[:, None].to(tl.int64) * stride_n
    inside = (positions < count)[:, None]
    if PADDED != WIDTH:
        inside = inside & (columns < WIDTH)[None, :]
    return tl.load(at + columns[None, :] * stride_d, mask=inside, other=0.0, eviction_policy="evict_first")


@triton.jit
def sweep(
    O, largest, total, q, K, V, start, stop,
    positions, heads, first, end, queries, keys, k_n, k_d, v_n, v_d, scale,
    QueryIds, KeyIds, Blocks, blocks_in_row, query_block, key_block, Bias, bias_h, bias_q, bias_k,
    Seed, batch, probability,
    KEY_TILE: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    HIDES: tl.constexpr, BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
    backwards=0,
):  # fmt: skip
    """Fold the keys from ``start`` to ``stop`` into the sums, the last first where ``backwards`` is 1 and not 0.

    HIDES where some score may not be required.
    """
    dims, columns = tl.arange(0, D_PADDED), tl.arange(0, W_PADDED)
    mirror = start + start + (tl.cdiv(stop - start, KEY_TILE) - 1) * KEY_TILE
    for step in range(start, stop, KEY_TILE):
        j = tl.multiple_of(step + backwards * (mirror - step - step), KEY_TILE)
        here = j + tl.arange(0, KEY_TILE)
        at_k = K + here[None, :].to(tl.int64) * k_n + dims[:, None] * k_d
        at_v = V + here[:, None].to(tl.int64) * v_n + columns[None, :] * v_d
        if HIDES:
            k = tl.load(at_k, mask=(here < keys)[None, :] & (dims < D)[:, None], other=0.0)
        elif D_PADDED != D:
            k = tl.load(at_k, mask=(dims < D)[:, None], other=0.0)
        else:
            k = tl.load(at_k)
        scores = tl.dot(q, k, input_precision=PRECISION)
        if HIDES:
            scores = hide(
                scores * scale, positions[:, None], heads[:, None], here[None, :], first[:, None], end[:, None],
                queries, keys, QueryIds, KeyIds, Blocks, blocks_in_row, query_block, key_block,
                Bias, bias_h, bias_q, bias_k, BOOLEAN, LOG2_E,
            )  # fmt: skip
            larger = tl.maximum(largest, tl.max(scores, 1))
            anchor = tl.where(larger == float("-inf"), 0.0, larger)
            weights = tl.exp2(scores - anchor[:, None])
            fading = tl.exp2(largest - anchor)
        else:
            larger = tl.maximum(largest, tl.max(scores, 1) * scale)
            weights = tl.exp2(scores * scale - larger[:, None])
            fading = tl.exp2(largest - larger)
        total = total * fading + tl.sum(weights, 1)
        if Seed is not None:
            weights *= dropout_factors(
                tl.load(Seed), positions[:, None], heads[:, None], here[None, :], batch, probability
            )
        O = O * fading[:, None]
        if HIDES:
            v = tl.load(at_v, mask=(here < keys)[:, None] & (columns < WIDTH)[None, :], other=0.0)
        elif W_PADDED != WIDTH:
            v = tl.load(at_v, mask=(columns < WIDTH)[None, :], other=0.0)
        else:
            v = tl.load(at_v)
        O = tl.dot(weights.to(v.dtype), v, O, input_precision=PRECISION)
        largest = larger
    return O, largest, total
