"""Few rows and many keys: keys are split over programs; the last one of a batch x KV head to arrive joins the results.

    for each (sequence, KV head), for each run of keys_per_split keys:
        fold the run into sums of all rows of the group   (``sweep``)
        write the sums;  if all other runs have been written: join them, write O

One launch: the counters that say who is last go back to zero when it is done.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

from attenio.kernels.triton.sweep import load_rows, sweep
from attenio.kernels.triton.visible import ranges_of, stretches


@triton.jit
def _largest_of(largest, Statistics, stride, rows, inside, SPLITS: tl.constexpr):
    for split in tl.static_range(SPLITS):
        theirs = tl.load(Statistics + split * stride + rows, mask=inside, other=float("-inf"), cache_modifier=".cg")
        largest = tl.maximum(largest, theirs)
    return largest


@triton.jit
def _joined(
    sums, total, Sums, Statistics, row_count, anchor, rows, inside,
    SPLITS: tl.constexpr, WIDTH: tl.constexpr, W_PADDED: tl.constexpr,
):  # fmt: skip
    """Parts of one set of splits, brought to a common anchor and added in order: results repeat to the bit."""
    columns = tl.arange(0, W_PADDED)
    wanted = inside[:, None] & (columns < WIDTH)[None, :]
    for split in tl.static_range(SPLITS):
        at = Statistics + 2 * split * row_count + rows
        faded = tl.exp2(tl.load(at, mask=inside, other=float("-inf"), cache_modifier=".cg") - anchor)
        total += faded * tl.load(at + row_count, mask=inside, other=0.0, cache_modifier=".cg")
        part = tl.load(
            Sums + (split * row_count + rows)[:, None] * WIDTH + columns[None, :],
            mask=wanted, other=0.0, cache_modifier=".cg",
        )  # fmt: skip
        sums += faded[:, None] * part
    return sums, total


@triton.jit
def split_keys_kernel(
    Q, K, V, O, Largest, Total, Sums, Statistics, Arrived, PrefixSums, PrefixStatistics,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n,
    kv_heads, queries, keys, skipped, keys_per_split, prefix_rows, below, above, scale,
    First, Stop, range_b, QueryIds, KeyIds, ids_b, key_ids_b, Blocks, blocks_in_row, query_block, key_block,
    Bias, bias_b, bias_h, bias_q, bias_k, Seed, probability,
    ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr, PACK: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    ALWAYS_HIDES: tl.constexpr, BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
    SPLITS: tl.constexpr, PREFIX_SPLITS: tl.constexpr, JOINS: tl.constexpr,
):  # fmt: skip
    """Keys before ``skipped`` belong to a shared prefix, whose sums are given; without JOINS only parts are written."""
    row_count = queries * PACK
    tiles = tl.cdiv(row_count, ROW_TILE)
    split, place = tl.program_id(0) % SPLITS, tl.program_id(0) // SPLITS
    tile, batch_head = place % tiles, place // tiles
    batch, kv_head = (batch_head // kv_heads).to(tl.int64), batch_head % kv_heads
    rows = tile * ROW_TILE + tl.arange(0, ROW_TILE)
    inside = rows < row_count
    positions, heads = rows // PACK, kv_head * PACK + rows % PACK
    if First is not None:
        First, Stop = First + batch * range_b, Stop + batch * range_b
    if QueryIds is not None:
        QueryIds, KeyIds = QueryIds + batch * ids_b, KeyIds + batch * key_ids_b
    if Bias is not None:
        Bias += batch * bias_b
    first, end = ranges_of(positions, queries, keys, below, above, First, Stop)
    run_start = skipped + split * keys_per_split
    first = tl.maximum(first, run_start)
    end = tl.minimum(end, run_start + keys_per_split)
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
                    sums, total, PrefixSums, PrefixStatistics, prefix_rows, anchor, shared, inside,
                    PREFIX_SPLITS, WIDTH, W_PADDED,
                )  # fmt: skip
            sums, total = _joined(
                sums, total, Sums, Statistics, row_count, anchor, rows, inside, SPLITS, WIDTH, W_PADDED
            )
            output = sums / tl.where(total == 0.0, 1.0, total)[:, None]
            row_at = O + batch * o_b + heads[:, None].to(tl.int64) * o_h + positions[:, None].to(tl.int64) * o_n
            tl.store(row_at + columns[None, :], output.to(O.dtype.element_ty), mask=inside_tile)
            row = (batch * kv_heads * PACK + heads) * queries + positions
            tl.store(Largest + row, largest, mask=inside)
            tl.store(Total + row, total, mask=inside)
