"""Gradients of heads 65 to 128 wide: a block keeps 128 keys, rows pass; two groups of warps own 64 keys each, a third
one loads and makes dQ.

    for each tile i of rows:                                     (in each group g, with keys K_g, V_g)
        S^T = K_g Q_i^T;  P^T = exp2(S^T - lse)                  (P stays in registers, in two parts)
        dP^T = V_g dO_i^T;  dS^T = P^T (dP^T - delta)
        dV_g += P^T dO_i;  share dS^T;  dK_g += dS^T Q_i
    for each tile i of rows:                                     (in the third)
        load Q_{i+2}, dO_{i+2};  dQ_i += dS K                    (half of the columns, then the others)

Scores of the next tile are asked for before dK, and weighed while dK is made. Only the third group waits for both
others, and for sums to leave.

Registers decide the rest: threads of three groups have 504 together, and 72 are left if those that compute take 216.
Besides products a group needs more than 24. So one that computes has two gradients (128), a tile of scores or of their
slopes (32, never both), and P as two numbers of 16 bits: as dV takes it (16), and what dS needs besides (16). Of bf16
that is P in fp16, which has three bits more; of fp16 it is what rounding takes from P, in bf16. From the P of dV alone
errors of dQ and dK would be a quarter larger (bf16: 2.9e-3 of the norm instead of 2.4e-3). dV ends before dS is shared:
dK then takes dS out of the registers of P, and not out of shared memory, which is read for most of the time.

Blocks of a head begin at different rows (``start_of``), so that they do not add to the same sums at once.
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
    load_rows,
    number_of,
    rows_of,
    start_of,
)
from attenio.kernels.hopper.backward.probabilities import SHIFT, each, rounded, whole

__all__ = ["middle_gradients_kernel"]


# Of a product that makes 64 rows and columns of dQ.
_SQUARE = gl.constexpr(gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16]))


@gluon.jit
def _add_half(sums_desc, fineness, ds_s, k_s, dq_s, ds_free, slot, zero, part, HALF: gl.constexpr):
    """Make half of the columns of dQ of what is shared in a slot, and add them to their sums; the second frees it."""
    dq = gl.zeros([64, 64], gl.float32, _SQUARE)
    for keys in gl.static_range(2):
        shared, columns = ds_s.index(slot * 2 + keys), k_s.index(zero + keys).slice(HALF * 64, 64, dim=1)
        dq = warpgroup_mma(shared.permute((1, 0)), columns, dq, use_acc=keys > 0, is_async=True)
    dq = warpgroup_mma_wait(0, deps=(dq,))
    if HALF == 1:
        mbarrier.arrive(ds_free.index(slot), count=1)
    if sums_desc.dtype == gl.int32:
        dq = counted(dq, fineness)
    add_sums(sums_desc, part * 2 + HALF, dq, dq_s.index(HALF), 64, 1)


@gluon.jit
def _serve(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, sums_desc, Lse, Delta, Fineness, FirstRows, StopRows,
    k_s, v_s, q_s, do_s, ds_s, dq_s, lse_s, delta_s, kv_full, q_full, do_full, empty, ds_full, ds_free, written,
    first_block, together, kv_heads, group, keys, below, above, row_begin, row_end, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr, PACKED: gl.constexpr,
):  # fmt: skip
    """Load what the others compute with, make dQ of what they share, and write the gradients that they leave."""
    unit, tile, first_row, stop_row, steps = block_of(
        number_of(first_block, together, keys, KEYS), kv_heads, group, FirstRows, StopRows, keys, below, above,
        row_begin, row_end, ROWS, KEYS, PACKED,
    )  # fmt: skip
    batch, kv_head = unit // kv_heads, unit % kv_heads
    load_keys(k_desc, v_desc, k_s, v_s, kv_full, batch, kv_head, tile * KEYS, KEYS)
    start = start_of(tile, first_row, stop_row, ROWS)
    head, i, stage, phase = 0, start, 0, 1
    # Sums are those of the heads of the launch.
    summed, j, slot, slot_phase = (unit - first_block // ((keys + KEYS - 1) // KEYS)) * group, start, 0, 0
    for step in range(steps + STAGES):
        # Always 0, but not to the compiler: else it keeps the address of every operand in registers of its own.
        zero = step >> 30
        part = (summed * padded + j) // 64
        fineness = part
        if sums_desc.dtype == gl.int32:  # asked for before others are waited for
            fineness = gl.load(Fineness + part * 64 + gl.arange(0, 64, gl.SliceLayout(1, _SQUARE)))
        # A tile is loaded between the halves of dQ, so that the compiler does not start both at once.
        if step >= STAGES:
            mbarrier.wait(ds_full.index(slot), slot_phase)
            _add_half(sums_desc, fineness, ds_s, k_s, dq_s, ds_free, slot, zero, part, 0)
        if step <= steps:
            load_rows(
                q_desc, do_desc, Lse, Delta, q_s.index(stage), do_s.index(stage), lse_s.index(stage),
                delta_s.index(stage), q_full.index(stage), do_full.index(stage), empty.index(stage), phase,
                empty.index(stage), phase, batch, kv_head * group + head, i, (unit * group + head) * padded + i,
                ROWS, SHIFT,
            )  # fmt: skip
            i += ROWS
            if i >= stop_row:
                i = first_row
            if (i == start) & (step + 1 < steps):
                head += 1
            stage += 1
            if stage == STAGES:
                stage = 0
                phase ^= 1
        if step >= STAGES:
            _add_half(sums_desc, fineness, ds_s, k_s, dq_s, ds_free, slot, zero, part, 1)
            slot += 1
            if slot == SLOTS:
                slot = 0
                slot_phase ^= 1
            j += ROWS
            if j >= stop_row:
                j = first_row
            if j == start:
                summed += 1
    mbarrier.wait(written, 0)
    for part in gl.static_range(KEYS // 64):
        box = [batch, kv_head, tile * KEYS + part * 64, 0]
        tma.async_copy_shared_to_global(dv_desc, box, v_s.index(part))
        tma.async_copy_shared_to_global(dk_desc, box, k_s.index(part))
    tma.store_wait(0)


@gluon.jit
def _weighed(
    s, lse, i, first_key, whole_first, whole_stop, batch, FirstRows, StopRows, keys, below, above, scale,
    LAYOUT: gl.constexpr, ROWS: gl.constexpr, HIDES: gl.constexpr, PACKED: gl.constexpr, DTYPE: gl.constexpr,
):  # fmt: skip
    """P of scores of rows from i on, rounded, in pairs; scores are hidden only where a tile has some to hide."""
    if HIDES:
        if (i < whole_first) | (i + ROWS > whole_stop):
            own = first_key + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
            first, stop = rows_of(own, batch, FirstRows, StopRows, keys, below, above, PACKED)
            s = hidden(s, i, first, stop, LAYOUT, ROWS)
    return rounded(gl.exp2(s * scale - lse[None, :]), DTYPE)


@gluon.jit
def _compute(
    FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, delta_s, ds_s,
    kv_full, q_full, do_full, empty, ds_full, ds_free, written,
    first_block, together, kv_heads, group, keys, below, above, row_begin, row_end, scale, slope,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    GROUP: gl.constexpr, HIDES: gl.constexpr, PACKED: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_s.dtype
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    operand: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=grads, k_width=2)
    unit, tile, first_row, stop_row, steps = block_of(
        number_of(first_block, together, keys, KEYS), kv_heads, group, FirstRows, StopRows, keys, below, above,
        row_begin, row_end, ROWS, KEYS, PACKED,
    )  # fmt: skip
    batch, first_key, whole_first, whole_stop = unit // kv_heads, tile * KEYS + GROUP * 64, 0, 0
    if HIDES:
        _, whole_stop = rows_of(first_key, batch, FirstRows, StopRows, keys, below, above, PACKED)
        whole_first, _ = rows_of(first_key + 63, batch, FirstRows, StopRows, keys, below, above, PACKED)
    dk, dv = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, D], gl.float32, grads)
    no_scores = gl.zeros([64, ROWS], gl.float32, scores)
    i, stage, phase, slot, slot_phase = start_of(tile, first_row, stop_row, ROWS), 0, 0, 0, 1
    mbarrier.wait(kv_full, 0)
    mbarrier.wait(q_full.index(0), 0)
    s = warpgroup_mma(k_s.index(GROUP), q_s.index(0).permute((1, 0)), no_scores, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=(s,))
    coarse, fine = _weighed(
        s, lse_s.index(0).load(gl.SliceLayout(0, scores)), i, first_key, whole_first, whole_stop, batch,
        FirstRows, StopRows, keys, below, above, scale, scores, ROWS, HIDES, PACKED, dtype,
    )  # fmt: skip
    mbarrier.wait(do_full.index(0), 0)
    dp = warpgroup_mma(v_s.index(GROUP), do_s.index(0).permute((1, 0)), no_scores, use_acc=False, is_async=True)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    dp = warpgroup_mma_init(dp)
    for _ in range(steps):
        # Always 0, but not to the compiler: else it keeps the address of every operand in registers of its own. A row
        # says it, and not the step: that would take another register.
        zero = i >> 30
        q, do = q_s.index(stage), do_s.index(stage)
        p16 = gl.convert_layout(each(coarse, dtype), operand, assert_trivial=True)
        slopes = warpgroup_mma_wait(0, deps=(dp,))
        dv = warpgroup_mma(p16, do, dv, is_async=True)
        delta = delta_s.index(stage).load(gl.SliceLayout(0, scores))
        weights = gl.convert_layout(whole(coarse, fine, dtype), scores, assert_trivial=True)
        ds = (weights * (slopes * (0.5**SHIFT) - delta[None, :])).to(dtype)
        dv, p16, ds = warpgroup_mma_wait(0, deps=(dv, p16, ds))
        mbarrier.wait(ds_free.index(slot), slot_phase)
        ds_s.index(slot * 2 + GROUP).store(ds)
        fence_async_shared()
        mbarrier.arrive(ds_full.index(slot), count=1)
        ds16 = gl.convert_layout(ds, operand, assert_trivial=True)
        before = stage
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        mbarrier.wait(q_full.index(stage), phase)
        i += ROWS
        if i >= stop_row:
            i = first_row
        s = warpgroup_mma(
            k_s.index(zero + GROUP), q_s.index(stage).permute((1, 0)), no_scores, use_acc=False, is_async=True
        )
        dk = warpgroup_mma(ds16, q, dk, is_async=True)
        s = warpgroup_mma_wait(1, deps=(s,))
        coarse, fine = _weighed(
            s, lse_s.index(stage).load(gl.SliceLayout(0, scores)), i, first_key + zero, whole_first, whole_stop, batch,
            FirstRows, StopRows, keys, below, above, scale, scores, ROWS, HIDES, PACKED, dtype,
        )  # fmt: skip
        dk, ds16, coarse, fine = warpgroup_mma_wait(0, deps=(dk, ds16, coarse, fine))
        mbarrier.arrive(empty.index(before), count=1)
        mbarrier.wait(do_full.index(stage), phase)
        # The next slopes are all that is under way when the loop begins again: the compiler would otherwise let every
        # product wait for the one before.
        dp = warpgroup_mma(
            v_s.index(zero + GROUP), do_s.index(stage).permute((1, 0)), no_scores, use_acc=False, is_async=True
        )
        slot += 1
        if slot == SLOTS:
            slot = 0
            slot_phase ^= 1
    dp = warpgroup_mma_wait(0, deps=(dp,))
    # When all slots are free, dQ is made, and nobody reads keys.
    for _ in gl.static_range(SLOTS):
        mbarrier.wait(ds_free.index(slot), slot_phase)
        slot += 1
        if slot == SLOTS:
            slot = 0
            slot_phase ^= 1
    v_s.index(GROUP).store((dv * (0.5**SHIFT)).to(dtype))
    k_s.index(GROUP).store((dk * slope).to(dtype))
    fence_async_shared()
    mbarrier.arrive(written, count=1)


@gluon.jit(do_not_specialize=ANY_NUMBER, do_not_specialize_on_alignment=[*ANY_PLACE, "Fineness"])
def middle_gradients_kernel(
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
    written = gl.allocate_shared_memory(gl.int64, [1], barrier)
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    do_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    ds_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], barrier)
    ds_free = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], barrier)
    mbarrier.init(kv_full, count=1)
    mbarrier.init(written, count=2)
    for stage in gl.static_range(STAGES):
        mbarrier.init(q_full.index(stage), count=2)
        mbarrier.init(do_full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    for slot in gl.static_range(SLOTS):
        mbarrier.init(ds_full.index(slot), count=2)
        mbarrier.init(ds_free.index(slot), count=1)
    fence_async_shared()
    gl.warp_specialize([
        (_serve, (
            q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, sums_desc, Lse, Delta, Fineness, FirstRows, StopRows,
            k_s, v_s, q_s, do_s, ds_s, dq_s, lse_s, delta_s, kv_full, q_full, do_full, empty, ds_full, ds_free, written,
            first_block, together, kv_heads, group, keys, below, above, row_begin, row_end, padded,
            ROWS, KEYS, STAGES, SLOTS, PACKED,
        )),
        (_compute, (
            FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, delta_s, ds_s,
            kv_full, q_full, do_full, empty, ds_full, ds_free, written,
            first_block, together, kv_heads, group, keys, below, above, row_begin, row_end, scale, slope,
            ROWS, KEYS, D, STAGES, SLOTS, 0, HIDES, PACKED,
        )),
        (_compute, (
            FirstRows, StopRows, k_s, v_s, q_s, do_s, lse_s, delta_s, ds_s,
            kv_full, q_full, do_full, empty, ds_full, ds_free, written,
            first_block, together, kv_heads, group, keys, below, above, row_begin, row_end, scale, slope,
            ROWS, KEYS, D, STAGES, SLOTS, 1, HIDES, PACKED,
        )),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
