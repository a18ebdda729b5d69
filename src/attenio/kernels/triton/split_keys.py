"""Few rows and many keys: keys are split over programs; the last one of a batch x KV head to arrive joins the results.

    for each (sequence, KV head), for each run of keys_per_split keys:
        fold the run into sums of all rows of the group   (``sweep``)
        write the sums;  if all other runs have been written: join them, write O

One launch: the counters that say who is last go back to zero when it is done.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

from attenio.kernels.triton.sweep import Inputs, Output, Run, epilogue, sweep
from attenio.kernels.triton.visible import PLAIN_NUMBERS, Mask, Widths, aligned


@triton.jit
def _largest_of(largest, Statistics, stride, rows, inside, SPLITS: tl.constexpr):
    for split in tl.static_range(SPLITS):
        theirs = tl.load(Statistics + split * stride + rows, mask=inside, other=float("-inf"), cache_modifier=".cg")
        largest = tl.maximum(largest, theirs)
    return largest


@triton.jit
def _joined(sums, total, Sums, Statistics, row_count, anchor, rows, inside, widths, SPLITS: tl.constexpr):
    """Parts of one set of splits, brought to a common anchor and added in order: results repeat to the bit."""
    columns = tl.arange(0, widths.W_PADDED)
    wanted = inside[:, None] & (columns < widths.WIDTH)[None, :]
    for split in tl.static_range(SPLITS):
        at = Statistics + 2 * split * row_count + rows
        faded = tl.exp2(tl.load(at, mask=inside, other=float("-inf"), cache_modifier=".cg") - anchor)
        total += faded * tl.load(at + row_count, mask=inside, other=0.0, cache_modifier=".cg")
        part = tl.load(
            Sums + (split * row_count + rows)[:, None] * widths.WIDTH + columns[None, :],
            mask=wanted, other=0.0, cache_modifier=".cg",
        )  # fmt: skip
        sums += faded[:, None] * part
    return sums, total


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def split_keys_kernel(
    Q, K, V, O, Largest, Total, Sums, Statistics, Arrived, PrefixSums, PrefixStatistics,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n,
    kv_heads, queries, keys, skipped, keys_per_split, prefix_rows, below, above, scale,
    First, Stop, range_b, QueryIds, KeyIds, ids_b, key_ids_b, Blocks, blocks_in_row, query_block, key_block,
    Bias, bias_b, bias_h, bias_q, bias_k, Seed, probability, softcap, Sinks,
    ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr, PACK: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    ALWAYS_HIDES: tl.constexpr, BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
    ALIGN: tl.constexpr, BIAS_ALIGN: tl.constexpr,
    SPLITS: tl.constexpr, PREFIX_SPLITS: tl.constexpr, JOINS: tl.constexpr,
):  # fmt: skip
    """Keys before ``skipped`` belong to a shared prefix, whose sums are given; without JOINS only parts are written."""
    q_b, q_h, q_n = aligned((q_b, q_h, q_n), ALIGN)
    k_b, k_h, k_n = aligned((k_b, k_h, k_n), ALIGN)
    v_b, v_h, v_n = aligned((v_b, v_h, v_n), ALIGN)
    o_b, o_h, o_n = aligned((o_b, o_h, o_n), ALIGN)
    bias_b, bias_h, bias_q = aligned((bias_b, bias_h, bias_q), BIAS_ALIGN)
    row_count = queries * PACK
    tiles = tl.cdiv(row_count, ROW_TILE)
    split, place = tl.program_id(0) % SPLITS, tl.program_id(0) // SPLITS
    tile, batch_head = place % tiles, place // tiles
    batch, kv_head = (batch_head // kv_heads).to(tl.int64), batch_head % kv_heads
    rows = tile * ROW_TILE + tl.arange(0, ROW_TILE)
    inside = rows < row_count
    positions, heads = rows // PACK, kv_head * PACK + rows % PACK
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
    sums, _, largest, total = sweep(
        inputs, kv_head, positions, heads, Run(skipped, split, keys_per_split), scale, mask, 0, widths,
        KEY_TILE, ALWAYS_HIDES,
    )  # fmt: skip
    columns = tl.arange(0, W_PADDED)
    Statistics += batch_head.to(tl.int64) * SPLITS * 2 * row_count
    Sums += batch_head.to(tl.int64) * SPLITS * row_count * WIDTH
    tl.store(Statistics + 2 * split * row_count + rows, largest, mask=inside)
    tl.store(Statistics + (2 * split + 1) * row_count + rows, total, mask=inside)
    part_at = Sums + (split * row_count + rows)[:, None] * WIDTH + columns[None, :]
    inside_tile = inside[:, None] & (columns < WIDTH)[None, :]
    tl.store(part_at, sums, mask=inside_tile)
    if JOINS:
        tl.debug_barrier()
        if tl.atomic_add(Arrived + place, 1, sem="acq_rel") == SPLITS - 1:
            tl.store(Arrived + place, 0)
            anchor = _largest_of(
                tl.full([ROW_TILE], float("-inf"), tl.float32), Statistics, 2 * row_count, rows, inside, SPLITS
            )
            if PrefixSums is not None:
                shared = batch.to(tl.int32) * row_count + rows
                PrefixStatistics += kv_head.to(tl.int64) * PREFIX_SPLITS * 2 * prefix_rows
                PrefixSums += kv_head.to(tl.int64) * PREFIX_SPLITS * prefix_rows * WIDTH
                anchor = _largest_of(anchor, PrefixStatistics, 2 * prefix_rows, shared, inside, PREFIX_SPLITS)
            largest = anchor
            anchor = tl.where(anchor == float("-inf"), 0.0, anchor)
            sums = tl.zeros([ROW_TILE, W_PADDED], tl.float32)
            total = tl.zeros([ROW_TILE], tl.float32)
            if PrefixSums is not None:
                sums, total = _joined(
                    sums, total, PrefixSums, PrefixStatistics, prefix_rows, anchor, shared, inside, widths,
                    PREFIX_SPLITS,
                )  # fmt: skip
            sums, total = _joined(sums, total, Sums, Statistics, row_count, anchor, rows, inside, widths, SPLITS)
            epilogue(
                Output(O, Largest, Total, o_b, o_h, o_n), sums, None, largest, total, positions, heads, inside,
                kv_heads, mask, widths, PACK,
            )  # fmt: skip
