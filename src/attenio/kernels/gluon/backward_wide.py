"""Gradients of heads up to 256 wide: a block keeps 64 keys, rows pass, and two groups of warps divide the products.

    for each tile i of 64 rows:
        weighing group:  S^T = K Q_i^T;  P^T = exp2(S^T - lse);  share P^T;             dV += P^T dO_i
        sloping group:   dP^T = V dO_i^T;  dS^T = P^T (dP^T - delta);  share dS^T;      dK += dS^T Q_i
        both:            a quarter of the columns of dQ_i += dS K, and another one of dQ_{i-1}

Each group keeps one gradient of 64 x 256 whole, so that P and dS reach the tensor cores from registers. Weights of the
next tile are found while dQ is multiplied, and quarters of dQ leave registers while other products run.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from attenio.kernels.gluon.backward_service import add_sums, block_of, edges_hidden, rows_of, serve

__all__ = ["wide_gradients_kernel"]


@gluon.jit
def _quarter(ds, k, dq, step, PART: gl.constexpr):
    """Start 64 columns of dQ, in the registers of the last; a group's half at once would not fit."""
    # It never accumulates, but the compiler must not know: so that registers are the same.
    return warpgroup_mma(ds.permute((1, 0)), k.slice(PART * 64, 64, dim=1), dq, use_acc=step < 0, is_async=True)


@gluon.jit
def _weigh(
    sums_desc, dv_desc, FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, p_s, ds_s, dq_s,
    kv_full, q_full, do_full, q_empty, do_empty, p_full, ds_full, finished,
    unit, kv_heads, group, first_key, first_row, stop_row, steps, keys, below, above, scale, padded,
    ROWS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, HIDES: gl.constexpr,
    PACKED: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_s.dtype
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    square: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=grads, k_width=2)
    if HIDES:
        batch, own = unit // kv_heads, first_key + gl.arange(0, 64, gl.SliceLayout(1, scores))
        first, stop = rows_of(own, batch, FirstRows, StopRows, keys, below, above, PACKED)
        _, whole_stop = rows_of(first_key, batch, FirstRows, StopRows, keys, below, above, PACKED)
        whole_first, _ = rows_of(first_key + 63, batch, FirstRows, StopRows, keys, below, above, PACKED)
    dv, no_scores = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, ROWS], gl.float32, scores)
    dq = warpgroup_mma_init(gl.zeros([64, 64], gl.float32, square))
    head, i, stage, part = unit * group, first_row, 0, 0
    phase = 0
    mbarrier.wait(kv_full, 0)
    mbarrier.wait(q_full.index(0), 0)
    s = warpgroup_mma(k_s.index(0), q_s.index(0).permute((1, 0)), no_scores, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=(s,))
    for step in range(steps):
        zero = step >> 30  # as in the narrow form: operands' addresses are not worth registers
        lse = lse_s.index(stage).load(gl.SliceLayout(0, scores))
        if HIDES:
            s = edges_hidden(s, i, first, stop, whole_first, whole_stop, scores, ROWS)
        p = gl.exp2(s * scale - lse[None, :]).to(dtype)
        # The other group has read P of the tile before: it shared dS, for which this one has waited.
        p_s.store(p)
        mbarrier.arrive(p_full, count=1)
        mbarrier.arrive(q_empty.index(stage), count=1)
        p16 = gl.convert_layout(p, operand, assert_trivial=True)
        # dQ of the tile before (garbage at first, which is not added): its first quarter is there, the second starts.
        sums = warpgroup_mma_wait(0, deps=(dq,))
        mbarrier.wait(do_full.index(0), step & 1)
        dv = warpgroup_mma(p16, do_s.index(0), dv, is_async=True)
        if step > 0:
            add_sums(sums_desc, part, sums, dq_s.index(0), 64)
        second = _quarter(ds_s.index((step + 1) & 1), k_s.index(zero), sums, step, 1)
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        mbarrier.wait(q_full.index(stage), phase)
        s = warpgroup_mma(k_s.index(zero), q_s.index(stage).permute((1, 0)), no_scores, use_acc=False, is_async=True)
        dv, p16 = warpgroup_mma_wait(2, deps=(dv, p16))
        mbarrier.arrive(do_empty.index(0), count=1)
        sums = warpgroup_mma_wait(1, deps=(second,))
        if step > 0:
            add_sums(sums_desc, part + 1, sums, dq_s.index(0), 64)
        part = (head * padded + i) // 64 * 4
        i += ROWS
        if i >= stop_row:
            i = first_row
            head += 1
        mbarrier.wait(ds_full.index(step & 1), step >> 1 & 1)
        dq = _quarter(ds_s.index(step & 1), k_s.index(zero), sums, step, 0)
        s = warpgroup_mma_wait(1, deps=(s,))
    sums = warpgroup_mma_wait(0, deps=(dq,))
    if steps > 0:
        add_sums(sums_desc, part, sums, dq_s.index(0), 64)
        second = _quarter(ds_s.index((steps + 1) & 1), k_s.index(0), sums, steps, 1)
        sums = warpgroup_mma_wait(0, deps=(second,))
        add_sums(sums_desc, part + 1, sums, dq_s.index(0), 64)
    mbarrier.arrive(finished, count=1)
    mbarrier.wait(finished, 0)
    batch, kv_head = unit // kv_heads, unit % kv_heads
    v_s.index(0).store(dv.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dv_desc, [batch, kv_head, first_key, 0], v_s.index(0))
    tma.store_wait(0)


@gluon.jit
def _slope(
    sums_desc, dk_desc, k_s, v_s, q_s, do_s, delta_s, p_s, ds_s, dq_s,
    kv_full, q_full, do_full, q_empty, do_empty, p_full, ds_full, finished,
    unit, kv_heads, group, first_key, first_row, stop_row, steps, slope, padded,
    ROWS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_s.dtype
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    square: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=grads, k_width=2)
    dk, no_scores = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, ROWS], gl.float32, scores)
    sums = gl.zeros([64, 64], gl.float32, square)
    head, i, stage, phase, part = unit * group, first_row, 0, 0, 0
    mbarrier.wait(kv_full, 0)
    mbarrier.wait(do_full.index(0), 0)
    dp = warpgroup_mma(v_s.index(0), do_s.index(0).permute((1, 0)), no_scores, use_acc=False, is_async=True)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    for step in range(steps):
        zero = step >> 30
        mbarrier.arrive(do_empty.index(0), count=1)
        mbarrier.wait(q_full.index(stage), phase)
        delta = delta_s.index(stage).load(gl.SliceLayout(0, scores))
        ds = dp - delta[None, :]
        mbarrier.wait(p_full, step & 1)
        # Both groups are done with what this slot held: the weighing one before it shared this tile's P.
        ds = (ds * p_s.load(scores).to(gl.float32)).to(dtype)
        ds_s.index(step & 1).store(ds)
        fence_async_shared()
        mbarrier.arrive(ds_full.index(step & 1), count=1)
        ds16 = gl.convert_layout(ds, operand, assert_trivial=True)
        dk = warpgroup_mma(ds16, q_s.index(stage), dk, is_async=True)
        dq = _quarter(ds_s.index((step + 1) & 1), k_s.index(zero), sums, step, 3)
        dk, ds16 = warpgroup_mma_wait(1, deps=(dk, ds16))
        mbarrier.arrive(q_empty.index(stage), count=1)
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        sums = warpgroup_mma_wait(0, deps=(dq,))
        if step > 0:
            add_sums(sums_desc, part + 3, sums, dq_s.index(1), 64)
        part = (head * padded + i) // 64 * 4
        i += ROWS
        if i >= stop_row:
            i = first_row
            head += 1
        dq = _quarter(ds_s.index(step & 1), k_s.index(zero), sums, step, 2)
        mbarrier.wait(do_full.index(0), (step + 1) & 1)
        dp = warpgroup_mma(v_s.index(zero), do_s.index(0).permute((1, 0)), no_scores, use_acc=False, is_async=True)
        sums = warpgroup_mma_wait(1, deps=(dq,))
        add_sums(sums_desc, part + 2, sums, dq_s.index(1), 64)
        dp = warpgroup_mma_wait(0, deps=(dp,))
    if steps > 0:
        dq = _quarter(ds_s.index((steps + 1) & 1), k_s.index(0), sums, steps, 3)
        sums = warpgroup_mma_wait(0, deps=(dq,))
        add_sums(sums_desc, part + 3, sums, dq_s.index(1), 64)
    mbarrier.arrive(finished, count=1)
    mbarrier.wait(finished, 0)
    batch, kv_head = unit // kv_heads, unit % kv_heads
    k_s.index(0).store((dk * slope).to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dk_desc, [batch, kv_head, first_key, 0], k_s.index(0))
    tma.store_wait(0)


@gluon.jit
def wide_gradients_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, sums_desc, Lse, Delta, FirstRows, StopRows,
    scale, slope, first_block, kv_heads, group, keys, below, above, row_begin, row_end, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    HIDES: gl.constexpr, PACKED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    q_s = gl.allocate_shared_memory(q_desc.dtype, [STAGES, ROWS, D], tiled)
    do_s = gl.allocate_shared_memory(q_desc.dtype, [1, ROWS, D], tiled)
    k_s = gl.allocate_shared_memory(q_desc.dtype, [1, 64, D], tiled)
    v_s = gl.allocate_shared_memory(q_desc.dtype, [1, 64, D], tiled)
    p_s = gl.allocate_shared_memory(q_desc.dtype, [64, ROWS], tiled)
    ds_s = gl.allocate_shared_memory(q_desc.dtype, [SLOTS, 64, ROWS], tiled)
    dq_s = gl.allocate_shared_memory(gl.float32, [2, 64, 64], gl.NVMMASharedLayout(0, 32, rank=2))
    lse_s = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS], plain)
    delta_s = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS], plain)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    kv_full = gl.allocate_shared_memory(gl.int64, [1], barrier)
    p_full = gl.allocate_shared_memory(gl.int64, [1], barrier)
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], barrier)
    finished = gl.allocate_shared_memory(gl.int64, [1], barrier)
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    q_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    do_full = gl.allocate_shared_memory(gl.int64, [1, 1], barrier)
    do_empty = gl.allocate_shared_memory(gl.int64, [1, 1], barrier)
    mbarrier.init(kv_full, count=1)
    mbarrier.init(p_full, count=1)
    mbarrier.init(ds_full.index(0), count=1)
    mbarrier.init(ds_full.index(1), count=1)
    mbarrier.init(finished, count=2)
    for stage in gl.static_range(STAGES):
        mbarrier.init(q_full.index(stage), count=2)
        mbarrier.init(q_empty.index(stage), count=2)
    mbarrier.init(do_full.index(0), count=1)
    mbarrier.init(do_empty.index(0), count=2)
    fence_async_shared()
    unit, tile, first_row, stop_row, steps = block_of(
        first_block, kv_heads, group, FirstRows, StopRows, keys, below, above, row_begin, row_end, ROWS, KEYS, PACKED
    )
    first_key = tile * KEYS
    gl.warp_specialize([
        (serve, (
            q_desc, k_desc, v_desc, do_desc, Lse, Delta,
            k_s, v_s, q_s, do_s, lse_s, delta_s, kv_full, q_full, do_full, q_empty, do_empty,
            unit, kv_heads, group, tile, first_row, stop_row, steps, padded,
            ROWS, KEYS, STAGES, 1,
        )),
        (_weigh, (
            sums_desc, dv_desc, FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, p_s, ds_s, dq_s,
            kv_full, q_full, do_full, q_empty, do_empty, p_full, ds_full, finished,
            unit, kv_heads, group, first_key, first_row, stop_row, steps, keys, below, above, scale,
            padded, ROWS, D, STAGES, HIDES, PACKED,
        )),
        (_slope, (
            sums_desc, dk_desc, k_s, v_s, q_s, do_s, delta_s, p_s, ds_s, dq_s,
            kv_full, q_full, do_full, q_empty, do_empty, p_full, ds_full, finished,
            unit, kv_heads, group, first_key, first_row, stop_row, steps, slope, padded,
            ROWS, D, STAGES,
        )),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
