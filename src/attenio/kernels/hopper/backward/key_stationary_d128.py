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

Heads up to 96 wide are two tiles side by side, of 64 and 32 columns: a quarter fewer products than in 128 columns, of
which a quarter would be zeros, and shared memory for a third tile of rows (measured: 13 to 17 percent faster).

Blocks of a head begin at different rows (``staggered_start``), so that they do not add to the same part of dQ at once.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

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
    Block,
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
from attenio.kernels.hopper.backward.producer import RowInputs, allocate, issue_first_rows, load_keys, load_rows
from attenio.kernels.hopper.producer import advanced

# TMA descriptors of the gradients that a block leaves; B is None where all columns are in A.
_Gradients = namedtuple("_Gradients", "dk_a dk_b dv_a dv_b dq_a dq_b")
# Of a product that makes 64 rows and columns of dQ.
_SQUARE = gl.constexpr(gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16]))


@gluon.jit
def _add_half(dq_desc, dq_scale, tiles, ds_free, slot, zero, at, shape, HALF: gl.constexpr):
    """Compute half of the columns of dQ from a slot of dS, and add them to the accumulator; the second frees it.

    The second half are the columns beside the first tile where there are some.
    """
    BESIDE: gl.constexpr = HALF == 1 and shape.D_B > 0
    COLUMNS: gl.constexpr = shape.D_B if BESIDE else 64
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, COLUMNS, 16]
    )
    dq = gl.zeros([64, COLUMNS], gl.float32, layout)
    for keys in gl.static_range(2):
        if BESIDE:
            columns = tiles.k_b.index(zero + keys)
        elif shape.D_B > 0:
            columns = tiles.k.index(zero + keys)
        else:
            columns = tiles.k.index(zero + keys).slice(HALF * 64, 64, dim=1)
        shared = tiles.ds.index(slot * 2 + keys)
        dq = warpgroup_mma(shared.permute((1, 0)), columns, dq, use_acc=keys > 0, is_async=True)
    dq = warpgroup_mma_wait(0, deps=(dq,))
    if HALF == 1:
        mbarrier.arrive(ds_free.index(slot), count=1)
    if dq_desc.dtype == gl.int32:
        dq = to_fixed_point(dq, gl.convert_layout(dq_scale, gl.SliceLayout(1, layout), assert_trivial=True))
    staged = tiles.dq_b.index(0) if BESIDE else tiles.dq.index(0 if shape.D_B > 0 else HALF)
    accumulate(dq_desc, at + HALF * 64, dq, staged, COLUMNS, 1)


@gluon.jit
def _producer(gradients, DQScale, inputs, tiles, barriers, block, launch, shape):
    """Load the rows that the consumers compute with, compute dQ of what these share, and write the gradients that they
    leave."""
    KEYS: gl.constexpr = shape.KEYS
    ROWS: gl.constexpr = shape.ROWS
    D_A: gl.constexpr = shape.D_A
    batch_head, tile, steps, start = block.batch_head, block.tile, block.steps, block.start
    batch, kv_head = batch_head // launch.kv_heads, batch_head % launch.kv_heads
    dq_desc = gradients.dq_a
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
            _add_half(dq_desc, dq_scale, tiles, barriers.ds_free, slot, zero, part * (D_A + shape.D_B), shape, 0)
        if step < steps:
            load_rows(
                inputs, tiles, barriers, stage, phase, stage, phase,
                batch_head, batch, kv_head, head, i, step, launch, shape, SHIFT,
            )  # fmt: skip
            i = next_rows(i, block, ROWS)
            if (i == start) & (step + 1 < steps):
                head += 1
            stage, phase = advanced(stage, phase, shape.STAGES)
        if step >= shape.STAGES:
            beside = gradients.dq_b if shape.D_B > 0 else dq_desc
            _add_half(beside, dq_scale, tiles, barriers.ds_free, slot, zero, part * (D_A + shape.D_B), shape, 1)
            slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
            j = next_rows(j, block, ROWS)
            if j == start:
                acc_head += 1
    mbarrier.wait(barriers.written, 0)
    for part in gl.static_range(KEYS // 64):
        at = [batch, kv_head, tile * KEYS + part * 64, 0]
        tma.async_copy_shared_to_global(gradients.dv_a, at, tiles.v.index(part))
        tma.async_copy_shared_to_global(gradients.dk_a, at, tiles.k.index(part))
        if shape.D_B > 0:
            beside_at = [batch, kv_head, tile * KEYS + part * 64, D_A]
            tma.async_copy_shared_to_global(gradients.dv_b, beside_at, tiles.v_b.index(part))
            tma.async_copy_shared_to_global(gradients.dk_b, beside_at, tiles.k_b.index(part))
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
def _issue_product(kept, rows, kept_b, rows_b, zeros, shape):
    """Start K Q^T or V dO^T of 64 keys, with the columns beside the first tile where there are some."""
    product = warpgroup_mma(kept, rows.permute((1, 0)), zeros, use_acc=False, is_async=True)
    if shape.D_B > 0:
        product = warpgroup_mma(kept_b, rows_b.permute((1, 0)), product, is_async=True)
    return product


@gluon.jit
def _row_tile(
    dp, coarse, fine, dk, dk_b, dv, dv_b, i, stage, phase, slot, slot_phase, zeros, first_key, whole_first, whole_stop,
    ranges, tiles, barriers, block, launch, scale_log2, shape, ME: gl.constexpr, LAST: gl.constexpr,
):  # fmt: skip
    """Add a tile of rows to the gradients and share its dS; compute P of the next and issue its dP."""
    dtype: gl.constexpr = tiles.q_a.dtype
    scores: gl.constexpr = zeros.type.layout
    operand: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=dk.type.layout, k_width=2)
    operand_b: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=dk_b.type.layout, k_width=2)
    D_B: gl.constexpr = shape.D_B
    # Always 0, but not to the compiler: else it keeps the address of every operand in registers of its own. A row
    # says it, and not the step: that would take another register.
    zero = i >> 30
    q, do = tiles.q_a.index(stage), tiles.do_a.index(stage)
    p16 = gl.convert_layout(unpacked(coarse, dtype), operand, assert_trivial=True)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    dv = warpgroup_mma(p16, do, dv, is_async=True)
    if D_B > 0:
        p_b = gl.convert_layout(p16, operand_b, assert_trivial=True)
        dv_b = warpgroup_mma(p_b, tiles.do_b.index(stage), dv_b, is_async=True)
    delta = tiles.delta.index(stage).load(gl.SliceLayout(0, scores))
    weights = gl.convert_layout(for_ds(coarse, fine, dtype), scores, assert_trivial=True)
    ds = (weights * (dp * (0.5**SHIFT) - delta[None, :])).to(dtype)
    if D_B > 0:
        dv, dv_b, p16, p_b, ds = warpgroup_mma_wait(0, deps=(dv, dv_b, p16, p_b, ds))
    else:
        dv, p16, ds = warpgroup_mma_wait(0, deps=(dv, p16, ds))
    mbarrier.wait(barriers.ds_free.index(slot), slot_phase)
    tiles.ds.index(slot * 2 + ME).store(ds)
    fence_async_shared()
    mbarrier.arrive(barriers.ds_full.index(slot), count=1)
    ds16 = gl.convert_layout(ds, operand, assert_trivial=True)
    before = stage
    if not LAST:
        stage, phase = advanced(stage, phase, shape.STAGES)
        mbarrier.wait(barriers.q_full.index(stage), phase)
        i = next_rows(i, block, shape.ROWS)
        s = _issue_product(
            tiles.k.index(zero + ME), tiles.q_a.index(stage), tiles.k_b.index(zero + ME), tiles.q_b.index(stage),
            zeros, shape,
        )  # fmt: skip
    dk = warpgroup_mma(ds16, q, dk, is_async=True)
    if D_B > 0:
        ds_b = gl.convert_layout(ds16, operand_b, assert_trivial=True)
        dk_b = warpgroup_mma(ds_b, tiles.q_b.index(before), dk_b, is_async=True)
    if not LAST:
        s = warpgroup_mma_wait(2 if D_B > 0 else 1, deps=(s,))
        coarse, fine = _probabilities(
            s, tiles.lse.index(stage).load(gl.SliceLayout(0, scores)), i, first_key + zero, whole_first, whole_stop,
            block.batch_head // launch.kv_heads, ranges, launch, scale_log2, shape, scores, dtype,
        )  # fmt: skip
    if D_B > 0:
        dk, dk_b, ds16, ds_b, coarse, fine = warpgroup_mma_wait(0, deps=(dk, dk_b, ds16, ds_b, coarse, fine))
    else:
        dk, ds16, coarse, fine = warpgroup_mma_wait(0, deps=(dk, ds16, coarse, fine))
    mbarrier.arrive(barriers.q_empty.index(before), count=1)
    if not LAST:
        mbarrier.wait(barriers.do_full.index(stage), phase)
        # The next dP is all that is in flight when the loop begins again: otherwise the compiler would let every
        # product wait for the one before.
        dp = _issue_product(
            tiles.v.index(zero + ME), tiles.do_a.index(stage), tiles.v_b.index(zero + ME), tiles.do_b.index(stage),
            zeros, shape,
        )  # fmt: skip
    slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
    return dp, coarse, fine, dk, dk_b, dv, dv_b, i, stage, phase, slot, slot_phase


@gluon.jit
def _consumer(ranges, tiles, barriers, launch, scale_log2, scale, shape, ME: gl.constexpr):
    dtype: gl.constexpr = tiles.q_a.dtype
    ROWS: gl.constexpr = shape.ROWS
    D: gl.constexpr = shape.D_A
    D_B: gl.constexpr = shape.D_B
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    grads_b: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D_B if D_B > 0 else D, 16])
    block = block_work(launch, ranges, ROWS, shape.KEYS, shape.PACKED)
    k_s, v_s, q_s, do_s = tiles.k, tiles.v, tiles.q_a, tiles.do_a
    batch, first_key = block.batch_head // launch.kv_heads, block.tile * shape.KEYS + ME * 64
    whole_first, whole_stop = 0, 0
    if shape.MASKED:
        whole_first, whole_stop = whole_rows(first_key, batch, ranges, launch, shape.PACKED)
    dk, dv = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, D], gl.float32, grads)
    dk_b = gl.zeros([64, D_B if D_B > 0 else D], gl.float32, grads_b)
    dv_b = dk_b
    zeros = gl.zeros([64, ROWS], gl.float32, scores)
    i, stage, phase, slot, slot_phase = staggered_start(block.tile, block.first_row, block.stop_row, ROWS), 0, 0, 0, 1
    mbarrier.wait(barriers.kv_full, 0)
    if block.steps > 0:
        mbarrier.wait(barriers.q_full.index(0), 0)
        s = _issue_product(k_s.index(ME), q_s.index(0), tiles.k_b.index(ME), tiles.q_b.index(0), zeros, shape)
        s = warpgroup_mma_wait(0, deps=(s,))
        coarse, fine = _probabilities(
            s, tiles.lse.index(0).load(gl.SliceLayout(0, scores)), i, first_key,
            whole_first, whole_stop, batch, ranges, launch, scale_log2, shape, scores, dtype,
        )  # fmt: skip
        mbarrier.wait(barriers.do_full.index(0), 0)
        dp = _issue_product(v_s.index(ME), do_s.index(0), tiles.v_b.index(ME), tiles.do_b.index(0), zeros, shape)
        dp = warpgroup_mma_wait(0, deps=(dp,))
        dp = warpgroup_mma_init(dp)
        for _ in range(block.steps - 1):
            dp, coarse, fine, dk, dk_b, dv, dv_b, i, stage, phase, slot, slot_phase = _row_tile(
                dp, coarse, fine, dk, dk_b, dv, dv_b, i, stage, phase, slot, slot_phase, zeros, first_key, whole_first,
                whole_stop, ranges, tiles, barriers, block, launch, scale_log2, shape, ME, False,
            )  # fmt: skip
        dp, coarse, fine, dk, dk_b, dv, dv_b, i, stage, phase, slot, slot_phase = _row_tile(
            dp, coarse, fine, dk, dk_b, dv, dv_b, i, stage, phase, slot, slot_phase, zeros, first_key, whole_first,
            whole_stop, ranges, tiles, barriers, block, launch, scale_log2, shape, ME, True,
        )  # fmt: skip
    # When all slots are free, dQ is done, and keys are read no more.
    for _ in gl.static_range(shape.SLOTS):
        mbarrier.wait(barriers.ds_free.index(slot), slot_phase)
        slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
    v_s.index(ME).store((dv * (0.5**SHIFT)).to(dtype))
    k_s.index(ME).store((dk * scale).to(dtype))
    if D_B > 0:
        tiles.v_b.index(ME).store((dv_b * (0.5**SHIFT)).to(dtype))
        tiles.k_b.index(ME).store((dk_b * scale).to(dtype))
    fence_async_shared()
    mbarrier.arrive(barriers.written, count=1)


@gluon.jit(do_not_specialize=ANY_NUMBER, do_not_specialize_on_alignment=[*ANY_PLACE, "DQScale"])
def key_stationary_d128_kernel(
    q_a, q_b, k_a, k_b, v_a, v_b, do_a, do_b, dk_a, dk_b, dv_a, dv_b, dq_a, dq_b, Lse, Delta, FirstRows, StopRows,
    scale_log2, scale, first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end,
    padded, DQScale,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D_A: gl.constexpr, D_B: gl.constexpr, STAGES: gl.constexpr,
    SLOTS: gl.constexpr, MASKED: gl.constexpr, PACKED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Arguments are those of the kernel for heads up to 64 wide; B are columns beside those of A, or None."""
    shape: gl.constexpr = Shape(ROWS, KEYS, D_A, D_B, D_A, D_B, STAGES, SLOTS, MASKED, PACKED)
    tiles, barriers = allocate(q_a.dtype, dq_a.dtype, shape, 1, False)
    inputs, ranges = RowInputs(q_a, q_b, do_a, do_b, Lse, Delta), Ranges(FirstRows, StopRows)
    launch = Launch(
        first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end, padded
    )  # fmt: skip
    gradients = _Gradients(dk_a, dk_b, dv_a, dv_b, dq_a, dq_b)
    work = block_work(launch, ranges, ROWS, KEYS, PACKED)
    start = staggered_start(work.tile, work.first_row, work.stop_row, ROWS)
    block = Block(work.batch_head, work.tile, start, work.first_row, work.stop_row, work.steps)
    load_keys(k_a, v_a, k_b, v_b, tiles, barriers.kv_full, block, launch, shape)
    if block.steps > 0:
        issue_first_rows(inputs, tiles, barriers, block, launch, shape)
    gl.warp_specialize([
        (_producer, (gradients, DQScale, inputs, tiles, barriers, block, launch, shape)),
        (_consumer, (ranges, tiles, barriers, launch, scale_log2, scale, shape, 0)),
        (_consumer, (ranges, tiles, barriers, launch, scale_log2, scale, shape, 1)),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
