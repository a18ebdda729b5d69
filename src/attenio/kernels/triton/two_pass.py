"""Two passes: one for the gradient of queries, one for those of keys and values; nothing partial ever travels.

    for each head, each tile i of rows:                       (first pass)
        D_i = dO_i . O_i;  dQ_i = 0
        for each tile j of keys that a row may see:
            P = exp2(Q_i K_j^T - m_i) / l_i;  dS = P (dO_i V_j^T - D_i);  dQ_i += scale dS K_j
    for each KV head, each tile j of keys:                    (second pass)
        dK_j, dV_j = 0
        for each head of the group, each tile i of rows that see a key of j:
            P^T;  dV_j += P^T dO_i;  dK_j += scale P^T (V_j dO_i^T - D_i^T) Q_i

Seven products instead of five, and results that repeat to the bit.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

import triton
import triton.language as tl

from attenio.kernels.triton.products import add_product, product
from attenio.kernels.triton.sweep import Inputs, keys_of, load_rows
from attenio.kernels.triton.visible import (
    PLAIN_NUMBERS,
    Mask,
    ScoreRows,
    Widths,
    aligned,
    at_bias,
    cap,
    dropout,
    hide,
    place,
    ranges_of,
    stretch,
    stretches,
)

# What stays in the first pass: rows of Q and dO, m, 1 / l and D of each, and which are inside.
Stationary = namedtuple("Stationary", "q do largest share delta inside")
# What passes in the second: Q, dO, m, l and D of one head.
Passing = namedtuple("Passing", "Q dO Largest Total Delta q_n q_d g_n g_d")


@triton.jit
def _load_tiles(X, Y, rows, x_n, x_d, y_n, y_d, count, widths, MASKED: tl.constexpr):
    """Rows that pass, of a matrix as wide as K and of one as wide as V; MASKED past the end or padded."""
    dims, columns = tl.arange(0, widths.D_PADDED), tl.arange(0, widths.W_PADDED)
    at_x = X + rows[:, None].to(tl.int64) * x_n + dims[None, :] * x_d
    at_y = Y + rows[:, None].to(tl.int64) * y_n + columns[None, :] * y_d
    if MASKED:
        x = tl.load(at_x, mask=(rows < count)[:, None] & (dims < widths.D)[None, :], other=0.0)
        y = tl.load(at_y, mask=(rows < count)[:, None] & (columns < widths.WIDTH)[None, :], other=0.0)
    else:
        x, y = tl.load(at_x), tl.load(at_y)
    return x, y


@triton.jit
def _add_to_query_gradient(
    dq, own, K, V, inputs, dBias, part, rows, scale, mask, backwards, widths,
    KEY_TILE: tl.constexpr, HIDES: tl.constexpr,
):  # fmt: skip
    """The loop over keys of the first pass, as in ``sweep``; HIDES where some score may not be required."""
    MASKED: tl.constexpr = HIDES or widths.D_PADDED != widths.D or widths.W_PADDED != widths.WIDTH
    PRECISION: tl.constexpr = widths.PRECISION
    for step in range(part[0], part[1], KEY_TILE):
        here = place(step, part, backwards, KEY_TILE) + tl.arange(0, KEY_TILE)
        k, v = _load_tiles(K, V, here, inputs.k_n, inputs.k_d, inputs.v_n, inputs.v_d, mask.keys, widths, MASKED)
        scores = product(own.q, tl.trans(k), PRECISION) * scale
        if mask.softcap is not None:
            scores, derivative = cap(scores, mask)
        if HIDES:
            scores = hide(scores, rows, here[None, :], mask)
        weights = tl.exp2(scores - own.largest[:, None]) * own.share[:, None]
        dp = product(own.do, tl.trans(v), PRECISION)
        if mask.Seed is not None:
            dp *= dropout(rows, here[None, :], mask)
        ds = weights * (dp - own.delta[:, None])
        if dBias is not None:
            wanted = own.inside[:, None] & (here < mask.keys)[None, :]
            tl.atomic_add(at_bias(dBias, rows, here[None, :], mask), ds, mask=wanted)
        if mask.softcap is not None:
            ds *= derivative
        dq = add_product(ds.to(k.dtype), k, dq, PRECISION)
    return dq


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def query_gradient_kernel(
    Q, K, V, O, dO, Largest, Total, Delta, dQ,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n, o_d, g_b, g_h, g_n, g_d,
    turn, heads_in_all, group, queries, keys, below, above, scale, softmax_scale,
    First, Stop, range_b, QueryIds, KeyIds, ids_b, key_ids_b, Blocks, blocks_in_row, query_block, key_block,
    Bias, bias_b, bias_h, bias_q, bias_k, Seed, probability, softcap, Sinks, dBias,
    ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    ALWAYS_HIDES: tl.constexpr, BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
    ALIGN: tl.constexpr, BIAS_ALIGN: tl.constexpr,
):  # fmt: skip
    q_b, q_h, q_n = aligned((q_b, q_h, q_n), ALIGN)
    k_b, k_h, k_n = aligned((k_b, k_h, k_n), ALIGN)
    v_b, v_h, v_n = aligned((v_b, v_h, v_n), ALIGN)
    o_b, o_h, o_n = aligned((o_b, o_h, o_n), ALIGN)
    g_b, g_h, g_n = aligned((g_b, g_h, g_n), ALIGN)
    bias_b, bias_h, bias_q = aligned((bias_b, bias_h, bias_q), BIAS_ALIGN)
    tiles = tl.cdiv(queries, ROW_TILE)
    tile, program = tiles - 1 - tl.program_id(0) % tiles, tl.program_id(0) // tiles
    backwards = tl.program_id(0) // turn % 2
    batch, head = (program // heads_in_all).to(tl.int64), program % heads_in_all
    positions = tile * ROW_TILE + tl.arange(0, ROW_TILE)
    heads = tl.zeros([ROW_TILE], tl.int32) + head
    mask = Mask(
        batch, queries, keys, below, above,
        None if First is None else First + batch * range_b, None if Stop is None else Stop + batch * range_b,
        None if QueryIds is None else QueryIds + batch * ids_b, None if KeyIds is None else KeyIds + batch * key_ids_b,
        Blocks, blocks_in_row, query_block, key_block,
        None if Bias is None else Bias + batch * bias_b, bias_h, bias_q, bias_k, Seed, probability, softcap, Sinks,
        BOOLEAN, LOG2_E,
    )  # fmt: skip
    widths: tl.constexpr = Widths(D, WIDTH, D_PADDED, W_PADDED, PRECISION)
    inputs = Inputs(Q, K, V, q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d)
    if dBias is not None:
        dBias += batch * bias_b
    first, stop = ranges_of(positions, mask)
    rows = ScoreRows(positions[:, None], heads[:, None], first[:, None], stop[:, None])
    edges = stretches(first, stop, KEY_TILE, ALWAYS_HIDES)
    inside = positions < queries
    q = load_rows(Q + batch * q_b, positions, heads, q_h, q_n, q_d, queries, D, D_PADDED)
    do = load_rows(dO + batch * g_b, positions, heads, g_h, g_n, g_d, queries, WIDTH, W_PADDED)
    o = load_rows(O + batch * o_b, positions, heads, o_h, o_n, o_d, queries, WIDTH, W_PADDED)
    row = (batch * heads_in_all + head) * queries + positions
    total = tl.load(Total + row, mask=inside, other=0.0)
    share = tl.where(total == 0.0, 0.0, 1.0 / total)
    largest = tl.where(total == 0.0, 0.0, tl.load(Largest + row, mask=inside, other=0.0))
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    tl.store(Delta + row, delta, mask=inside)
    K, V = keys_of(inputs, batch, head // group)
    own = Stationary(q, do, largest, share, delta, inside)
    dq = tl.zeros([ROW_TILE, D_PADDED], tl.float32)
    for hides in tl.static_range(2):
        if hides == 1 or not ALWAYS_HIDES:
            dq = _add_to_query_gradient(
                dq, own, K, V, inputs, dBias, stretch(edges, hides == 1), rows, scale, mask, backwards, widths,
                KEY_TILE, hides == 1,
            )  # fmt: skip
    dims = tl.arange(0, D_PADDED)
    tl.store(
        dQ + row[:, None] * D + dims[None, :], (dq * softmax_scale).to(dQ.dtype.element_ty),
        mask=inside[:, None] & (dims < D)[None, :],
    )  # fmt: skip


@triton.jit
def _add_to_key_gradients(
    dk, dv, k, v, passing, part, here, head, scale, mask, backwards, widths,
    ROW_TILE: tl.constexpr, HIDES: tl.constexpr,
):  # fmt: skip
    """The loop over positions of the second pass; everything is transposed: keys are rows."""
    MASKED: tl.constexpr = HIDES or widths.D_PADDED != widths.D or widths.W_PADDED != widths.WIDTH
    PRECISION: tl.constexpr = widths.PRECISION
    for step in range(part[0], part[1], ROW_TILE):
        positions = place(step, part, backwards, ROW_TILE) + tl.arange(0, ROW_TILE)
        q, do = _load_tiles(
            passing.Q, passing.dO, positions, passing.q_n, passing.q_d, passing.g_n, passing.g_d, mask.queries,
            widths, MASKED,
        )  # fmt: skip
        if MASKED:
            inside = positions < mask.queries
            total = tl.load(passing.Total + positions, mask=inside, other=0.0)
            share = tl.where(total == 0.0, 0.0, 1.0 / total)
            largest = tl.where(total == 0.0, 0.0, tl.load(passing.Largest + positions, mask=inside, other=0.0))
            delta = tl.load(passing.Delta + positions, mask=inside, other=0.0)
        else:
            share = 1.0 / tl.load(passing.Total + positions)
            largest, delta = tl.load(passing.Largest + positions), tl.load(passing.Delta + positions)
        scores = product(k, tl.trans(q), PRECISION) * scale
        if mask.softcap is not None:
            scores, derivative = cap(scores, mask)
        first, end = ranges_of(positions, mask)
        rows = ScoreRows(positions[None, :], (positions * 0 + head)[None, :], first[None, :], end[None, :])
        if HIDES:
            scores = hide(scores, rows, here[:, None], mask)
        weights = tl.exp2(scores - largest[None, :]) * share[None, :]
        dp = product(v, tl.trans(do), PRECISION)
        p = weights
        if mask.Seed is not None:
            factors = dropout(rows, here[:, None], mask)
            dp *= factors
            p = weights * factors
        dv = add_product(p.to(do.dtype), do, dv, PRECISION)
        ds = weights * (dp - delta[None, :])
        if mask.softcap is not None:
            ds *= derivative
        dk = add_product(ds.to(q.dtype), q, dk, PRECISION)
    return dk, dv


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def key_gradients_kernel(
    Q, K, V, dO, Largest, Total, Delta, dK, dV, RowStart, RowStop,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, g_b, g_h, g_n, g_d,
    turn, kv_heads, group, queries, keys, below, above, scale, softmax_scale,
    First, Stop, range_b, QueryIds, KeyIds, ids_b, key_ids_b, Blocks, blocks_in_row, query_block, key_block,
    Bias, bias_b, bias_h, bias_q, bias_k, Seed, probability, softcap, Sinks,
    KEY_TILE: tl.constexpr, ROW_TILE: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    ALWAYS_HIDES: tl.constexpr, BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
    ALIGN: tl.constexpr, BIAS_ALIGN: tl.constexpr,
):  # fmt: skip
    """Here KEY_TILE keys stay, and ROW_TILE positions pass."""
    q_b, q_h, q_n = aligned((q_b, q_h, q_n), ALIGN)
    k_b, k_h, k_n = aligned((k_b, k_h, k_n), ALIGN)
    v_b, v_h, v_n = aligned((v_b, v_h, v_n), ALIGN)
    g_b, g_h, g_n = aligned((g_b, g_h, g_n), ALIGN)
    bias_b, bias_h, bias_q = aligned((bias_b, bias_h, bias_q), BIAS_ALIGN)
    tiles = tl.cdiv(keys, KEY_TILE)
    tile, program = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    backwards = tl.program_id(0) // turn % 2
    batch, kv_head = (program // kv_heads).to(tl.int64), program % kv_heads
    here = tile * KEY_TILE + tl.arange(0, KEY_TILE)
    same = tl.zeros([KEY_TILE], tl.int32)
    # Positions i with i + below <= j <= i + above for some key j of the tile, and those for which it holds for all.
    last = tl.minimum(tile * KEY_TILE + KEY_TILE, keys) - 1
    start = tl.maximum(tile * KEY_TILE - above, 0) // ROW_TILE * ROW_TILE
    stop = tl.minimum(last + 1 - below, queries)
    whole_start = tl.cdiv(tl.maximum(tile * KEY_TILE + KEY_TILE - 1 - above, 0), ROW_TILE) * ROW_TILE
    whole_stop = tl.minimum(tile * KEY_TILE - below + 1, queries) // ROW_TILE * ROW_TILE
    if First is not None:
        First, Stop = First + batch * range_b, Stop + batch * range_b
        start = tl.maximum(start, tl.load(RowStart + program // kv_heads * tiles + tile) // ROW_TILE * ROW_TILE)
        stop = tl.minimum(stop, tl.load(RowStop + program // kv_heads * tiles + tile))
    mask = Mask(
        batch, queries, keys, below, above, First, Stop,
        None if QueryIds is None else QueryIds + batch * ids_b, None if KeyIds is None else KeyIds + batch * key_ids_b,
        Blocks, blocks_in_row, query_block, key_block,
        None if Bias is None else Bias + batch * bias_b, bias_h, bias_q, bias_k, Seed, probability, softcap, Sinks,
        BOOLEAN, LOG2_E,
    )  # fmt: skip
    widths: tl.constexpr = Widths(D, WIDTH, D_PADDED, W_PADDED, PRECISION)
    inputs = Inputs(Q, K, V, q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d)
    if ALWAYS_HIDES or First is not None:
        whole_start, whole_stop = stop, stop
    else:
        whole_start = tl.maximum(start, tl.minimum(whole_start, tl.cdiv(stop, ROW_TILE) * ROW_TILE))
        whole_stop = tl.maximum(whole_stop, whole_start)
        if tile * KEY_TILE + KEY_TILE > keys:
            whole_start, whole_stop = stop, stop
    K, V = keys_of(inputs, batch, kv_head)
    edges = (start, whole_start, whole_stop, stop)
    k = load_rows(K, here, same, 0, k_n, k_d, keys, D, D_PADDED)
    v = load_rows(V, here, same, 0, v_n, v_d, keys, WIDTH, W_PADDED)
    dk = tl.zeros([KEY_TILE, D_PADDED], tl.float32)
    dv = tl.zeros([KEY_TILE, W_PADDED], tl.float32)
    for of_group in range(group):
        head = kv_head * group + of_group
        row = (batch * kv_heads * group + head) * queries
        for hides in tl.static_range(2):
            if hides == 1 or not (ALWAYS_HIDES or First is not None):
                passing = Passing(
                    Q + batch * q_b + head.to(tl.int64) * q_h, dO + batch * g_b + head.to(tl.int64) * g_h,
                    Largest + row, Total + row, Delta + row, q_n, q_d, g_n, g_d,
                )  # fmt: skip
                dk, dv = _add_to_key_gradients(
                    dk, dv, k, v, passing, stretch(edges, hides == 1), here, head, scale, mask, backwards, widths,
                    ROW_TILE, hides == 1,
                )  # fmt: skip
    written = here < keys
    at = (batch * kv_heads + kv_head) * keys + here
    dims, columns = tl.arange(0, D_PADDED), tl.arange(0, W_PADDED)
    tl.store(
        dK + at[:, None] * D + dims[None, :], (dk * softmax_scale).to(dK.dtype.element_ty),
        mask=written[:, None] & (dims < D)[None, :],
    )  # fmt: skip
    tl.store(
        dV + at[:, None] * WIDTH + columns[None, :], dv.to(dV.dtype.element_ty),
        mask=written[:, None] & (columns < WIDTH)[None, :],
    )  # fmt: skip
