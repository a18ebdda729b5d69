"""``key_stationary`` for heads 65 to 128 wide: a block keeps 128 keys, rows pass; two consumers own 64 keys each, and
the producer also computes dQ.

    for each tile i of rows:                                     (in each consumer g, with keys K_g, V_g)
        S^T = K_g Q_i^T;  P^T = exp2(S^T - lse)                  (P stays in registers, in two parts)
        dP^T = V_g dO_i^T;  dS^T = P^T (dP^T - delta)
        dV_g += P^T dO_i;  share dS^T;  dK_g += dS^T Q_i
    for each tile i of rows:                                     (in the producer)
        load Q_{i+2}, dO_{i+2};  dQ_i += dS K                    (half of the columns, then the others)

Scores of the next tile are issued before dK, and P computed while dK is. Only the producer waits for both consumers,
and for dQ to leave.

Registers decide the rest: threads of three warpgroups have 504 together, and 72 are left if consumers take 216. Besides
products a warpgroup needs more than 24. So a consumer has two gradients (128), a tile of scores or of dP (32, never
both), and P as two numbers of 16 bits: as dV takes it (16), and what dS needs besides (16). Of bf16 that is P in fp16,
which has three bits more; of fp16 it is what rounding takes from P, in bf16. From the P of dV alone errors of dQ and dK
would be a quarter larger (bf16: 2.9e-3 of the norm instead of 2.4e-3). dV ends before dS is shared: dK then takes dS
out of the registers of P, and not out of shared memory, which is read for most of the time.

Blocks of a head begin at different rows (``staggered_start``), so that they do not add to the same part of dQ at once.
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
    Launch,
    Ranges,
    Shape,
    accumulate,
    block_work,
    masked_at_edges,
    next_rows,
    staggered_start,
    to_fixed_point,
    whole_rows,
)
from attenio.kernels.hopper.backward.probabilities import SHIFT, for_ds, rounded, unpacked
from attenio.kernels.hopper.backward.producer import RowInputs, allocate, load_keys, load_rows
from attenio.kernels.hopper.producer import advanced

# Of a product that makes 64 rows and columns of dQ.
_SQUARE = gl.constexpr(gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16]))


@gluon.jit
def _add_half(dq_desc, dq_scale, tiles, ds_free, slot, zero, part, HALF: gl.constexpr):
    """Compute half of the columns of dQ from a slot of dS, and add them to the accumulator; the second frees it."""
    dq = gl.zeros([64, 64], gl.float32, _SQUARE)
    for keys in gl.static_range(2):
        shared, columns = tiles.ds.index(slot * 2 + keys), tiles.k.index(zero + keys).slice(HALF * 64, 64, dim=1)
        dq = warpgroup_mma(shared.permute((1, 0)), columns, dq, use_acc=keys > 0, is_async=True)
    dq = warpgroup_mma_wait(0, deps=(dq,))
    if HALF == 1:
        mbarrier.arrive(ds_free.index(slot), count=1)
    if dq_desc.dtype == gl.int32:
        dq = to_fixed_point(dq, dq_scale)
    accumulate(dq_desc, part * 2 + HALF, dq, tiles.dq.index(HALF), 64, 1)


@gluon.jit
def _producer(k_desc, v_desc, dk_desc, dv_desc, dq_desc, DQScale, inputs, ranges, tiles, barriers, launch, shape):
    """Load what the consumers compute with, compute dQ of what they share, and write the gradients that they leave."""
    KEYS: gl.constexpr = shape.KEYS
    ROWS: gl.constexpr = shape.ROWS
    block = block_work(launch, ranges, ROWS, KEYS, shape.PACKED)
    batch_head, tile, steps = block.batch_head, block.tile, block.steps
    batch, kv_head = batch_head // launch.kv_heads, batch_head % launch.kv_heads
    load_keys(k_desc, v_desc, tiles, barriers.kv_full, batch, kv_head // launch.group_parts, tile * KEYS, KEYS)
    start = staggered_start(tile, block.first_row, block.stop_row, ROWS)
    head, i, stage, phase = 0, start, 0, 1
    # The dQ accumulator is that of the heads of the launch.
    acc_head = (batch_head - launch.first_block // ((launch.keys + KEYS - 1) // KEYS)) * launch.group
    j, slot, slot_phase = start, 0, 0
    for step in range(steps + shape.STAGES):
        # Always 0, but not to the compiler: else it keeps the address of every operand in registers of its own.
        zero = step >> 30
        part = (acc_head * launch.padded + j) // 64
        dq_scale = part
        if dq_desc.dtype == gl.int32:  # loaded before the wait
            dq_scale = gl.load(DQScale + part * 64 + gl.arange(0, 64, gl.SliceLayout(1, _SQUARE)))
        # A tile is loaded between the halves of dQ, so that the compiler does not start both at once.
        if step >= shape.STAGES:
            mbarrier.wait(barriers.ds_full.index(slot), slot_phase)
            _add_half(dq_desc, dq_scale, tiles, barriers.ds_free, slot, zero, part, 0)
        if step <= steps:
            load_rows(
                inputs, tiles, barriers, stage, phase, stage, phase,
                batch_head, batch, kv_head, head, i, launch, shape, SHIFT,
            )  # fmt: skip
            i = next_rows(i, block, ROWS)
            if (i == start) & (step + 1 < steps):
                head += 1
            stage, phase = advanced(stage, phase, shape.STAGES)
        if step >= shape.STAGES:
            _add_half(dq_desc, dq_scale, tiles, barriers.ds_free, slot, zero, part, 1)
            slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
            j = next_rows(j, block, ROWS)
            if j == start:
                acc_head += 1
    mbarrier.wait(barriers.written, 0)
    for part in gl.static_range(KEYS // 64):
        at = [batch, kv_head, tile * KEYS + part * 64, 0]
        tma.async_copy_shared_to_global(dv_desc, at, tiles.v.index(part))
        tma.async_copy_shared_to_global(dk_desc, at, tiles.k.index(part))
    tma.store_wait(0)


@gluon.jit
def _probabilities(
    s, lse, i, first_key, whole_first, whole_stop, batch, ranges, launch, scale_log2, shape,
    LAYOUT: gl.constexpr, DTYPE: gl.constexpr,
):  # fmt: skip
    """P of scores of rows from i on, rounded, in pairs; only tiles that cross an end are masked."""
    s = masked_at_edges(s, i, first_key, batch, whole_first, whole_stop, ranges, launch, shape, LAYOUT)
    return rounded(gl.exp2(s * scale_log2 - lse[None, :]), DTYPE)


@gluon.jit
def _consumer(ranges, tiles, barriers, launch, scale_log2, scale, shape, ME: gl.constexpr):
    dtype: gl.constexpr = tiles.q_a.dtype
    ROWS: gl.constexpr = shape.ROWS
    D: gl.constexpr = shape.D_A
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    operand: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=grads, k_width=2)
    block = block_work(launch, ranges, ROWS, shape.KEYS, shape.PACKED)
    k_s, v_s, q_s, do_s = tiles.k, tiles.v, tiles.q_a, tiles.do_a
    batch, first_key = block.batch_head // launch.kv_heads, block.tile * shape.KEYS + ME * 64
    whole_first, whole_stop = 0, 0
    if shape.MASKED:
        whole_first, whole_stop = whole_rows(first_key, batch, ranges, launch, shape.PACKED)
    dk, dv = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, D], gl.float32, grads)
    zero_s = gl.zeros([64, ROWS], gl.float32, scores)
    i, stage, phase, slot, slot_phase = staggered_start(block.tile, block.first_row, block.stop_row, ROWS), 0, 0, 0, 1
    mbarrier.wait(barriers.kv_full, 0)
    mbarrier.wait(barriers.q_full.index(0), 0)
    s = warpgroup_mma(k_s.index(ME), q_s.index(0).permute((1, 0)), zero_s, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=(s,))
    coarse, fine = _probabilities(
        s, tiles.lse.index(0).load(gl.SliceLayout(0, scores)), i, first_key,
        whole_first, whole_stop, batch, ranges, launch, scale_log2, shape, scores, dtype,
    )  # fmt: skip
    mbarrier.wait(barriers.do_full.index(0), 0)
    dp = warpgroup_mma(v_s.index(ME), do_s.index(0).permute((1, 0)), zero_s, use_acc=False, is_async=True)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    dp = warpgroup_mma_init(dp)
    for _ in range(block.steps):
        # Always 0, but not to the compiler: else it keeps the address of every operand in registers of its own. A row
        # says it, and not the step: that would take another register.
        zero = i >> 30
        q, do = q_s.index(stage), do_s.index(stage)
        p16 = gl.convert_layout(unpacked(coarse, dtype), operand, assert_trivial=True)
        dp = warpgroup_mma_wait(0, deps=(dp,))
        dv = warpgroup_mma(p16, do, dv, is_async=True)
        delta = tiles.delta.index(stage).load(gl.SliceLayout(0, scores))
        weights = gl.convert_layout(for_ds(coarse, fine, dtype), scores, assert_trivial=True)
        ds = (weights * (dp * (0.5**SHIFT) - delta[None, :])).to(dtype)
        dv, p16, ds = warpgroup_mma_wait(0, deps=(dv, p16, ds))
        mbarrier.wait(barriers.ds_free.index(slot), slot_phase)
        tiles.ds.index(slot * 2 + ME).store(ds)
        fence_async_shared()
        mbarrier.arrive(barriers.ds_full.index(slot), count=1)
        ds16 = gl.convert_layout(ds, operand, assert_trivial=True)
        before = stage
        stage, phase = advanced(stage, phase, shape.STAGES)
        mbarrier.wait(barriers.q_full.index(stage), phase)
        i = next_rows(i, block, ROWS)
        s = warpgroup_mma(k_s.index(zero + ME), q_s.index(stage).permute((1, 0)), zero_s, use_acc=False, is_async=True)
        dk = warpgroup_mma(ds16, q, dk, is_async=True)
        s = warpgroup_mma_wait(1, deps=(s,))
        coarse, fine = _probabilities(
            s, tiles.lse.index(stage).load(gl.SliceLayout(0, scores)), i, first_key + zero,
            whole_first, whole_stop, batch, ranges, launch, scale_log2, shape, scores, dtype,
        )  # fmt: skip
        dk, ds16, coarse, fine = warpgroup_mma_wait(0, deps=(dk, ds16, coarse, fine))
        mbarrier.arrive(barriers.q_empty.index(before), count=1)
        mbarrier.wait(barriers.do_full.index(stage), phase)
        # The next dP is all that is in flight when the loop begins again: otherwise the compiler would let every
        # product wait for the one before.
        dp = warpgroup_mma(
            v_s.index(zero + ME), do_s.index(stage).permute((1, 0)), zero_s, use_acc=False, is_async=True
        )
        slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    # When all slots are free, dQ is done, and keys are read no more.
    for _ in gl.static_range(shape.SLOTS):
        mbarrier.wait(barriers.ds_free.index(slot), slot_phase)
        slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
    v_s.index(ME).store((dv * (0.5**SHIFT)).to(dtype))
    k_s.index(ME).store((dk * scale).to(dtype))
    fence_async_shared()
    mbarrier.arrive(barriers.written, count=1)


@gluon.jit(do_not_specialize=ANY_NUMBER, do_not_specialize_on_alignment=[*ANY_PLACE, "DQScale"])
def key_stationary_d128_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, Lse, Delta, FirstRows, StopRows,
    scale_log2, scale, first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end,
    padded, DQScale,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    MASKED: gl.constexpr, PACKED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Arguments are those of the kernel for heads up to 64 wide."""
    shape: gl.constexpr = Shape(ROWS, KEYS, D, 0, D, 0, STAGES, SLOTS, MASKED, PACKED)
    tiles, barriers = allocate(q_desc.dtype, dq_desc.dtype, shape, 1, False)
    inputs, ranges = RowInputs(q_desc, None, do_desc, None, Lse, Delta), Ranges(FirstRows, StopRows)
    launch = Launch(
        first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end, padded
    )  # fmt: skip
    gl.warp_specialize([
        (_producer, (
            k_desc, v_desc, dk_desc, dv_desc, dq_desc, DQScale, inputs, ranges, tiles, barriers, launch, shape,
        )),
        (_consumer, (ranges, tiles, barriers, launch, scale_log2, scale, shape, 0)),
        (_consumer, (ranges, tiles, barriers, launch, scale_log2, scale, shape, 1)),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
