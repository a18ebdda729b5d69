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

from attenio.kernels.triton.sweep import Inputs, Output, epilogue, sweep
from attenio.kernels.triton.visible import PLAIN_NUMBERS, Mask, Widths, aligned


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def attenio_kernel(
    Q, K, V, O, Largest, Total,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n,
    turn, kv_heads, heads_in_group, queries, keys, below, above, scale,
    First, Stop, range_b, QueryIds, KeyIds, ids_b, key_ids_b, Blocks, blocks_in_row, query_block, key_block,
    Bias, bias_b, bias_h, bias_q, bias_k, Seed, probability, softcap, Sinks,
    ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr, PACK: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    ALWAYS_HIDES: tl.constexpr, BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
    ALIGN: tl.constexpr, BIAS_ALIGN: tl.constexpr, D_BEYOND: tl.constexpr, W_BEYOND: tl.constexpr,
):  # fmt: skip
    q_b, q_h, q_n = aligned((q_b, q_h, q_n), ALIGN)
    k_b, k_h, k_n = aligned((k_b, k_h, k_n), ALIGN)
    v_b, v_h, v_n = aligned((v_b, v_h, v_n), ALIGN)
    o_b, o_h, o_n = aligned((o_b, o_h, o_n), ALIGN)
    bias_b, bias_h, bias_q = aligned((bias_b, bias_h, bias_q), BIAS_ALIGN)
    tiles = tl.cdiv(queries * PACK, ROW_TILE)
    tile, batch_head = tiles - 1 - tl.program_id(0) % tiles, tl.program_id(0) // tiles
    backwards = tl.program_id(0) // turn % 2
    heads_in_all = kv_heads * heads_in_group
    batch, kv_head = (batch_head // heads_in_all).to(tl.int64), (batch_head % heads_in_all) // heads_in_group
    lead = (batch_head % heads_in_all) * PACK  # the first query head of the program
    rows = tile * ROW_TILE + tl.arange(0, ROW_TILE)
    positions, heads = rows // PACK, lead + rows % PACK
    mask = Mask(
        batch, queries, keys, below, above,
        None if First is None else First + batch * range_b, None if Stop is None else Stop + batch * range_b,
        None if QueryIds is None else QueryIds + batch * ids_b, None if KeyIds is None else KeyIds + batch * key_ids_b,
        Blocks, blocks_in_row, query_block, key_block,
        None if Bias is None else Bias + batch * bias_b, bias_h, bias_q, bias_k, Seed, probability, softcap, Sinks,
        BOOLEAN, LOG2_E,
    )  # fmt: skip
    widths: tl.constexpr = Widths(D, WIDTH, D_PADDED, W_PADDED, PRECISION, D_BEYOND, W_BEYOND)
    inputs = Inputs(Q, K, V, q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d)
    sums, beyond, largest, total = sweep(
        inputs, kv_head, positions, heads, None, scale, mask, backwards, widths, KEY_TILE, ALWAYS_HIDES
    )
    epilogue(
        Output(O, Largest, Total, o_b, o_h, o_n), sums, beyond, largest, total, positions, heads,
        positions < queries, heads_in_all, mask, widths, PACK,
    )  # fmt: skip
