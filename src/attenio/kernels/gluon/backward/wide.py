"""Gradients of heads up to 256 wide: a block keeps 64 keys, rows pass, and two groups of warps divide the products.

    for each tile i of 64 rows:
        weighing group:  S^T = K Q_i^T;  P^T = exp2(S^T - lse);  share P^T;           dV += P^T dO_i
        sloping group:   dP^T = V dO_i^T;  dS^T = P^T (dP^T - delta);  spill dS^T;    dK += dS^T Q_i

Each group keeps one gradient of 64 x 256 whole, so that P and dS reach the tensor cores from registers. It also holds
half of the columns of its K or V there: all four products from shared memory would take longer to read than to do.
P is shared when its product has begun, which measured a tenth faster than before it.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from attenio.kernels.gluon.backward.service import (
    ANY_NUMBER,
    ANY_PLACE,
    add_sums,
    block_of,
    edges_hidden,
    number_of,
    rows_of,
    serve_rows,
    spill_slopes,
)

__all__ = ["wide_gradients_kernel"]


@gluon.jit
def _scores(held, kept_s, rows_s, no_scores, D: gl.constexpr):
    """Start the product of keys or values with rows: columns that are held in registers, and those that are not."""
    half: gl.constexpr = D // 2
    first, second = rows_s.slice(0, half, dim=1), rows_s.slice(half, half, dim=1)
    s = warpgroup_mma(held, first.permute((1, 0)), no_scores, use_acc=False, is_async=True)
    return warpgroup_mma(kept_s, second.permute((1, 0)), s, is_async=True)


@gluon.jit
def _leave(gradient_desc, batch, kv_head, first_key, gradient, rows_s, D: gl.constexpr, ADDS: gl.constexpr):
    """Write a block's gradient, or add it to sums, by way of what tiles of rows had."""
    if ADDS:
        staged = rows_s._reinterpret(gl.float32, [D, 64], gl.NVMMASharedLayout(0, 32, rank=2))
        add_sums(gradient_desc, gl.program_id(0) * (D // 64), gradient, staged, D)
    else:
        rows_s.index(0).store(gradient.to(rows_s.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(gradient_desc, [batch, kv_head, first_key, 0], rows_s.index(0))
    tma.store_wait(0)


@gluon.jit
def _weigh(
    dv_desc, FirstRows, StopRows, k_s, q_s, do_s, lse_s, p_s,
    kv_full, q_full, do_full, do_empty, p_full, finished,
    batch, kv_head, first_key, first_row, stop_row, steps, keys, below, above, scale,
    ROWS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    HIDES: gl.constexpr, PACKED: gl.constexpr, ADDS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_s.dtype
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    dv, no_scores = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, ROWS], gl.float32, scores)
    if HIDES:
        own = first_key + gl.arange(0, 64, gl.SliceLayout(1, scores))
        first, stop = rows_of(own, batch, FirstRows, StopRows, keys, below, above, PACKED)
        _, whole_stop = rows_of(first_key, batch, FirstRows, StopRows, keys, below, above, PACKED)
        whole_first, _ = rows_of(first_key + 63, batch, FirstRows, StopRows, keys, below, above, PACKED)
    i, stage, phase, slot, slot_phase = first_row, 0, 0, 0, 0
    mbarrier.wait(kv_full, 0)
    # Held columns came to where P will be.
    held = p_s._reinterpret(dtype, [64, D // 2], tiled).load(gl.DotOperandLayout(0, scores, k_width=2))
    mbarrier.wait(q_full.index(0), 0)
    s = _scores(held, k_s, q_s.index(0), no_scores, D)
    s = warpgroup_mma_wait(0, deps=(s,))
    for _ in range(steps):
        lse = lse_s.index(stage).load(gl.SliceLayout(0, scores))
        seen = s
        if HIDES:
            seen = edges_hidden(s, i, first, stop, whole_first, whole_stop, scores, ROWS)
        p = gl.exp2(seen * scale - lse[None, :]).to(dtype)
        # These rows are here only when the other group has read what this slot of P held.
        mbarrier.wait(do_full.index(slot), slot_phase)
        p16 = gl.convert_layout(p, gl.DotOperandLayout(0, grads, k_width=2), assert_trivial=True)
        dv = warpgroup_mma(p16, do_s.index(slot), dv, is_async=True)
        p_s.index(slot).store(p)
        mbarrier.arrive(p_full.index(slot), count=1)
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        mbarrier.wait(q_full.index(stage), phase)
        s = _scores(held, k_s, q_s.index(stage), no_scores, D)
        dv, p16 = warpgroup_mma_wait(2, deps=(dv, p16))
        mbarrier.arrive(do_empty.index(slot), count=1)
        slot += 1
        if slot == SLOTS:
            slot = 0
            slot_phase ^= 1
        i += ROWS
        if i >= stop_row:
            i = first_row
        s = warpgroup_mma_wait(0, deps=(s,))
    mbarrier.arrive(finished, count=1)
    mbarrier.wait(finished, 0)
    _leave(dv_desc, batch, kv_head, first_key, dv, q_s, D, ADDS)


@gluon.jit
def _slope(
    dk_desc, slopes_desc, v_s, q_s, do_s, delta_s, p_s, ds_s,
    kv_full, q_full, do_full, q_empty, do_empty, p_full, finished,
    batch, kv_head, first_key, first_row, stop_row, row_begin, steps, slope,
    ROWS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr, ADDS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_s.dtype
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    dk, no_scores = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, ROWS], gl.float32, scores)
    head, i, stage, phase, slot, slot_phase = 0, first_row, 0, 0, 0, 0
    mbarrier.wait(kv_full, 0)
    # Held columns came to where dS will be.
    held = ds_s._reinterpret(dtype, [64, D // 2], tiled).load(gl.DotOperandLayout(0, scores, k_width=2))
    mbarrier.wait(do_full.index(0), 0)
    dp = _scores(held, v_s, do_s.index(0), no_scores, D)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    for _ in range(steps):
        mbarrier.wait(q_full.index(stage), phase)
        delta = delta_s.index(stage).load(gl.SliceLayout(0, scores))
        ds = dp - delta[None, :]
        mbarrier.wait(p_full.index(slot), slot_phase)
        ds = (ds * p_s.index(slot).load(scores).to(gl.float32)).to(dtype)
        ds16 = gl.convert_layout(ds, gl.DotOperandLayout(0, grads, k_width=2), assert_trivial=True)
        dk = warpgroup_mma(ds16, q_s.index(stage), dk, is_async=True)
        mbarrier.arrive(do_empty.index(slot), count=1)
        spill_slopes(slopes_desc, gl.program_id(0), head, 0, i - row_begin, ds, ds_s.index(slot), SLOTS - 1)
        i += ROWS
        if i >= stop_row:
            i = first_row
            head += 1
        slot += 1
        if slot == SLOTS:
            slot = 0
            slot_phase ^= 1
        mbarrier.wait(do_full.index(slot), slot_phase)
        dp = _scores(held, v_s, do_s.index(slot), no_scores, D)
        dk, ds16 = warpgroup_mma_wait(2, deps=(dk, ds16))
        # Of both groups: the other was done with these rows when it shared P.
        mbarrier.arrive(q_empty.index(stage), count=1)
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        dp = warpgroup_mma_wait(0, deps=(dp,))
    mbarrier.arrive(finished, count=1)
    mbarrier.wait(finished, 0)
    _leave(dk_desc, batch, kv_head, first_key, dk * slope, do_s, D, ADDS)


@gluon.jit
def _serve(
    q_desc, k_desc, v_desc, do_desc, Lse, Delta,
    k_s, v_s, q_s, do_s, lse_s, delta_s, p_s, ds_s, kv_full, q_full, do_full, q_empty, do_empty,
    unit, kv_heads, group, first_key, first_row, stop_row, steps, padded,
    ROWS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """Load both halves of K and V, then rows."""
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    half: gl.constexpr = D // 2
    held, kept = [unit // kv_heads, unit % kv_heads, first_key, 0], [unit // kv_heads, unit % kv_heads, first_key, half]
    mbarrier.expect(kv_full, 2 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
    tma.async_copy_global_to_shared(k_desc, held, kv_full, p_s._reinterpret(p_s.dtype, [64, half], tiled))
    tma.async_copy_global_to_shared(k_desc, kept, kv_full, k_s)
    tma.async_copy_global_to_shared(v_desc, held, kv_full, ds_s._reinterpret(p_s.dtype, [64, half], tiled))
    tma.async_copy_global_to_shared(v_desc, kept, kv_full, v_s)
    serve_rows(
        q_desc, do_desc, Lse, Delta, q_s, do_s, lse_s, delta_s, q_full, do_full, q_empty, do_empty,
        unit, kv_heads, group, first_row, first_row, stop_row, steps, padded, ROWS, STAGES, SLOTS,
    )  # fmt: skip


@gluon.jit(do_not_specialize=ANY_NUMBER, do_not_specialize_on_alignment=ANY_PLACE)
def wide_gradients_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, slopes_desc, Lse, Delta, FirstRows, StopRows,
    scale, slope, first_block, together, kv_heads, group, keys, below, above, row_begin, row_end, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    HIDES: gl.constexpr, PACKED: gl.constexpr, ADDS: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """As the narrow kernel's, with slopes spilled; K and V come in boxes of D / 2 columns.

    STAGES tiles of queries and SLOTS tiles of their gradients, P and dS are there at once.
    """
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    dtype: gl.constexpr = q_desc.dtype
    q_s = gl.allocate_shared_memory(dtype, [STAGES, ROWS, D], tiled)
    do_s = gl.allocate_shared_memory(dtype, [SLOTS, ROWS, D], tiled)
    k_s = gl.allocate_shared_memory(dtype, [64, D // 2], tiled)
    v_s = gl.allocate_shared_memory(dtype, [64, D // 2], tiled)
    p_s = gl.allocate_shared_memory(dtype, [SLOTS, 64, ROWS], tiled)
    ds_s = gl.allocate_shared_memory(dtype, [SLOTS, 64, ROWS], tiled)
    lse_s = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS], plain)
    delta_s = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS], plain)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    kv_full = gl.allocate_shared_memory(gl.int64, [1], barrier)
    finished = gl.allocate_shared_memory(gl.int64, [1], barrier)
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    q_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    do_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], barrier)
    do_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], barrier)
    p_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], barrier)
    mbarrier.init(kv_full, count=1)
    mbarrier.init(finished, count=2)
    for stage in gl.static_range(STAGES):
        mbarrier.init(q_full.index(stage), count=2)
        mbarrier.init(q_empty.index(stage), count=1)
    for slot in gl.static_range(SLOTS):
        mbarrier.init(do_full.index(slot), count=1)
        mbarrier.init(do_empty.index(slot), count=2)
        mbarrier.init(p_full.index(slot), count=1)
    fence_async_shared()
    unit, tile, first_row, stop_row, steps = block_of(
        number_of(first_block, together, keys, KEYS), kv_heads, group, FirstRows, StopRows, keys, below, above,
        row_begin, row_end, ROWS, KEYS, PACKED,
    )  # fmt: skip
    batch, kv_head, first_key = unit // kv_heads, unit % kv_heads, tile * KEYS
    gl.warp_specialize([
        (_serve, (
            q_desc, k_desc, v_desc, do_desc, Lse, Delta,
            k_s, v_s, q_s, do_s, lse_s, delta_s, p_s, ds_s, kv_full, q_full, do_full, q_empty, do_empty,
            unit, kv_heads, group, first_key, first_row, stop_row, steps, padded, ROWS, D, STAGES, SLOTS,
        )),
        (_weigh, (
            dv_desc, FirstRows, StopRows, k_s, q_s, do_s, lse_s, p_s,
            kv_full, q_full, do_full, do_empty, p_full, finished,
            batch, kv_head, first_key, first_row, stop_row, steps, keys, below, above, scale,
            ROWS, D, STAGES, SLOTS, HIDES, PACKED, ADDS,
        )),
        (_slope, (
            dk_desc, slopes_desc, v_s, q_s, do_s, delta_s, p_s, ds_s,
            kv_full, q_full, do_full, q_empty, do_empty, p_full, finished,
            batch, kv_head, first_key, first_row, stop_row, row_begin, steps, slope,
            ROWS, D, STAGES, SLOTS, ADDS,
        )),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
