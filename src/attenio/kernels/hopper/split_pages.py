"""The dataflow ``split_keys`` on Hopper for keys in pages: one new token of each request, whose pages are its own.

    for each request, for each run of its keys, for each KV head:
        find the pages of the first STAGES tiles and issue their loads; whenever a tile is used up, issue the next,
        whose page was looked up one tile before
        fold each tile into O and l of all heads of the group, every warp its own keys, with its own largest score
        bring the warps' results to a common maximum and write them
        if all other runs have been written: join them, write O

A tile of keys is a page or a part of one. Programs of the KV heads of a run follow each other: their keys lie side by
side in a page. Lengths and tables are read on the GPU alone; a page that is not there makes NaN of its rows.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, mma_v2, tma
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from attenio.kernels.hopper.merging import merged_warps, store_run, weighed
from attenio.kernels.hopper.split_keys import joined


@gluon.jit
def _page_at(table, key, stop, PAGE: gl.constexpr):
    """The page of a key, or of the last one before ``stop``; the first page where there is no key."""
    return gl.load(table + gl.maximum(gl.minimum(key, stop - 1), 0) // PAGE)


@gluon.jit
def _issue(K, V, rings, full, slot, page, page_count, key, kv_head, wanted, PAGE: gl.constexpr):
    """Issue loads of one tile of keys and one of values, from a page that is there."""
    at = [gl.minimum(gl.maximum(page, 0), page_count - 1), key % PAGE, kv_head, 0]
    tma.async_copy_global_to_shared(K, at, full[0].index(slot), rings[0].index(slot), pred=wanted)
    tma.async_copy_global_to_shared(V, at, full[1].index(slot), rings[1].index(slot), pred=wanted)


@gluon.jit
def _expect(full, slot, wanted, KEY_BYTES: gl.constexpr, VALUE_BYTES: gl.constexpr):
    mbarrier.expect(full[0].index(slot), KEY_BYTES, pred=wanted)
    mbarrier.expect(full[1].index(slot), VALUE_BYTES, pred=wanted)


@gluon.jit
def _write(
    O, Lse, Sinks, acc, largest, total, request, kv_head, kv_heads,
    ROWS: gl.constexpr, PACK: gl.constexpr, WIDTH: gl.constexpr, LOG2_E: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Output and natural log-sum-exp of all heads of the group, their sinks among the weights."""
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    columns = gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    heads, inside = kv_head * PACK + rows, rows < PACK
    if Sinks is not None:  # a weight more, whose value is zero
        sink = gl.load(Sinks + heads, mask=inside, other=0.0) * LOG2_E
        higher = gl.maximum(largest, sink)
        anchor = gl.where(higher == float("-inf"), 0.0, higher)
        rescale = gl.exp2(largest - anchor)
        acc, total, largest = acc * rescale[:, None], total * rescale + gl.exp2(sink - anchor), higher
    weights = gl.where(total == 0.0, 1.0, total)
    at = gl.cast(request, gl.int64) * kv_heads * PACK + heads
    stored = (acc / weights[:, None]).to(O.dtype.element_ty)
    gl.store(O + (at[:, None] * WIDTH + columns[None, :]), stored, mask=inside[:, None] & (columns < WIDTH)[None, :])
    lse = gl.where(total == 0.0, float("-inf"), (largest + gl.log2(weights)) / LOG2_E)
    gl.store(Lse + at, lse, mask=inside)


# One compiled kernel whatever these numbers are: they change with requests and tokens.
_ANY_NUMBER = ["q_t", "q_h", "table_r", "kv_heads", "page_count", "places", "splits"]
_ANY_PLACE = ["Q", "Arrived", "Table", "Lengths", "Sinks"]


@gluon.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_PLACE)
def split_pages_kernel(
    K, V, Q, O, Lse, Partial, Statistics, Arrived, Table, Lengths, Sinks,
    q_t, q_h, table_r, kv_heads, page_count, places, splits, scale,
    ROWS: gl.constexpr, KEY_TILE: gl.constexpr, STAGES: gl.constexpr, KEY_WARPS: gl.constexpr, PAGE: gl.constexpr,
    PACK: gl.constexpr, D: gl.constexpr, WIDTH: gl.constexpr, D_PADDED: gl.constexpr, W_PADDED: gl.constexpr,
    LOG2_E: gl.constexpr, PART_ROWS: gl.constexpr, JOINS: gl.constexpr, AT_ONCE: gl.constexpr, EVEN: gl.constexpr,
):  # fmt: skip
    """Rows are the heads of a group; runs of a request are whole tiles."""
    element: gl.constexpr = K.dtype
    OWN: gl.constexpr = KEY_TILE // KEY_WARPS
    KEY_BYTES: gl.constexpr = KEY_TILE * D_PADDED * 2
    VALUE_BYTES: gl.constexpr = KEY_TILE * W_PADDED * 2
    SCORES: gl.constexpr = gl.NVMMADistributedLayout(
        version=[2, 0], warps_per_cta=[KEY_WARPS, 1, 1], instr_shape=[1, 16, 8]
    )
    LEFT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=SCORES, k_width=2)
    RIGHT: gl.constexpr = gl.DotOperandLayout(operand_index=1, parent=SCORES, k_width=2)
    key_ring = gl.allocate_shared_memory(element, [STAGES, 1, KEY_TILE, 1, D_PADDED], K.layout)
    value_ring = gl.allocate_shared_memory(element, [STAGES, 1, KEY_TILE, 1, W_PADDED], V.layout)
    key_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    value_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(key_full.index(stage), count=1)
        mbarrier.init(value_full.index(stage), count=1)
    fence_async_shared()
    rings, full = (key_ring, value_ring), (key_full, value_full)

    kv_head, place = gl.program_id(0) % kv_heads, gl.program_id(0) // kv_heads
    split, request = place % splits, place // splits
    gdc_wait()
    gdc_launch_dependents()
    given = gl.load(Lengths + request)
    length = gl.minimum(gl.maximum(given, 0), places * PAGE)
    run = gl.cdiv(gl.cdiv(length, KEY_TILE), splits) * KEY_TILE
    start = split * run
    stop = gl.minimum(start + run, length)
    tiles = gl.maximum(gl.cdiv(stop - start, KEY_TILE), 0)
    table = Table + gl.cast(request, gl.int64) * table_r
    bad = 0
    for stage in gl.static_range(STAGES):
        _expect(full, stage, stage < tiles, KEY_BYTES, VALUE_BYTES)
        key = start + stage * KEY_TILE
        page = _page_at(table, key, stop, PAGE)
        bad = gl.where((stage < tiles) & ((page < 0) | (page >= page_count)), 1, bad)
        _issue(K, V, rings, full, stage, page, page_count, key, kv_head, stage < tiles, PAGE)
    ahead = _page_at(table, start + STAGES * KEY_TILE, stop, PAGE)

    LANES: gl.constexpr = D_PADDED // 8 if D_PADDED < 256 else 32
    LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // LANES, LANES], [KEY_WARPS, 1], [1, 0])
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, LOADED))
    columns = gl.arange(0, D_PADDED, gl.SliceLayout(0, LOADED))
    at = gl.cast(request, gl.int64) * q_t + (kv_head * PACK + rows).to(gl.int64) * q_h
    inside = (rows < PACK)[:, None] & (columns < D)[None, :]
    q = gl.load(Q + at[:, None] + columns[None, :], mask=inside, other=0.0)
    held = gl.allocate_shared_memory(
        element, [ROWS, D_PADDED], gl.NVMMASharedLayout.get_default_for([ROWS, D_PADDED], element), q
    )
    q = gl.expand_dims(held.load(gl.SliceLayout(0, LEFT)), 0)
    q, _every_warp = gl.broadcast(q, gl.full([KEY_WARPS, 1, 1], 0, element, LEFT))

    warps = gl.arange(0, KEY_WARPS, gl.SliceLayout(1, gl.SliceLayout(2, SCORES)))
    own = gl.arange(0, OWN, gl.SliceLayout(0, gl.SliceLayout(1, SCORES)))
    here = gl.expand_dims(gl.expand_dims(warps, 1), 2) * OWN + gl.expand_dims(gl.expand_dims(own, 0), 1)
    here += start
    # Values past the last key may be anything, and nothing times NaN would be NaN.
    VALUE_KEYS: gl.constexpr = gl.SliceLayout(2, RIGHT)
    v_warps = gl.expand_dims(gl.arange(0, KEY_WARPS, gl.SliceLayout(1, VALUE_KEYS)), 1)
    v_here = v_warps * OWN + gl.expand_dims(gl.arange(0, OWN, gl.SliceLayout(0, VALUE_KEYS)), 0)
    largest = gl.full([KEY_WARPS, ROWS], float("-inf"), gl.float32, gl.SliceLayout(2, SCORES))
    total = gl.full([KEY_WARPS, ROWS], 0.0, gl.float32, gl.SliceLayout(2, SCORES))
    acc = gl.zeros([KEY_WARPS, ROWS, W_PADDED], gl.float32, SCORES)
    nothing = gl.zeros([KEY_WARPS, ROWS, OWN], gl.float32, SCORES)
    slot = 0
    phase = 0
    for tile in range(tiles):
        mbarrier.wait(key_full.index(slot), phase)
        k = key_ring.index(slot).reshape((KEY_WARPS, OWN, D_PADDED)).permute((0, 2, 1)).load(RIGHT)
        scores = mma_v2(q, k, nothing) * scale
        is_last = start + (tile + 1) * KEY_TILE > stop
        if is_last:
            shown, _like_scores = gl.broadcast(here < stop, scores)
            scores = gl.where(shown, scores, float("-inf"))
        weights, acc, largest, total = weighed(scores, acc, largest, total)
        weights = gl.convert_layout(weights.to(element), LEFT)
        mbarrier.wait(value_full.index(slot), phase)
        v = value_ring.index(slot).reshape((KEY_WARPS, OWN, W_PADDED)).load(RIGHT)
        if is_last:
            wanted, _like_values = gl.broadcast(gl.expand_dims(v_here < stop - start - tile * KEY_TILE, 2), v)
            v = gl.where(wanted, v, gl.full([KEY_WARPS, OWN, W_PADDED], 0.0, element, RIGHT))
        acc = mma_v2(weights, v, acc)
        if tile + STAGES < tiles:
            _expect(full, slot, True, KEY_BYTES, VALUE_BYTES)
            key = start + (tile + STAGES) * KEY_TILE
            bad = gl.where((ahead < 0) | (ahead >= page_count), 1, bad)
            _issue(K, V, rings, full, slot, ahead, page_count, key, kv_head, True, PAGE)
            ahead = _page_at(table, key + KEY_TILE, stop, PAGE)
        here += KEY_TILE
        slot += 1
        if slot == STAGES:
            slot = 0
            phase ^= 1

    OVER_ROWS: gl.constexpr = KEY_WARPS if PART_ROWS >= KEY_WARPS else PART_ROWS
    WIDE: gl.constexpr = 4 if W_PADDED * OVER_ROWS >= 128 * KEY_WARPS else 1
    MERGED: gl.constexpr = gl.BlockedLayout(
        [KEY_WARPS, 1, WIDE], [1, 1, 32], [1, OVER_ROWS, KEY_WARPS // OVER_ROWS], [2, 1, 0]
    )
    BY_ROW: gl.constexpr = gl.SliceLayout(0, MERGED)
    merged, merged_largest, merged_total = merged_warps(acc, largest, total, value_ring, ROWS, PART_ROWS, MERGED)
    merged_total = gl.where((bad != 0) | (given != length), float("nan"), merged_total)
    if JOINS:
        batch_head = request * kv_heads + kv_head
        Statistics += gl.cast(batch_head, gl.int64) * splits * (2 * PART_ROWS)
        Partial += gl.cast(batch_head, gl.int64) * splits * (PART_ROWS * W_PADDED)
        store_run(Partial, Statistics, merged, merged_largest, merged_total, split, BY_ROW)
        if gl.atomic_add(Arrived + batch_head, 1, sem="acq_rel") == splits - 1:
            gl.store(Arrived + batch_head, 0)
            JOINED: gl.constexpr = gl.BlockedLayout(
                [1, 1, WIDE], [1, 1, 32], [1, OVER_ROWS, KEY_WARPS // OVER_ROWS], [2, 1, 0]
            )
            all_acc, all_largest, all_total = joined(
                Partial, Statistics, 0, splits, JOINED, PART_ROWS, PART_ROWS, W_PADDED, AT_ONCE, EVEN
            )
            _write(
                O, Lse, Sinks, all_acc, all_largest, all_total, request, kv_head, kv_heads,
                PART_ROWS, PACK, WIDTH, LOG2_E, gl.SliceLayout(0, JOINED),
            )  # fmt: skip
    else:
        _write(
            O, Lse, Sinks, merged, merged_largest, merged_total, request, kv_head, kv_heads,
            PART_ROWS, PACK, WIDTH, LOG2_E, BY_ROW,
        )  # fmt: skip
