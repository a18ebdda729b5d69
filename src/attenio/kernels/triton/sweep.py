"""What the forward kernels share: rows stay, tiles of keys pass, the softmax is kept online.

for each tile j of KEY_TILE keys between start and stop:
    S = Q_i K_j^T;  m' = max(m, max S);  P = exp2(S - m');  l = l exp2(m - m') + sum P;  O = O exp2(m - m') + P V_j

Wide heads have two tiles of columns side by side: those of D_PADDED or W_PADDED columns, and those beyond them.

Where V is None, values are the first columns of keys: V_j is loaded once for both products, and beside it the columns
of K_j beyond it; the same columns of Q_i stay apart.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

import triton
import triton.language as tl

from attenio.kernels.triton.products import add_product, product
from attenio.kernels.triton.visible import ScoreRows, cap, dropout, hide, place, ranges_of, stretch, stretches

# Q, K and V with their strides; V is None where values are the first columns of keys.
Inputs = namedtuple("Inputs", "Q K V q_b q_h q_n q_d k_b k_h k_n k_d v_b v_h v_n v_d")
# A run of keys: how many are skipped before the first one, which run it is, and keys of a run.
Run = namedtuple("Run", "skipped split keys")
# Where O and the statistics of its rows go.
Output = namedtuple("Output", "O Largest Total o_b o_h o_n")


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
def keys_of(inputs, batch, kv_head):
    """Keys and values of one KV head."""
    K = inputs.K + (batch * inputs.k_b + kv_head.to(tl.int64) * inputs.k_h)
    V = K if inputs.V is None else inputs.V + (batch * inputs.v_b + kv_head.to(tl.int64) * inputs.v_h)
    return K, V


@triton.jit
def _queries_of(inputs, positions, heads, mask, FIRST: tl.constexpr, STOP: tl.constexpr, PADDED: tl.constexpr):
    """Some columns of the rows of Q."""
    Q = inputs.Q + mask.batch * inputs.q_b + FIRST * inputs.q_d
    return load_rows(Q, positions, heads, inputs.q_h, inputs.q_n, inputs.q_d, mask.queries, STOP - FIRST, PADDED)


@triton.jit
def _load_keys(
    K, inputs, here, mask, FIRST: tl.constexpr, STOP: tl.constexpr, PADDED: tl.constexpr, HIDES: tl.constexpr
):
    """Some columns of a tile of keys, transposed."""
    dims = FIRST + tl.arange(0, PADDED)
    at = K + here[None, :].to(tl.int64) * inputs.k_n + dims[:, None] * inputs.k_d
    if HIDES:
        k = tl.load(at, mask=(here < mask.keys)[None, :] & (dims < STOP)[:, None], other=0.0)
    elif FIRST + PADDED > STOP:
        k = tl.load(at, mask=(dims < STOP)[:, None], other=0.0)
    else:
        k = tl.load(at)
    return k


@triton.jit
def _load_values(
    X,
    here,
    stride_n,
    stride_d,
    mask,
    FIRST: tl.constexpr,
    STOP: tl.constexpr,
    PADDED: tl.constexpr,
    HIDES: tl.constexpr,
):
    """Some columns of a tile of values."""
    columns = FIRST + tl.arange(0, PADDED)
    at = X + here[:, None].to(tl.int64) * stride_n + columns[None, :] * stride_d
    if HIDES:
        v = tl.load(at, mask=(here < mask.keys)[:, None] & (columns < STOP)[None, :], other=0.0)
    elif FIRST + PADDED > STOP:
        v = tl.load(at, mask=(columns < STOP)[None, :], other=0.0)
    else:
        v = tl.load(at)
    return v


@triton.jit
def _scores_of_latents(q, q_beyond, K, inputs, here, mask, widths, HIDES: tl.constexpr):
    """Products with a tile of latents, and the tile's values: loaded once."""
    v = _load_values(K, here, inputs.k_n, inputs.k_d, mask, 0, widths.WIDTH, widths.W_PADDED, HIDES)
    scores = product(q, tl.trans(v), widths.PRECISION)
    if widths.D_PADDED > 0:
        k = _load_keys(K, inputs, here, mask, widths.WIDTH, widths.D, widths.D_PADDED, HIDES)
        scores = add_product(q_beyond, k, scores, widths.PRECISION)
    return scores, v


@triton.jit
def sweep(
    inputs, kv_head, positions, heads, run, scale, mask, backwards, widths,
    KEY_TILE: tl.constexpr, ALWAYS_HIDES: tl.constexpr,
):  # fmt: skip
    """Sums, largest and total of a tile of rows over the keys that it sees, or those in a run where one is given.

    Sums are those of the first W_PADDED columns, and those beyond them where heads are wide.
    """
    ROW_TILE: tl.constexpr = positions.shape[0]
    first, stop = ranges_of(positions, mask)
    if run is not None:
        run_start = run.skipped + run.split * run.keys
        first, stop = tl.maximum(first, run_start), tl.minimum(stop, run_start + run.keys)
    rows = ScoreRows(positions[:, None], heads[:, None], first[:, None], stop[:, None])
    edges = stretches(first, stop, KEY_TILE, ALWAYS_HIDES)
    if inputs.V is None:
        q = _queries_of(inputs, positions, heads, mask, 0, widths.WIDTH, widths.W_PADDED)
    else:
        q = _queries_of(inputs, positions, heads, mask, 0, widths.D, widths.D_PADDED)
    q_beyond = None
    if inputs.V is None and widths.D_PADDED > 0:
        q_beyond = _queries_of(inputs, positions, heads, mask, widths.WIDTH, widths.D, widths.D_PADDED)
    elif widths.D_BEYOND > 0:
        q_beyond = _queries_of(inputs, positions, heads, mask, widths.D_PADDED, widths.D, widths.D_BEYOND)
    K, V = keys_of(inputs, mask.batch, kv_head)
    sums = tl.zeros([ROW_TILE, widths.W_PADDED], tl.float32)
    beyond = tl.zeros([ROW_TILE, widths.W_BEYOND if widths.W_BEYOND > 0 else 1], tl.float32)
    largest = tl.full([ROW_TILE], float("-inf"), tl.float32)
    total = tl.zeros([ROW_TILE], tl.float32)
    for hides in tl.static_range(2):
        if hides == 1 or not ALWAYS_HIDES:
            sums, beyond, largest, total = _fold(
                sums, beyond, largest, total, q, q_beyond, K, V, inputs, stretch(edges, hides == 1), rows, scale, mask,
                backwards, widths, KEY_TILE, hides == 1,
            )  # fmt: skip
    return sums, beyond, largest, total


@triton.jit
def _fold(
    O, beyond, largest, total, q, q_beyond, K, V, inputs, part, rows, scale, mask, backwards, widths,
    KEY_TILE: tl.constexpr, HIDES: tl.constexpr,
):  # fmt: skip
    """Fold the keys of a part into the sums, the last first where ``backwards`` is 1 and not 0.

    HIDES where some score may not be required.
    """
    for step in range(part[0], part[1], KEY_TILE):
        here = place(step, part, backwards, KEY_TILE) + tl.arange(0, KEY_TILE)
        if inputs.V is None:
            scores, v = _scores_of_latents(q, q_beyond, K, inputs, here, mask, widths, HIDES)
        else:
            k = _load_keys(K, inputs, here, mask, 0, widths.D, widths.D_PADDED, HIDES)
            scores = product(q, k, widths.PRECISION)
            if widths.D_BEYOND > 0:
                k_beyond = _load_keys(K, inputs, here, mask, widths.D_PADDED, widths.D, widths.D_BEYOND, HIDES)
                scores = add_product(q_beyond, k_beyond, scores, widths.PRECISION)
        if mask.softcap is not None:
            scores, _ = cap(scores * scale, mask)
        if HIDES:
            scores = hide(scores if mask.softcap is not None else scores * scale, rows, here[None, :], mask)
            larger = tl.maximum(largest, tl.max(scores, 1))
            anchor = tl.where(larger == float("-inf"), 0.0, larger)
            weights = tl.exp2(scores - anchor[:, None])
            fading = tl.exp2(largest - anchor)
        elif mask.softcap is not None:
            larger = tl.maximum(largest, tl.max(scores, 1))
            weights = tl.exp2(scores - larger[:, None])
            fading = tl.exp2(largest - larger)
        else:
            larger = tl.maximum(largest, tl.max(scores, 1) * scale)
            weights = tl.exp2(scores * scale - larger[:, None])
            fading = tl.exp2(largest - larger)
        total = total * fading + tl.sum(weights, 1)
        if mask.Seed is not None:
            weights *= dropout(rows, here[None, :], mask)
        O = O * fading[:, None]
        if inputs.V is not None:
            v = _load_values(V, here, inputs.v_n, inputs.v_d, mask, 0, widths.WIDTH, widths.W_PADDED, HIDES)
        weights = weights.to(v.dtype)
        O = add_product(weights, v, O, widths.PRECISION)
        if widths.W_BEYOND > 0:
            v_beyond = _load_values(
                V, here, inputs.v_n, inputs.v_d, mask, widths.W_PADDED, widths.WIDTH, widths.W_BEYOND, HIDES
            )
            beyond = add_product(weights, v_beyond, beyond * fading[:, None], widths.PRECISION)
        largest = larger
    return O, beyond, largest, total


@triton.jit
def epilogue(output, sums, beyond, largest, total, positions, heads, inside, leads, mask, widths, PACK: tl.constexpr):
    """Write O / l, m and l of a tile of rows; a sequence has PACK query heads for each of its ``leads``."""
    if mask.Sinks is not None:  # a weight more, whose value is zero
        sink = tl.load(mask.Sinks + heads, mask=inside, other=0.0) * mask.LOG2_E
        higher = tl.maximum(largest, sink)
        anchor = tl.where(higher == float("-inf"), 0.0, higher)
        fading = tl.exp2(largest - anchor)
        if widths.W_BEYOND > 0:
            beyond = beyond * fading[:, None]
        sums, total, largest = sums * fading[:, None], total * fading + tl.exp2(sink - anchor), higher
    divisor = tl.where(total == 0.0, 1.0, total)[:, None]
    at = output.O + mask.batch * output.o_b + heads[:, None].to(tl.int64) * output.o_h
    at = at + positions[:, None].to(tl.int64) * output.o_n
    columns = tl.arange(0, widths.W_PADDED)
    inside_tile = inside[:, None] & (columns < widths.WIDTH)[None, :]
    tl.store(at + columns[None, :], (sums / divisor).to(output.O.dtype.element_ty), mask=inside_tile)
    if widths.W_BEYOND > 0:
        columns = widths.W_PADDED + tl.arange(0, widths.W_BEYOND)
        inside_tile = inside[:, None] & (columns < widths.WIDTH)[None, :]
        tl.store(at + columns[None, :], (beyond / divisor).to(output.O.dtype.element_ty), mask=inside_tile)
    row = (mask.batch * leads * PACK + heads) * mask.queries + positions
    tl.store(output.Largest + row, largest, mask=inside)
    tl.store(output.Total + row, total, mask=inside)
