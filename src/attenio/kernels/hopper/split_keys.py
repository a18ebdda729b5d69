"""The dataflow ``split_keys`` on Hopper: few rows and many keys, which are split over blocks.

    for each (sequence, KV head), for each run of keys_per_split keys:
        issue loads of the first STAGES tiles of keys and values; whenever a tile is used up, issue the next
        fold each tile into O and l of all rows of the group, every warp its own keys, with its own largest score
        bring the warps' results to a common maximum and write them
        if all other runs have been written: join them, write O

Loads are by TMA onto an mbarrier. A launch may overlap the end of the one before it (programmatic dependent launch):
whatever an earlier kernel wrote is read after ``gdc_wait`` only.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, mma_v2, tma
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from attenio.kernels.hopper.capping import tanh
from attenio.kernels.hopper.merging import merged_warps, store_run, weighed


@gluon.jit
def _expect(key_full, value_full, slot, wanted, KEY_BYTES: gl.constexpr, VALUE_BYTES: gl.constexpr):
    mbarrier.expect(key_full.index(slot), KEY_BYTES, pred=wanted)
    mbarrier.expect(value_full.index(slot), VALUE_BYTES, pred=wanted)


@gluon.jit
def _issue(K, V, key_ring, value_ring, key_full, value_full, slot, batch, kv_head, key, wanted):
    """Issue loads of one tile of keys and one of values; past the last key there are zeros."""
    at = [batch, kv_head, key, 0]
    tma.async_copy_global_to_shared(K, at, key_full.index(slot), key_ring.index(slot), pred=wanted)
    tma.async_copy_global_to_shared(V, at, value_full.index(slot), value_ring.index(slot), pred=wanted)


@gluon.jit
def _bias_tile(Bias, heads, positions, queries, keys_here, stop, bias_h, bias_q, bias_k, wanted, BY_ROW: gl.constexpr):
    """What is added to a tile of scores, or masks them; one row of it where all rows share it."""
    inside = (keys_here < stop) & wanted
    if BY_ROW:
        at = heads.to(gl.int64) * bias_h + positions.to(gl.int64) * bias_q + keys_here.to(gl.int64) * bias_k
        return gl.load(Bias + at, mask=inside & (positions < queries), other=0)
    else:
        return gl.load(Bias + keys_here.to(gl.int64) * bias_k, mask=inside, other=0)


@gluon.jit
def _write(
    O, Largest, Total, Sinks, acc, largest, total, first_row, batch, kv_head, kv_heads, queries, row_count,
    ROWS: gl.constexpr, PACK: gl.constexpr, WIDTH: gl.constexpr, LOG2_E: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Output and statistics of all rows; ``acc`` (rows, width) has LAYOUT, the statistics its slice."""
    W_PADDED: gl.constexpr = acc.shape[1]
    rows = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    columns = gl.arange(0, W_PADDED, gl.SliceLayout(0, LAYOUT))
    heads, positions = kv_head * PACK + rows % PACK, rows // PACK
    if Sinks is not None:  # a weight more, whose value is zero
        sink = gl.load(Sinks + heads, mask=rows < row_count, other=0.0) * LOG2_E
        higher = gl.maximum(largest, sink)
        anchor = gl.where(higher == float("-inf"), 0.0, higher)
        rescale = gl.exp2(largest - anchor)
        acc, total, largest = acc * rescale[:, None], total * rescale + gl.exp2(sink - anchor), higher
    output = acc / gl.where(total == 0.0, 1.0, total)[:, None]
    at = (gl.cast(batch, gl.int64) * kv_heads * PACK + heads) * queries + positions
    inside = (rows < row_count)[:, None] & (columns < WIDTH)[None, :]
    gl.store(O + (at[:, None] * WIDTH + columns[None, :]), output.to(O.dtype.element_ty), mask=inside)
    gl.store(Largest + at, largest, mask=rows < row_count)
    gl.store(Total + at, total, mask=rows < row_count)


@gluon.jit
def _with_runs(acc, largest, total, parts, tops, totals, OF_ROWS: gl.constexpr):
    """Accumulator, largest and total with those of some runs [run, row, column] folded in."""
    larger = gl.maximum(largest, gl.max(tops, 0))
    anchor = gl.where(larger == float("-inf"), 0.0, larger)
    rescale, faded = gl.exp2(largest - anchor), gl.exp2(tops - gl.expand_dims(anchor, 0))
    total = total * rescale + gl.sum(faded * totals, 0)
    acc = acc * gl.convert_layout(rescale, OF_ROWS)[:, None] + gl.sum(gl.expand_dims(faded, 2) * parts, 0)
    return acc, larger, total


@gluon.jit
def _after_prefix(
    acc, largest, total, PrefixPartial, PrefixStatistics, first_row, row_count,
    batch, kv_head, prefix_rows, prefix_splits, LAYOUT: gl.constexpr, WIDTH: gl.constexpr, AT_ONCE: gl.constexpr,
):  # fmt: skip
    """Results of own keys together with those of the shared prefix, which holds the rows of all sequences."""
    ROWS: gl.constexpr = acc.shape[0]
    BY_ROW: gl.constexpr = gl.SliceLayout(2, LAYOUT)
    OF_ROWS: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(0, LAYOUT))
    rows = first_row + gl.expand_dims(gl.arange(0, ROWS, gl.SliceLayout(0, BY_ROW)), 0)
    split = gl.expand_dims(gl.arange(0, AT_ONCE, gl.SliceLayout(1, BY_ROW)), 1)
    columns = gl.arange(0, acc.shape[1], gl.SliceLayout(0, gl.SliceLayout(1, LAYOUT)))
    columns = gl.expand_dims(gl.expand_dims(columns, 0), 1)
    PrefixStatistics += gl.cast(kv_head, gl.int64) * prefix_splits * 2 * prefix_rows
    PrefixPartial += gl.cast(kv_head, gl.int64) * prefix_splits * prefix_rows * WIDTH
    shared = batch * row_count + rows
    largest = gl.convert_layout(largest, gl.SliceLayout(0, BY_ROW))
    total = gl.convert_layout(total, gl.SliceLayout(0, BY_ROW))
    for start in range(0, prefix_splits, AT_ONCE):
        inside = (start + split < prefix_splits) & (rows < row_count)
        at = PrefixStatistics + (start + split) * (2 * prefix_rows) + shared
        tops = gl.load(at, mask=inside, other=float("-inf"))
        totals = gl.load(at + prefix_rows, mask=inside, other=0.0)
        at = PrefixPartial + gl.expand_dims((start + split) * prefix_rows + shared, 2) * WIDTH + columns
        parts = gl.load(at, mask=gl.expand_dims(inside, 2) & (columns < WIDTH), other=0.0)
        acc, largest, total = _with_runs(acc, largest, total, parts, tops, totals, OF_ROWS)
    return acc, gl.convert_layout(largest, OF_ROWS), gl.convert_layout(total, OF_ROWS)


@gluon.jit
def joined(
    Partial, Statistics, first_row, splits, LAYOUT: gl.constexpr,
    ROWS: gl.constexpr, PART_ROWS: gl.constexpr, W_PADDED: gl.constexpr, AT_ONCE: gl.constexpr, EVEN: gl.constexpr,
):  # fmt: skip
    """Accumulator, largest and total of ROWS rows over all runs, in order; a thread holds all runs of its columns."""
    BY_ROW: gl.constexpr = gl.SliceLayout(2, LAYOUT)
    OF_ROWS: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(0, LAYOUT))
    rows = gl.expand_dims(gl.arange(0, ROWS, gl.SliceLayout(0, BY_ROW)), 0)
    split = gl.expand_dims(gl.arange(0, AT_ONCE, gl.SliceLayout(1, BY_ROW)), 1)
    columns = gl.arange(0, W_PADDED, gl.SliceLayout(0, gl.SliceLayout(1, LAYOUT)))
    columns = gl.expand_dims(gl.expand_dims(columns, 0), 1)
    # What differs between the runs that a thread holds is a constant, and so a part of the load's own address.
    at_statistics = Statistics + (2 * first_row + 2 * rows) + split * (2 * PART_ROWS)
    at_partial = Partial + (gl.expand_dims((first_row + rows) * W_PADDED, 2) + columns)
    at_partial = at_partial + gl.expand_dims(split * (PART_ROWS * W_PADDED), 2)
    largest = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(0, BY_ROW))
    total = gl.full([ROWS], 0.0, gl.float32, gl.SliceLayout(0, BY_ROW))
    acc = gl.zeros([ROWS, W_PADDED], gl.float32, gl.SliceLayout(0, LAYOUT))
    for start in range(0, splits, AT_ONCE):
        if EVEN:
            tops = gl.load(at_statistics, cache_modifier=".cg")
            totals = gl.load(at_statistics + 1, cache_modifier=".cg")
            parts = gl.load(at_partial, cache_modifier=".cg")
        else:
            inside = split < splits - start
            tops = gl.load(at_statistics, mask=inside, other=float("-inf"), cache_modifier=".cg")
            totals = gl.load(at_statistics + 1, mask=inside, other=0.0, cache_modifier=".cg")
            parts = gl.load(at_partial, mask=gl.expand_dims(inside, 2), other=0.0, cache_modifier=".cg")
        acc, largest, total = _with_runs(acc, largest, total, parts, tops, totals, OF_ROWS)
        at_statistics += AT_ONCE * 2 * PART_ROWS
        at_partial += AT_ONCE * PART_ROWS * W_PADDED
    return acc, gl.convert_layout(largest, OF_ROWS), gl.convert_layout(total, OF_ROWS)


# One compiled kernel whatever these numbers are: some change with every token.
_ANY_NUMBER = [
    "q_b", "q_h", "q_n", "kv_heads", "queries", "keys", "first_key", "stop_key", "keys_per_split", "splits",
    "below", "above", "prefix_rows", "prefix_splits", "range_b", "bias_b", "bias_h", "bias_q", "bias_k",
]  # fmt: skip
_ANY_PLACE = ["Q", "Arrived", "First", "Stop", "Bias", "Sinks"]


@gluon.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_PLACE)
def split_keys_kernel(
    K, V, Q, O, Largest, Total, Partial, Statistics, Arrived, PrefixPartial, PrefixStatistics,
    q_b, q_h, q_n,
    kv_heads, queries, keys, first_key, stop_key, keys_per_split, splits, prefix_rows, prefix_splits,
    below, above, scale, inner, First, Stop, range_b, Bias, bias_b, bias_h, bias_q, bias_k, Sinks,
    ROWS: gl.constexpr, KEY_TILE: gl.constexpr, STAGES: gl.constexpr, KEY_WARPS: gl.constexpr, ROW_WARPS: gl.constexpr,
    PACK: gl.constexpr, D: gl.constexpr, WIDTH: gl.constexpr, D_PADDED: gl.constexpr, W_PADDED: gl.constexpr,
    RANGED: gl.constexpr, BOOLEAN: gl.constexpr, BIAS_BY_ROW: gl.constexpr, LOG2_E: gl.constexpr, CAPPED: gl.constexpr,
    PART_ROWS: gl.constexpr, JOINS: gl.constexpr, JOINED_ROWS: gl.constexpr, AT_ONCE: gl.constexpr, EVEN: gl.constexpr,
):  # fmt: skip
    """Keys from ``first_key`` to ``stop_key`` are split; RANGED where rows may see fewer than all of them."""
    element: gl.constexpr = K.dtype
    WARPS: gl.constexpr = KEY_WARPS * ROW_WARPS
    OWN: gl.constexpr = KEY_TILE // KEY_WARPS
    KEY_BYTES: gl.constexpr = KEY_TILE * D_PADDED * 2
    VALUE_BYTES: gl.constexpr = KEY_TILE * W_PADDED * 2
    SCORES: gl.constexpr = gl.NVMMADistributedLayout(
        version=[2, 0], warps_per_cta=[KEY_WARPS, ROW_WARPS, 1], instr_shape=[1, 16, 8]
    )
    LEFT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=SCORES, k_width=2)
    RIGHT: gl.constexpr = gl.DotOperandLayout(operand_index=1, parent=SCORES, k_width=2)
    key_ring = gl.allocate_shared_memory(element, [STAGES, 1, 1, KEY_TILE, D_PADDED], K.layout)
    value_ring = gl.allocate_shared_memory(element, [STAGES, 1, 1, KEY_TILE, W_PADDED], V.layout)
    key_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    value_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(key_full.index(stage), count=1)
        mbarrier.init(value_full.index(stage), count=1)
    fence_async_shared()

    row_count = queries * PACK
    split, batch_head = gl.program_id(0) % splits, gl.program_id(0) // splits
    batch, kv_head = batch_head // kv_heads, batch_head % kv_heads
    start = first_key + split * keys_per_split
    stop = gl.minimum(start + keys_per_split, stop_key)
    tiles = gl.maximum(gl.cdiv(stop - start, KEY_TILE), 0)
    for stage in gl.static_range(STAGES):
        _expect(key_full, value_full, stage, stage < tiles, KEY_BYTES, VALUE_BYTES)
    gdc_wait()
    gdc_launch_dependents()
    for stage in gl.static_range(STAGES):
        key = start + stage * KEY_TILE
        _issue(K, V, key_ring, value_ring, key_full, value_full, stage, batch, kv_head, key, stage < tiles)

    LANES: gl.constexpr = D_PADDED // 8 if D_PADDED < 256 else 32
    LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // LANES, LANES], [WARPS, 1], [1, 0])
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, LOADED))
    columns = gl.arange(0, D_PADDED, gl.SliceLayout(0, LOADED))
    at = (kv_head * PACK + rows % PACK).to(gl.int64) * q_h + (rows // PACK).to(gl.int64) * q_n
    inside = (rows < row_count)[:, None] & (columns < D)[None, :]
    q = gl.load(Q + gl.cast(batch, gl.int64) * q_b + at[:, None] + columns[None, :], mask=inside, other=0.0)
    held = gl.allocate_shared_memory(
        element, [ROWS, D_PADDED], gl.NVMMASharedLayout.get_default_for([ROWS, D_PADDED], element), q
    )
    q = gl.expand_dims(held.load(gl.SliceLayout(0, LEFT)), 0)
    q, _every_warp = gl.broadcast(q, gl.full([KEY_WARPS, 1, 1], 0, element, LEFT))

    OF_ROWS: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(2, SCORES))
    rows = gl.arange(0, ROWS, OF_ROWS)
    positions, heads = rows // PACK, kv_head * PACK + rows % PACK
    if RANGED:
        near = gl.minimum(positions, queries - 1)
        first, end = gl.maximum(near + below, 0), gl.minimum(near + above + 1, keys)
        if First is not None:
            near += batch * range_b
            first = gl.maximum(first, gl.load(First + near).to(gl.int32))
            end = gl.minimum(end, gl.load(Stop + near).to(gl.int32))
        first = gl.expand_dims(gl.expand_dims(first, 0), 2)
        end = gl.expand_dims(gl.expand_dims(end, 0), 2)
    positions = gl.expand_dims(gl.expand_dims(positions, 0), 2)
    heads = gl.expand_dims(gl.expand_dims(heads, 0), 2)
    warps = gl.arange(0, KEY_WARPS, gl.SliceLayout(1, gl.SliceLayout(2, SCORES)))
    own = gl.arange(0, OWN, gl.SliceLayout(0, gl.SliceLayout(1, SCORES)))
    here = gl.expand_dims(gl.expand_dims(warps, 1), 2) * OWN + gl.expand_dims(gl.expand_dims(own, 0), 1)
    here += start
    if Bias is not None:
        Bias += gl.cast(batch, gl.int64) * bias_b
        bias = _bias_tile(Bias, heads, positions, queries, here, stop, bias_h, bias_q, bias_k, tiles > 0, BIAS_BY_ROW)

    largest = gl.full([KEY_WARPS, ROWS], float("-inf"), gl.float32, gl.SliceLayout(2, SCORES))
    total = gl.full([KEY_WARPS, ROWS], 0.0, gl.float32, gl.SliceLayout(2, SCORES))
    acc = gl.zeros([KEY_WARPS, ROWS, W_PADDED], gl.float32, SCORES)
    nothing = gl.zeros([KEY_WARPS, ROWS, OWN], gl.float32, SCORES)
    slot = 0
    phase = 0
    for tile in range(tiles):
        if Bias is not None:
            mine = bias
            bias = _bias_tile(
                Bias, heads, positions, queries, here + KEY_TILE, stop, bias_h, bias_q, bias_k, True, BIAS_BY_ROW
            )
        mbarrier.wait(key_full.index(slot), phase)
        k = key_ring.index(slot).reshape((KEY_WARPS, OWN, D_PADDED)).permute((0, 2, 1)).load(RIGHT)
        scores = mma_v2(q, k, nothing)
        if CAPPED:
            scores = tanh(scores * inner, False)
        scores = scores * scale
        shown = here < stop
        if RANGED:
            shown = shown & (here >= first) & (here < end)
        if Bias is not None:
            if BOOLEAN:
                shown = shown & (mine != 0)
            else:
                scores += mine.to(gl.float32) * LOG2_E
        shown, _like_scores = gl.broadcast(shown, scores)
        scores = gl.where(shown, scores, float("-inf"))
        weights, acc, largest, total = weighed(scores, acc, largest, total)
        weights = gl.convert_layout(weights.to(element), LEFT)
        mbarrier.wait(value_full.index(slot), phase)
        v = value_ring.index(slot).reshape((KEY_WARPS, OWN, W_PADDED)).load(RIGHT)
        acc = mma_v2(weights, v, acc)
        if tile + STAGES < tiles:
            _expect(key_full, value_full, slot, True, KEY_BYTES, VALUE_BYTES)
            key = start + (tile + STAGES) * KEY_TILE
            _issue(K, V, key_ring, value_ring, key_full, value_full, slot, batch, kv_head, key, True)
        here += KEY_TILE
        slot += 1
        if slot == STAGES:
            slot = 0
            phase ^= 1

    OVER_ROWS: gl.constexpr = WARPS if PART_ROWS >= WARPS else PART_ROWS
    WIDE: gl.constexpr = 4 if W_PADDED * OVER_ROWS >= 128 * WARPS else 1
    MERGED: gl.constexpr = gl.BlockedLayout(
        [KEY_WARPS, 1, WIDE], [1, 1, 32], [1, OVER_ROWS, WARPS // OVER_ROWS], [2, 1, 0]
    )
    BY_ROW: gl.constexpr = gl.SliceLayout(0, MERGED)
    merged, merged_largest, merged_total = merged_warps(acc, largest, total, value_ring, ROWS, PART_ROWS, MERGED)
    if JOINS:
        Statistics += gl.cast(batch_head, gl.int64) * splits * (2 * PART_ROWS)
        Partial += gl.cast(batch_head, gl.int64) * splits * (PART_ROWS * W_PADDED)
        store_run(Partial, Statistics, merged, merged_largest, merged_total, split, BY_ROW)
        if gl.atomic_add(Arrived + batch_head, 1, sem="acq_rel") == splits - 1:
            gl.store(Arrived + batch_head, 0)
            OVER: gl.constexpr = WARPS if JOINED_ROWS >= WARPS else JOINED_ROWS
            JOINED: gl.constexpr = gl.BlockedLayout(
                [1, 1, 4 if W_PADDED * OVER >= 128 * WARPS else 1], [1, 1, 32], [1, OVER, WARPS // OVER], [2, 1, 0]
            )
            for first_row in range(0, row_count, JOINED_ROWS):
                all_acc, all_largest, all_total = joined(
                    Partial, Statistics, first_row, splits, JOINED, JOINED_ROWS, PART_ROWS, W_PADDED, AT_ONCE, EVEN
                )
                if PrefixPartial is not None:
                    all_acc, all_largest, all_total = _after_prefix(
                        all_acc, all_largest, all_total, PrefixPartial, PrefixStatistics, first_row, row_count,
                        batch, kv_head, prefix_rows, prefix_splits, JOINED, WIDTH, AT_ONCE,
                    )  # fmt: skip
                _write(
                    O, Largest, Total, Sinks, all_acc, all_largest, all_total, first_row,
                    batch, kv_head, kv_heads, queries, row_count,
                    JOINED_ROWS, PACK, WIDTH, LOG2_E, gl.SliceLayout(0, JOINED),
                )  # fmt: skip
    else:
        if PrefixPartial is not None:
            merged, merged_largest, merged_total = _after_prefix(
                merged, merged_largest, merged_total, PrefixPartial, PrefixStatistics, 0, row_count,
                batch, kv_head, prefix_rows, prefix_splits, MERGED, WIDTH, AT_ONCE,
            )  # fmt: skip
        _write(
            O, Largest, Total, Sinks, merged, merged_largest, merged_total, 0,
            batch, kv_head, kv_heads, queries, row_count, PART_ROWS, PACK, WIDTH, LOG2_E, BY_ROW,
        )  # fmt: skip
