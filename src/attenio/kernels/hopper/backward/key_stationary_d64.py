"""``key_stationary`` for heads up to 64 wide: a block keeps 128 keys, rows pass; two consumers own 64 keys each.

    for each tile i of rows:                                     (in each consumer g, with keys K_g, V_g)
        S^T = K_g Q_i^T;  dP^T = V_g dO_i^T
        P^T = exp2(S^T - lse);  dS^T = P^T (dP^T - delta)        (both stay in registers)
        dV_g += P^T dO_i;  dK_g += dS^T Q_i
        share dS^T;  half of the rows of dQ_{i-1} += dS K

Scores of the next tile are issued before a part of dQ is added, and its dP right after. dQ comes a tile late, so that
consumers do not wait for each other: while one computes P, the other has the tensor cores. Blocks of a head begin at
different rows (``staggered_start``), so that they do not add to the same part of dQ at once.
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
from attenio.kernels.hopper.backward.producer import RowInputs, allocate, issue_first_rows, load_keys, load_row_tiles
from attenio.kernels.hopper.producer import advanced


@gluon.jit
def _staging(ds_s, part):
    """Where a consumer leaves its gradients: where it has shared dS, because it has addresses of these and no register
    for others.
    """
    return ds_s.index(part).slice(0, 64, dim=1), ds_s.index(part).slice(64, 64, dim=1)


@gluon.jit
def _producer(dk_desc, dv_desc, inputs, tiles, barriers, block, launch, shape):
    """Load the rows that the consumers compute with, and write the gradients that they leave."""
    batch, kv_head = block.batch_head // launch.kv_heads, block.batch_head % launch.kv_heads
    first_key = block.tile * shape.KEYS
    load_row_tiles(inputs, tiles, barriers, block, launch, shape, shape.STAGES, shape.STAGES, 0)
    mbarrier.wait(barriers.written, 0)
    for part in gl.static_range(shape.KEYS // 64):
        at = [batch, kv_head, first_key + part * 64, 0]
        dk_s, dv_s = _staging(tiles.ds, part)
        tma.async_copy_shared_to_global(dv_desc, at, dv_s)
        tma.async_copy_shared_to_global(dk_desc, at, dk_s)
    tma.store_wait(0)


@gluon.jit
def _issue_half(ds_s, k_s, dq, slot, zero, ME: gl.constexpr):
    """Issue a consumer's half of dQ, from what both have shared."""
    for part in gl.static_range(2):
        shared = ds_s.index(slot * 2 + part).slice(ME * 64, 64, dim=1)
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
def _load_scale(DQScale, part, LAYOUT: gl.constexpr):
    """The fixed-point scales of the rows of a part of dQ."""
    return gl.load(DQScale + part * 64 + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT)))


@gluon.jit
def _consumer(
    dq_desc, DQScale, ranges, tiles, barriers, block, launch, scale_log2, scale, shape, ME: gl.constexpr
):  # fmt: skip
    dtype: gl.constexpr = tiles.q_a.dtype
    ROWS: gl.constexpr = shape.ROWS
    D: gl.constexpr = shape.D_A
    scores: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    square: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=grads, k_width=2)
    FIXED_POINT: gl.constexpr = dq_desc.dtype == gl.int32
    k_s, v_s, q_s, do_s, ds_s, dq_s = tiles.k, tiles.v, tiles.q_a, tiles.do_a, tiles.ds, tiles.dq
    batch, first_key = block.batch_head // launch.kv_heads, block.tile * shape.KEYS + ME * 64
    whole_first, whole_stop = 0, 0
    if shape.MASKED:
        whole_first, whole_stop = whole_rows(first_key, batch, ranges, launch, shape.PACKED)
    dk, dv = gl.zeros([64, D], gl.float32, grads), gl.zeros([64, D], gl.float32, grads)
    zero_s, zero_dq = gl.zeros([64, ROWS], gl.float32, scores), gl.zeros([64, 64], gl.float32, square)
    # The dQ accumulator is that of the heads of the launch.
    head = (block.batch_head - launch.first_block // ((launch.keys + shape.KEYS - 1) // shape.KEYS)) * launch.group
    i, stage, phase, slot, slot_phase, part = block.start, 0, 0, 0, 0, 0
    mbarrier.wait(barriers.kv_full, 0)
    mbarrier.wait(barriers.q_full.index(0), 0)
    s = warpgroup_mma(k_s.index(ME), q_s.index(0).permute((1, 0)), zero_s, use_acc=False, is_async=True)
    mbarrier.wait(barriers.do_full.index(0), 0)
    dp = warpgroup_mma(v_s.index(ME), do_s.index(0).permute((1, 0)), zero_s, use_acc=False, is_async=True)
    s, dp = warpgroup_mma_wait(0, deps=(s, dp))
    dp = warpgroup_mma_init(dp)
    for step in range(block.steps):
        # Always 0, but not to the compiler: else it keeps the address of every operand in registers of its own.
        zero = step >> 30
        q, do = q_s.index(stage), do_s.index(stage)
        seen = masked_at_edges(
            s, i, first_key + zero, batch, whole_first, whole_stop, ranges, launch, shape, scores
        )  # fmt: skip
        lse = tiles.lse.index(stage).load(gl.SliceLayout(0, scores))
        p = gl.exp2(seen * scale_log2 - lse[None, :])
        p16 = gl.convert_layout(p.to(dtype), operand, assert_trivial=True)
        dp = warpgroup_mma_wait(0, deps=(dp,))
        dv = warpgroup_mma(p16, do, dv, is_async=True)
        delta = tiles.delta.index(stage).load(gl.SliceLayout(0, scores))
        ds = (p * (dp - delta[None, :])).to(dtype)
        mbarrier.wait(barriers.ds_free.index(slot), slot_phase ^ 1)
        ds_s.index(slot * 2 + ME).store(ds)
        fence_async_shared()
        mbarrier.arrive(barriers.ds_full.index(slot), count=1)
        ds16 = gl.convert_layout(ds, operand, assert_trivial=True)
        dk = warpgroup_mma(ds16, q, dk, is_async=True)
        if FIXED_POINT:
            dq_scale = _load_scale(DQScale, part, square)
        # dQ of the tile before (garbage at first, which is not added).
        last_slot, last_phase = _before(slot, slot_phase, shape.SLOTS)
        mbarrier.wait(barriers.ds_full.index(last_slot), last_phase)
        dq = _issue_half(ds_s, k_s, zero_dq, last_slot, zero, ME)
        dv, dk, p16, ds16 = warpgroup_mma_wait(2, deps=(dv, dk, p16, ds16))
        mbarrier.arrive(barriers.q_empty.index(stage), count=1)
        stage, phase = advanced(stage, phase, shape.STAGES)
        mbarrier.wait(barriers.q_full.index(stage), phase)
        s = warpgroup_mma(k_s.index(zero + ME), q_s.index(stage).permute((1, 0)), zero_s, use_acc=False, is_async=True)
        dq = warpgroup_mma_wait(1, deps=(dq,))
        if step > 0:
            mbarrier.arrive(barriers.ds_free.index(last_slot), count=1)
            if FIXED_POINT:
                accumulate(dq_desc, part * 64, to_fixed_point(dq, dq_scale), dq_s.index(ME), 64)
            else:
                accumulate(dq_desc, part * 64, dq, dq_s.index(ME), 64)
        part = (head * launch.padded + i) // 64 + ME
        mbarrier.wait(barriers.do_full.index(stage), phase)
        dp = warpgroup_mma(
            v_s.index(zero + ME), do_s.index(stage).permute((1, 0)), zero_s, use_acc=False, is_async=True
        )
        s = warpgroup_mma_wait(1, deps=(s,))
        slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
        i = next_rows(i, block, ROWS)
        if i == block.start:
            head += 1
    dp = warpgroup_mma_wait(0, deps=(dp,))
    if block.steps > 0:
        last_slot, last_phase = _before(slot, slot_phase, shape.SLOTS)
        mbarrier.wait(barriers.ds_full.index(last_slot), last_phase)
        dq = _issue_half(ds_s, k_s, zero_dq, last_slot, 0, ME)
        dq = warpgroup_mma_wait(0, deps=(dq,))
        if FIXED_POINT:
            dq = to_fixed_point(dq, _load_scale(DQScale, part, square))
        accumulate(dq_desc, part * 64, dq, dq_s.index(ME), 64)
    mbarrier.arrive(barriers.finished, count=1)
    mbarrier.wait(barriers.finished, 0)
    dk_s, dv_s = _staging(ds_s, ME)
    dv_s.store(dv.to(dtype))
    dk_s.store((dk * scale).to(dtype))
    fence_async_shared()
    mbarrier.arrive(barriers.written, count=1)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=ANY_NUMBER, do_not_specialize_on_alignment=[*ANY_PLACE, "DQScale"])
def key_stationary_d64_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, Lse, Delta, FirstRows, StopRows,
    scale_log2, scale, first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end,
    padded, DQScale,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    MASKED: gl.constexpr, PACKED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Rows from ``row_begin`` to ``row_end``, for blocks from ``first_block``, of heads that come ``together``.

    The dQ accumulator is that of the heads of this launch; of integers ``DQScale`` has the fixed-point scale of each
    row.
    """
    shape: gl.constexpr = Shape(ROWS, KEYS, D, 0, D, 0, STAGES, SLOTS, MASKED, PACKED)
    tiles, barriers = allocate(q_desc.dtype, dq_desc.dtype, shape, 2, True)
    ranges = Ranges(FirstRows, StopRows)
    launch = Launch(
        first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end, padded
    )  # fmt: skip
    work = block_work(launch, ranges, ROWS, KEYS, PACKED)
    start = staggered_start(work.tile, work.first_row, work.stop_row, ROWS)
    block = Block(work.batch_head, work.tile, start, work.first_row, work.stop_row, work.steps)
    inputs = RowInputs(q_desc, None, do_desc, None, Lse, Delta)
    load_keys(k_desc, v_desc, None, None, tiles, barriers.kv_full, block, launch, shape)
    issue_first_rows(inputs, tiles, barriers, block, launch, shape)
    gl.warp_specialize([
        (_producer, (dk_desc, dv_desc, inputs, tiles, barriers, block, launch, shape)),
        (_consumer, (dq_desc, DQScale, ranges, tiles, barriers, block, launch, scale_log2, scale, shape, 0)),
        (_consumer, (dq_desc, DQScale, ranges, tiles, barriers, block, launch, scale_log2, scale, shape, 1)),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
