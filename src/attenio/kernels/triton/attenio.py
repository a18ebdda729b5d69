"""Query-stationary attention: a program keeps a tile of rows, keys pass, the output is written once.

    for each head, for each tile i of ROW_TILE positions (the longest first):
        for each tile j of keys that a row of the tile may see:  fold K_j, V_j into O_i   (``sweep``)
        write O_i / l_i, m_i, l_i

Tiles of one head follow each other, so that programs that run together read the same keys out of L2. Where keys do not
fit there, every other ``turn`` programs, as many as run at once, walk backwards and first meet what the last ones left.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

from attenio.kernels.triton.sweep import load_rows, sweep
from attenio.kernels.triton.visible import ranges_of, stretches


@triton.jit(do_not_specialize=["turn"])
def attenio_kernel(
    Q, K, V, O, Largest, Total,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n,
    turn, kv_heads, heads_in_group, queries, keys, below, above, scale,
    First, Stop, range_b, QueryIds, KeyIds, ids_b, key_ids_b, Blocks, blocks_in_row, query_block, key_block,
    Bias, bias_b, bias_h, bias_q, bias_k, Seed, probability,
    ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr, PACK: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    ALWAYS_HIDES: tl.constexpr, BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(queries * PACK, ROW_TILE)
    tile, batch_head = tiles - 1 - tl.program_id(0) % tiles, tl.program_id(0) // tiles
    backwards = tl.program_id(0) // turn % 2
    heads_in_all = kv_heads * heads_in_group
    batch, kv_head = (batch_head // heads_in_all).to(tl.int64), (batch_head % heads_in_all) // heads_in_group
    lead = (batch_head % heads_in_all) * PACK  # the first query head of the batch_head
    rows = tile * ROW_TILE + tl.arange(0, ROW_TILE)
    positions, heads = rows // PACK, lead + rows % PACK
    if First is not None:
        First, Stop = First + batch * range_b, Stop + batch * range_b
    if QueryIds is not None:
        QueryIds, KeyIds = QueryIds + batch * ids_b, KeyIds + batch * key_ids_b
    if Bias is not None:
        Bias += batch * bias_b
    first, end = ranges_of(positions, queries, keys, below, above, First, Stop)
    start, whole_start, whole_stop, stop = stretches(first, end, KEY_TILE, ALWAYS_HIDES)
    q = load_rows(Q + batch * q_b, positions, heads, q_h, q_n, q_d, queries, D, D_PADDED)
    K += batch * k_b + kv_head.to(tl.int64) * k_h
    V += batch * v_b + kv_head.to(tl.int64) * v_h
    sums = tl.zeros([ROW_TILE, W_PADDED], tl.float32)
    largest = tl.full([ROW_TILE], float("-inf"), tl.float32)
    total = tl.zeros([ROW_TILE], tl.float32)
    for part in tl.static_range(3):
        if part == 0:
            here, there = start, tl.minimum(whole_start, stop)
        elif part == 1:
            here, there = whole_start, whole_stop
        else:
            here, there = whole_stop, stop
        if part == 0 or not ALWAYS_HIDES:
            sums, largest, total = sweep(
                sums, largest, total, q, K, V, here, there,
                positions, heads, first, end, queries, keys, k_n, k_d, v_n, v_d, scale,
                QueryIds, KeyIds, Blocks, blocks_in_row, query_block, key_block, Bias, bias_h, bias_q, bias_k,
                Seed, batch.to(tl.int32), probability,
                KEY_TILE, D, WIDTH, D_PADDED, W_PADDED, part != 1, BOOLEAN, LOG2_E, PRECISION,
                backwards,
            )  # fmt: skip
    output = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    columns = tl.arange(0, W_PADDED)
    at = O + batch * o_b + heads[:, None].to(tl.int64) * o_h + positions[:, None].to(tl.int64) * o_n + columns[None, :]
    inside_tile = (positions < queries)[:, None] & (columns < WIDTH)[None, :]
    tl.store(at, output.to(O.dtype.element_ty), mask=inside_tile)
    row = (batch * heads_in_all * PACK + heads) * queries + positions
    tl.store(Largest + row, largest, mask=positions < queries)
    tl.store(Total + row, total, mask=positions < queries)
