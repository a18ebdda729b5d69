"""Gradients of heads up to 64 wide: a block keeps 128 keys, rows pass, and two groups of warps own 64 keys each.

    for each tile i of rows:                                     (in each group g, with keys K_g, V_g)
        S^T = K_g Q_i^T;  dP^T = V_g dO_i^T
        P^T = exp2(S^T - lse);  dS^T = P^T (dP^T - delta)        (both stay in registers)
        dV_g += P^T dO_i;  dK_g += dS^T Q_i
        share dS^T;  half of the rows of dQ_{i-1} += dS K

Scores of the next tile are asked for before a share of dQ is added, and its slopes right after. dQ comes a tile late,
so that groups do not wait for each other: while one weighs, the other has the tensor cores. Blocks of a head begin at
different rows (``start_of``), so that they do not add to the same sums at once.
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

from attenio.kernels.hopper.backward.block import (
    ANY_NUMBER,
    ANY_PLACE,
    add_sums,
    block_of,
    counted,
    hidden,
    load_keys,
    number_of,
    rows_of,
    serve_rows,
    start_of,
)

__all__ = ["narrow_gradients_kernel"]


@gluon.jit
def _left(ds_s, group):
    """Where a group leaves its gradients: where it has shared slopes, because it has addresses of these and no register
    for others.
    """
    return ds_s.index(group).slice(0, 64, dim=1), ds_s.index(group).slice(64, 64, dim=1)


@gluon.jit
def _serve(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, Lse, Delta,
    k_s, v_s, q_s, do_s, ds_s, lse_s, delta_s, kv_full, q_full, do_full, empty, written,
    unit, kv_heads, group, tile, start, first_row, stop_row, steps, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Load what the others compute with, and write the gradients that they leave."""
    load_keys(k_desc, v_desc, k_s, v_s, kv_full, unit // kv_heads, unit % kv_heads, tile * KEYS, KEYS)
    serve_rows(
        q_desc, do_desc, Lse, Delta, q_s, do_s, lse_s, delta_s, q_full, do_full, empty, empty,
        unit, kv_heads, group, start, first_row, stop_row, steps, padded, ROWS, STAGES, STAGES, 0,
        None, None, q_s, do_s, 0, 0, 0, 0,
    )  # fmt: skip
    mbarrier.wait(written, 0)
    for part in gl.static_range(KEYS // 64):
        box = [unit // kv_heads, unit % kv_heads, tile * KEYS + part * 64, 0]
        dk_s, dv_s = _left(ds_s, part)
        tma.async_copy_shared_to_global(dv_desc, box, dv_s)
        tma.async_copy_shared_to_global(dk_desc, box, dk_s)
    tma.store_wait(0)


@gluon.jit
def _half(ds_s, k_s, dq, slot, zero, GROUP: gl.constexpr):
    """Start a group's half of dQ, from what both have shared."""
    for part in gl.static_range(2):
        shared = ds_s.index(slot * 2 + part).slice(GROUP * 64, 64, dim=1)
        dq = warpgroup_mma(shared.permute((1, 0)), k_s.index(zero + part), dq, use_acc=part > 0, is_async=True)
    return dq


@gluon.jit
def _before(slot, phase, SLOTS: gl.constexpr):
    """The slot before, and its phase."""
    before = slot - 1
    if slot == 0:
        before = SLOTS - 1
        phase ^= 1
    return before, phase


@gluon.jit
def _fineness(Fineness, part, LAYOUT: gl.constexpr):
    """That of the rows of a part of dQ."""
    return gl.load(Fineness + part * 64 + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT)))


@gluon.jit
def _compute(
    sums_desc, Fineness, FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, delta_s, ds_s, dq_s,
    kv_full, q_full, do_full, empty, ds_full, ds_free, finished, written,
    unit, first_block, kv_heads, group, tile, start, first_row, stop_row, steps, keys, below, above, scale, slope,
    padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    GROUP: gl.constexpr, HIDES: gl.constexpr, PACKED: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_s.dtype
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    square: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=grads, k_width=2)
    WHOLE: gl.constexpr = sums_desc.dtype == gl.int32
    if HIDES:
        batch, first_key = unit // kv_heads, tile * KEYS + GROUP * 64
        _, whole_stop = rows_of(first_key, batch, FirstRows, StopRows, keys, below, above, PACKED)
        whole_first, _ = rows_of(first_key + 63, batch, FirstRows, StopRows, keys, below, above, PACKED)
    dk, dv = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, D], gl.float32, grads)
    no_scores, no_sums = gl.zeros([64, ROWS], gl.float32, scores), gl.zeros([64, 64], gl.float32, square)
    # Sums are those of the heads of the launch.
    head = (unit - first_block // ((keys + KEYS - 1) // KEYS)) * group
    i, stage, phase, slot, slot_phase, part = start, 0, 0, 0, 0, 0
    mbarrier.wait(kv_full, 0)
    mbarrier.wait(q_full.index(0), 0)
    s = warpgroup_mma(k_s.index(GROUP), q_s.index(0).permute((1, 0)), no_scores, use_acc=False, is_async=True)
    mbarrier.wait(do_full.index(0), 0)
    dp = warpgroup_mma(v_s.index(GROUP), do_s.index(0).permute((1, 0)), no_scores, use_acc=False, is_async=True)
    s, dp = warpgroup_mma_wait(0, deps=(s, dp))
    dp = warpgroup_mma_init(dp)
    for step in range(steps):
        # Always 0, but not to the compiler: else it keeps the address of every operand in registers of its own.
        zero = step >> 30
        q, do = q_s.index(stage), do_s.index(stage)
        seen = s
        if HIDES:
            if (i < whole_first) | (i + ROWS > whole_stop):
                own = first_key + zero + gl.arange(0, 64, gl.SliceLayout(1, scores))
                first, stop = rows_of(own, batch, FirstRows, StopRows, keys, below, above, PACKED)
                seen = hidden(s, i, first, stop, scores, ROWS)
        lse = lse_s.index(stage).load(gl.SliceLayout(0, scores))
        p = gl.exp2(seen * scale - lse[None, :])
        p16 = gl.convert_layout(p.to(dtype), operand, assert_trivial=True)
        slopes = warpgroup_mma_wait(0, deps=(dp,))
        dv = warpgroup_mma(p16, do, dv, is_async=True)
        delta = delta_s.index(stage).load(gl.SliceLayout(0, scores))
        ds = (p * (slopes - delta[None, :])).to(dtype)
        mbarrier.wait(ds_free.index(slot), slot_phase ^ 1)
        ds_s.index(slot * 2 + GROUP).store(ds)
        fence_async_shared()
        mbarrier.arrive(ds_full.index(slot), count=1)
        ds16 = gl.convert_layout(ds, operand, assert_trivial=True)
        dk = warpgroup_mma(ds16, q, dk, is_async=True)
        if WHOLE:
            fineness = _fineness(Fineness, part, square)
        # dQ of the tile before (garbage at first, which is not added).
        last_slot, last_phase = _before(slot, slot_phase, SLOTS)
        mbarrier.wait(ds_full.index(last_slot), last_phase)
        dq = _half(ds_s, k_s, no_sums, last_slot, zero, GROUP)
        dv, dk, p16, ds16 = warpgroup_mma_wait(2, deps=(dv, dk, p16, ds16))
        mbarrier.arrive(empty.index(stage), count=1)
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        mbarrier.wait(q_full.index(stage), phase)
        s = warpgroup_mma(
            k_s.index(zero + GROUP), q_s.index(stage).permute((1, 0)), no_scores, use_acc=False, is_async=True
        )
        dq = warpgroup_mma_wait(1, deps=(dq,))
        if step > 0:
            mbarrier.arrive(ds_free.index(last_slot), count=1)
            if WHOLE:
                add_sums(sums_desc, part, counted(dq, fineness), dq_s.index(GROUP), 64)
            else:
                add_sums(sums_desc, part, dq, dq_s.index(GROUP), 64)
        part = (head * padded + i) // 64 + GROUP
        mbarrier.wait(do_full.index(stage), phase)
        dp = warpgroup_mma(
            v_s.index(zero + GROUP), do_s.index(stage).permute((1, 0)), no_scores, use_acc=False, is_async=True
        )
        s = warpgroup_mma_wait(1, deps=(s,))
        slot += 1
        if slot == SLOTS:
            slot = 0
            slot_phase ^= 1
        i += ROWS
        if i >= stop_row:
            i = first_row
        if i == start:
            head += 1
    dp = warpgroup_mma_wait(0, deps=(dp,))
    if steps > 0:
        last_slot, last_phase = _before(slot, slot_phase, SLOTS)
        mbarrier.wait(ds_full.index(last_slot), last_phase)
        dq = _half(ds_s, k_s, no_sums, last_slot, 0, GROUP)
        dq = warpgroup_mma_wait(0, deps=(dq,))
        if WHOLE:
            dq = counted(dq, _fineness(Fineness, part, square))
        add_sums(sums_desc, part, dq, dq_s.index(GROUP), 64)
    mbarrier.arrive(finished, count=1)
    mbarrier.wait(finished, 0)
    dk_s, dv_s = _left(ds_s, GROUP)
    dv_s.store(dv.to(dtype))
    dk_s.store((dk * slope).to(dtype))
    fence_async_shared()
    mbarrier.arrive(written, count=1)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=ANY_NUMBER, do_not_specialize_on_alignment=[*ANY_PLACE, "Fineness"])
def narrow_gradients_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, sums_desc, Lse, Delta, FirstRows, StopRows,
    scale, slope, first_block, together, kv_heads, group, keys, below, above, row_begin, row_end, padded,
    Fineness,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    HIDES: gl.constexpr, PACKED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Rows from ``row_begin`` to ``row_end``, for blocks from ``first_block``, of units that come ``together``.

    Sums of dQ are those of the units of this launch; integers are counts of grains, of which ``Fineness`` has for each
    row how many are 1.
    """
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    q_s = gl.allocate_shared_memory(q_desc.dtype, [STAGES, ROWS, D], tiled)
    do_s = gl.allocate_shared_memory(q_desc.dtype, [STAGES, ROWS, D], tiled)
    k_s = gl.allocate_shared_memory(q_desc.dtype, [2, 64, D], tiled)
    v_s = gl.allocate_shared_memory(q_desc.dtype, [2, 64, D], tiled)
    ds_s = gl.allocate_shared_memory(q_desc.dtype, [SLOTS * 2, 64, ROWS], tiled)
    dq_s = gl.allocate_shared_memory(sums_desc.dtype, [2, 64, 64], gl.NVMMASharedLayout(0, 32, rank=2))
    lse_s = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS], plain)
    delta_s = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS], plain)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    kv_full = gl.allocate_shared_memory(gl.int64, [1], barrier)
    finished = gl.allocate_shared_memory(gl.int64, [1], barrier)
    written = gl.allocate_shared_memory(gl.int64, [1], barrier)
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    do_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    ds_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], barrier)
    ds_free = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], barrier)
    mbarrier.init(kv_full, count=1)
    mbarrier.init(finished, count=2)
    mbarrier.init(written, count=2)
    for stage in gl.static_range(STAGES):
        mbarrier.init(q_full.index(stage), count=2)
        mbarrier.init(do_full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    for slot in gl.static_range(SLOTS):
        mbarrier.init(ds_full.index(slot), count=2)
        mbarrier.init(ds_free.index(slot), count=2)
    fence_async_shared()
    unit, tile, first_row, stop_row, steps = block_of(
        number_of(first_block, together, keys, KEYS), kv_heads, group, FirstRows, StopRows, keys, below, above,
        row_begin, row_end, ROWS, KEYS, PACKED,
    )  # fmt: skip
    start = start_of(tile, first_row, stop_row, ROWS)
    gl.warp_specialize([
        (_serve, (
            q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, Lse, Delta,
            k_s, v_s, q_s, do_s, ds_s, lse_s, delta_s, kv_full, q_full, do_full, empty, written,
            unit, kv_heads, group, tile, start, first_row, stop_row, steps, padded, ROWS, KEYS, STAGES,
        )),
        (_compute, (
            sums_desc, Fineness, FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, delta_s, ds_s, dq_s,
            kv_full, q_full, do_full, empty, ds_full, ds_free, finished, written,
            unit, first_block, kv_heads, group, tile, start, first_row, stop_row, steps, keys, below, above, scale,
            slope, padded, ROWS, KEYS, D, STAGES, SLOTS, 0, HIDES, PACKED,
        )),
        (_compute, (
            sums_desc, Fineness, FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, delta_s, ds_s, dq_s,
            kv_full, q_full, do_full, empty, ds_full, ds_free, finished, written,
            unit, first_block, kv_heads, group, tile, start, first_row, stop_row, steps, keys, below, above, scale,
            slope, padded, ROWS, KEYS, D, STAGES, SLOTS, 1, HIDES, PACKED,
        )),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
