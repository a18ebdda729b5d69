"""Runs of pages on Hopper, for the rows of all requests that share them: the page table is read by the producer.

    for each item of a list (tokens, pages from first to stop) and KV head:
        producer:    for each key tile: find its pages, load K_j, then V_j, page by page
        consumer c:  rows 64 c .. 64 c + 63: tokens times heads of the group
            S = Q K_0^T;  P = softmax step
            for j = 1 ..:  issue S' = Q K_j^T;  issue O += P V_{j-1};  wait S';  softmax step of S' while O is computed
            O += P V_last;  write O, largest and total of the item

Keys and values lie in shared memory as panels of 64 columns, in which pages follow each other as rows of one tile do:
a product takes a tile of several pages whole. What items of a token gave is merged by another kernel.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, assignment"

from collections import namedtuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from attenio.kernels.hopper.online_softmax import rescaled, row_sums, softmax_step, thread_sums
from attenio.kernels.hopper.producer import ROWS, Barriers, advanced, ring_barriers

# Columns of a panel: those of one row of a swizzled tile of 16-bit numbers.
PANEL = gl.constexpr(64)
# Pages that are looked at together for ones that are not there.
_CHECKED = gl.constexpr(128)

# An item: its tokens, the keys and the row of the table, where its results go, and its KV head.
Item = namedtuple("Item", "tokens count table first stop slot kv_head")
# Tensors and numbers of a call; strides of queries are in units of 16 bytes.
Call = namedtuple("Call", "Q Sums Statistics q_t q_h heads page_count scale_log2")
# Panels of queries, keys and values in shared memory; RIGHT is LEFT where there is one panel.
Panels = namedtuple("Panels", "q_left q_right k_left k_right v_left v_right")
Edges = namedtuple("Edges", "first stop whole_start whole_stop")
Shape = namedtuple("Shape", "KEY_TILE STAGES D PAGE PIECE PACK HELD MASKED BELOW")


@gluon.jit
def _pages_of(item, key, shape):
    """Pages of a tile, kept within those that are there; past the run they are its last."""
    pages = ()
    for piece in gl.static_range(shape.KEY_TILE // shape.PIECE):
        at = gl.minimum(key + piece * shape.PIECE, item.stop - shape.PIECE)
        pages = pages + (gl.load(item.table + at // shape.PAGE),)  # noqa: RUF005 - as Gluon takes it
    return pages


@gluon.jit
def _load_pages(pool, left, right, full, stage, item, key, pages, page_count, shape):
    """Issue the loads of a tile of keys or values, page by page."""
    mbarrier.expect(full.index(stage), shape.KEY_TILE * shape.D * 2)
    for piece in gl.static_range(shape.KEY_TILE // shape.PIECE):
        within = gl.minimum(key + piece * shape.PIECE, item.stop - shape.PIECE) % shape.PAGE
        page = gl.minimum(gl.maximum(pages[piece], 0), page_count - 1)
        rows = left.index(stage).slice(piece * shape.PIECE, shape.PIECE, 1)
        tma.async_copy_global_to_shared(pool, [page, within, item.kv_head, 0], full.index(stage), rows)
        if shape.D > PANEL:
            rows = right.index(stage).slice(piece * shape.PIECE, shape.PIECE, 1)
            tma.async_copy_global_to_shared(pool, [page, within, item.kv_head, PANEL], full.index(stage), rows)


@gluon.jit
def _producer(keys, values, panels, barriers, item, call, shape):
    """Keeps the rings of key and value tiles full; the table is read while a stage is waited for."""
    stage, phase = 0, 1
    for key in range(item.first, item.stop, shape.KEY_TILE):
        pages = _pages_of(item, key, shape)
        mbarrier.wait(barriers.k_free.index(stage), phase)
        _load_pages(
            keys, panels.k_left, panels.k_right, barriers.k_full, stage, item, key, pages, call.page_count, shape
        )  # fmt: skip
        mbarrier.wait(barriers.v_free.index(stage), phase)
        _load_pages(
            values, panels.v_left, panels.v_right, barriers.v_full, stage, item, key, pages, call.page_count, shape
        )  # fmt: skip
        stage, phase = advanced(stage, phase, shape.STAGES)


@gluon.jit
def _has_bad_pages(item, page_count, shape):
    """Whether the table leads outside of the pages that there are."""
    AT_ONCE: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    bad = 0
    stop = gl.cdiv(item.stop, shape.PAGE)
    for first in range(item.first // shape.PAGE, stop, _CHECKED):
        places = first + gl.arange(0, _CHECKED, AT_ONCE)
        page = gl.load(item.table + places, mask=places < stop, other=0)
        bad = bad | gl.max(((page < 0) | (page >= page_count)).to(gl.int32), 0)
    return bad


@gluon.jit
def _fill(call, item, target, row, COLUMN: gl.constexpr, shape):
    """Queries of 64 rows, 64 of their columns, into shared memory."""
    LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, LOADED))
    columns = COLUMN + gl.arange(0, PANEL, gl.SliceLayout(0, LOADED))
    inside = rows < item.count * shape.PACK
    tokens = gl.load(item.tokens + rows // shape.PACK, mask=inside, other=0).to(gl.int64)
    heads = (item.kv_head * shape.PACK + rows % shape.PACK).to(gl.int64)
    at = call.Q + ((tokens * call.q_t + heads * call.q_h) * 8)[:, None] + columns[None, :]
    target.store(gl.load(at, mask=inside[:, None], other=0.0))


@gluon.jit
def _issue_scores(q_left, q_right, panels, stage, zeros, shape):
    """Issue S = Q K^T of the tile in a stage."""
    k = panels.k_left.index(stage).reshape([shape.KEY_TILE, PANEL]).permute((1, 0))
    scores = warpgroup_mma(q_left, k, zeros, use_acc=False, is_async=True)
    if shape.D > PANEL:
        k = panels.k_right.index(stage).reshape([shape.KEY_TILE, PANEL]).permute((1, 0))
        scores = warpgroup_mma(q_right, k, scores, is_async=True)
    return scores


@gluon.jit
def _store(call, item, acc, rows, COLUMN: gl.constexpr, O_LAYOUT: gl.constexpr, shape):
    """Sums of 64 columns, not divided yet."""
    columns = COLUMN + gl.arange(0, PANEL, gl.SliceLayout(0, O_LAYOUT))
    at = gl.cast(item.slot + rows // shape.PACK, gl.int64) * call.heads + item.kv_head * shape.PACK + rows % shape.PACK
    inside = (rows < item.count * shape.PACK)[:, None]
    gl.store(call.Sums + at[:, None] * shape.D + columns[None, :], acc, mask=inside)


@gluon.jit
def _consumer(panels, barriers, item, call, shape, ME: gl.constexpr):
    """Computes 64 rows of an item."""
    KEY_TILE: gl.constexpr = shape.KEY_TILE
    element: gl.constexpr = panels.q_left.dtype
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEY_TILE, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, PANEL, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    R_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    C_LAYOUT: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)
    OF_ROWS: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    WIDE: gl.constexpr = shape.D > PANEL
    PRODUCTS: gl.constexpr = 2 if WIDE else 1
    LAZY: gl.constexpr = KEY_TILE <= shape.D
    row = ME * ROWS
    q_left, q_right = panels.q_left.index(ME), panels.q_right.index(ME)
    _fill(call, item, q_left, row, 0, shape)
    if WIDE:
        _fill(call, item, q_right, row, PANEL, shape)
    fence_async_shared()
    bad = _has_bad_pages(item, call.page_count, shape)
    if shape.HELD:
        q_left = q_left.load(gl.DotOperandLayout(0, S_LAYOUT, 2))
        if WIDE:
            q_right = q_right.load(gl.DotOperandLayout(0, S_LAYOUT, 2))
        else:
            q_right = q_left
    count = item.stop - item.first
    ends = gl.zeros([ROWS], gl.int32, R_LAYOUT) + count
    edges = Edges(ends, ends, 0, count // KEY_TILE)
    zeros = gl.zeros([ROWS, KEY_TILE], gl.float32, S_LAYOUT)
    largest = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
    total = thread_sums(zeros)
    acc = gl.zeros([ROWS, PANEL], gl.float32, O_LAYOUT)
    acc_b = gl.zeros([ROWS, PANEL], gl.float32, O_LAYOUT)
    stage, phase = 0, 0
    mbarrier.wait(barriers.k_full.index(stage), phase)
    scores = _issue_scores(q_left, q_right, panels, stage, zeros, shape)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    mbarrier.arrive(barriers.k_free.index(stage), count=1)
    weights, largest, total, _ = softmax_step(
        scores, largest, total, call.scale_log2, edges, 0, shape.MASKED, shape.BELOW, C_LAYOUT, LAZY
    )  # fmt: skip
    narrow = gl.convert_layout(weights.to(element), P_LAYOUT, assert_trivial=True)
    for tile in range(1, gl.cdiv(count, KEY_TILE)):
        ahead, ahead_phase = advanced(stage, phase, shape.STAGES)
        mbarrier.wait(barriers.k_full.index(ahead), ahead_phase)
        coming = _issue_scores(q_left, q_right, panels, ahead, zeros, shape)
        mbarrier.wait(barriers.v_full.index(stage), phase)
        p = narrow
        acc = warpgroup_mma(p, panels.v_left.index(stage).reshape([KEY_TILE, PANEL]), acc, is_async=True)
        if WIDE:
            acc_b = warpgroup_mma(p, panels.v_right.index(stage).reshape([KEY_TILE, PANEL]), acc_b, is_async=True)
        scores = warpgroup_mma_wait(PRODUCTS, deps=(coming,))
        mbarrier.arrive(barriers.k_free.index(ahead), count=1)
        weights, largest, total, rescale = softmax_step(
            scores, largest, total, call.scale_log2, edges, tile, shape.MASKED, shape.BELOW, C_LAYOUT, LAZY
        )  # fmt: skip
        # Converted before the wait, beside the product: what is waited for includes it, so that it stays there.
        narrow = gl.convert_layout(weights.to(element), P_LAYOUT, assert_trivial=True)
        by_row = gl.convert_layout(rescale, OF_ROWS, assert_trivial=True)
        if WIDE:
            acc, acc_b, p, narrow = warpgroup_mma_wait(0, deps=(acc, acc_b, p, narrow))
            acc_b = rescaled(acc_b, by_row, LAZY)
        else:
            acc, p, narrow = warpgroup_mma_wait(0, deps=(acc, p, narrow))
        mbarrier.arrive(barriers.v_free.index(stage), count=1)
        acc = rescaled(acc, by_row, LAZY)
        stage, phase = ahead, ahead_phase
    mbarrier.wait(barriers.v_full.index(stage), phase)
    acc = warpgroup_mma(narrow, panels.v_left.index(stage).reshape([KEY_TILE, PANEL]), acc, is_async=True)
    if WIDE:
        acc_b = warpgroup_mma(narrow, panels.v_right.index(stage).reshape([KEY_TILE, PANEL]), acc_b, is_async=True)
        acc, acc_b, narrow = warpgroup_mma_wait(0, deps=(acc, acc_b, narrow))
    else:
        acc, narrow = warpgroup_mma_wait(0, deps=(acc, narrow))
    total = row_sums(total, R_LAYOUT)
    total = gl.where(bad != 0, float("nan"), total)
    rows = row + gl.arange(0, ROWS, R_LAYOUT)
    at = gl.cast(item.slot + rows // shape.PACK, gl.int64) * call.heads + item.kv_head * shape.PACK + rows % shape.PACK
    gl.store(call.Statistics + 2 * at, largest, mask=rows < item.count * shape.PACK)
    gl.store(call.Statistics + 2 * at + 1, total, mask=rows < item.count * shape.PACK)
    rows = row + gl.arange(0, ROWS, OF_ROWS)
    _store(call, item, acc, rows, 0, O_LAYOUT, shape)
    if WIDE:
        _store(call, item, acc_b, rows, PANEL, O_LAYOUT, shape)


_ANY_NUMBER = ["q_t", "q_h", "table_r", "kv_heads", "page_count"]
# Queries and sums are at multiples of 16 bytes.
_ANY_PLACE = ["Statistics", "Table", "Items", "Tokens"]


@gluon.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_PLACE)
def gluon_page_runs_kernel(
    keys, values, Q, Sums, Statistics, Table, Items, Tokens, q_t, q_h, table_r, kv_heads, page_count, scale_log2,
    KEY_TILE: gl.constexpr, STAGES: gl.constexpr, D: gl.constexpr, PAGE: gl.constexpr, PIECE: gl.constexpr,
    PACK: gl.constexpr, HELD: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Partial results of items (first of their tokens, how many, request, first key, stop key, first result)."""
    q_left = gl.allocate_shared_memory(
        keys.dtype, [2, ROWS, PANEL], gl.NVMMASharedLayout.get_default_for([ROWS, PANEL], keys.dtype)
    )
    k_left = gl.allocate_shared_memory(keys.dtype, [STAGES, 1, KEY_TILE, 1, PANEL], keys.layout)
    v_left = gl.allocate_shared_memory(keys.dtype, [STAGES, 1, KEY_TILE, 1, PANEL], keys.layout)
    if D > PANEL:
        q_right = gl.allocate_shared_memory(
            keys.dtype, [2, ROWS, PANEL], gl.NVMMASharedLayout.get_default_for([ROWS, PANEL], keys.dtype)
        )
        k_right = gl.allocate_shared_memory(keys.dtype, [STAGES, 1, KEY_TILE, 1, PANEL], keys.layout)
        v_right = gl.allocate_shared_memory(keys.dtype, [STAGES, 1, KEY_TILE, 1, PANEL], keys.layout)
    else:
        q_right, k_right, v_right = q_left, k_left, v_left
    k_full, k_free, v_full, v_free = ring_barriers(STAGES, 2)
    fence_async_shared()
    gdc_wait()
    gdc_launch_dependents()
    kv_head, at = gl.program_id(0) % kv_heads, Items + 6 * (gl.program_id(0) // kv_heads)
    item = Item(
        Tokens + gl.load(at), gl.load(at + 1), Table + gl.cast(gl.load(at + 2), gl.int64) * table_r, gl.load(at + 3),
        gl.load(at + 4), gl.load(at + 5), kv_head,
    )  # fmt: skip
    call = Call(Q, Sums, Statistics, q_t, q_h, kv_heads * PACK, page_count, scale_log2)
    panels = Panels(q_left, q_right, k_left, k_right, v_left, v_right)
    barriers = Barriers(k_full, k_full, k_full, k_free, v_full, v_free)
    shape: gl.constexpr = Shape(KEY_TILE, STAGES, D, PAGE, PIECE, PACK, HELD, True, False)
    gl.warp_specialize(
        [
            (_producer, (keys, values, panels, barriers, item, call, shape)),
            (_consumer, (panels, barriers, item, call, shape, 0)),
            (_consumer, (panels, barriers, item, call, shape, 1)),
        ],
        [4, 4],
        [REGISTERS, REGISTERS],
    )
