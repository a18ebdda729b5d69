"""``spilled_gradients``, dK and dV of heads up to 256 wide: a block keeps 64 keys, rows pass; two consumers divide the
products.

    for each tile i of 64 rows:
        P consumer:   S^T = K Q_i^T;  P^T = exp2(S^T - lse);  share P^T;           dV += P^T dO_i
        dS consumer:  dP^T = V dO_i^T;  dS^T = P^T (dP^T - delta);  spill dS^T;    dK += dS^T Q_i

Each consumer keeps one gradient whole, so that P and dS reach the tensor cores from registers. It also holds its K or V
there, or half of the columns of 256: all four products from shared memory would take longer to read than to compute. A
width of 192 is two tiles side by side, 128 + 64 (A and B below), so that no product is padded to 256.
P is shared when its product has been issued, which measured a tenth faster than before it. Up to 192 columns it is
shared in fp16 also where dV takes it in bf16: of a P with the digits of bf16, dS has half as much error again.
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
    masked_edges,
    next_rows,
    spill_ds,
    visible_rows,
    whole_rows,
)
from attenio.kernels.hopper.backward.probabilities import SHIFT, as_fp16
from attenio.kernels.hopper.backward.producer import Barriers, RowInputs, Tiles, issue_first_rows, load_row_tiles
from attenio.kernels.hopper.producer import advanced

# Where the keys that the block keeps are, and the dS of these.
_Place = namedtuple("_Place", "batch kv_head first_key ds_slot")


@gluon.jit
def _held(place, rest, DTYPE: gl.constexpr, LAYOUT: gl.constexpr, B: gl.constexpr):
    """Columns of keys or values for registers, which came to where P or dS will be; and the rest of them."""
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    operand: gl.constexpr = gl.DotOperandLayout(0, LAYOUT, k_width=2)
    held = place._reinterpret(DTYPE, [64, 128], tiled).load(operand)
    if B > 0:
        others = place.index(2)._reinterpret(DTYPE, [64, B], tiled).load(operand)
    else:
        others = rest
    return held, others


@gluon.jit
def _issue_scores(held, others, rows_a, rows_b, zeros, A: gl.constexpr, B: gl.constexpr):
    """Issue the product of keys or values with rows: the columns in registers, then the others."""
    if A > 128:
        first, second = rows_a.slice(0, A // 2, dim=1), rows_a.slice(A // 2, A // 2, dim=1)
        s = warpgroup_mma(held, first.permute((1, 0)), zeros, use_acc=False, is_async=True)
        s = warpgroup_mma(others, second.permute((1, 0)), s, is_async=True)
    else:
        s = warpgroup_mma(held, rows_a.permute((1, 0)), zeros, use_acc=False, is_async=True)
        if B > 0:
            s = warpgroup_mma(others, rows_b.permute((1, 0)), s, is_async=True)
    return s


@gluon.jit
def _epilogue(
    desc_a, desc_b, place, gradient, gradient_b, rows_a, rows_b, A: gl.constexpr, B: gl.constexpr, ADDS: gl.constexpr
):  # fmt: skip
    """Write a block's gradient, or add it to an accumulator, by way of the memory of row tiles."""
    if ADDS:
        plain: gl.constexpr = gl.NVMMASharedLayout(0, 32, rank=2)
        part = gl.program_id(0) * ((A + B) // 64)
        accumulate(desc_a, part * 64, gradient, rows_a._reinterpret(gl.float32, [A, 64], plain), A)
        if B > 0:
            staged = rows_b._reinterpret(gl.float32, [B, 64], plain)
            accumulate(desc_b, part * 64 + A, gradient_b, staged, B)
    else:
        rows_a.index(0).store(gradient.to(rows_a.dtype))
        if B > 0:
            rows_b.index(0).store(gradient_b.to(rows_b.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(desc_a, [place.batch, place.kv_head, place.first_key, 0], rows_a.index(0))
        if B > 0:
            tma.async_copy_shared_to_global(desc_b, [place.batch, place.kv_head, place.first_key, A], rows_b.index(0))
    tma.store_wait(0)


@gluon.jit
def _p_consumer(
    dv_a, dv_b, ranges, tiles, barriers, place, block, launch, scale_log2, shape, ADDS: gl.constexpr,
    P_SHIFT: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = tiles.q_a.dtype
    ROWS: gl.constexpr = shape.ROWS
    V_A: gl.constexpr = shape.V_A
    V_B: gl.constexpr = shape.V_B
    D_A: gl.constexpr = shape.D_A
    D_B: gl.constexpr = shape.D_B
    scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_A, 16])
    beside: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_B if V_B > 0 else V_A, 16])
    PRODUCTS: gl.constexpr = 2 if D_A + D_B > 128 else 1
    q_sa, q_sb, do_sa, do_sb, p_s = tiles.q_a, tiles.q_b, tiles.do_a, tiles.do_b, tiles.p
    dv, zeros = gl.zeros([64, V_A], gl.float32, grads), gl.zeros([64, ROWS], gl.float32, scores)
    dv_beside = gl.zeros([64, V_B if V_B > 0 else V_A], gl.float32, beside)
    if shape.MASKED:
        own = place.first_key + gl.arange(0, 64, gl.SliceLayout(1, scores))
        first, stop = visible_rows(own, place.batch, ranges, launch, shape.PACKED)
        whole_first, whole_stop = whole_rows(place.first_key, place.batch, ranges, launch, shape.PACKED)
    i, stage, phase, slot, slot_phase = block.first_row, 0, 0, 0, 0
    mbarrier.wait(barriers.kv_full, 0)
    held, others = _held(p_s, tiles.k, dtype, scores, D_B)
    mbarrier.wait(barriers.q_full.index(0), 0)
    s = _issue_scores(held, others, q_sa.index(0), q_sb.index(0), zeros, D_A, D_B)
    s = warpgroup_mma_wait(0, deps=(s,))
    for _ in range(block.steps):
        lse = tiles.lse.index(stage).load(gl.SliceLayout(0, scores))
        seen = s
        if shape.MASKED:
            seen = masked_edges(s, i, first, stop, whole_first, whole_stop, scores, ROWS)
        weights = gl.exp2(seen * scale_log2 - lse[None, :])
        p = weights.to(dtype)
        # These rows are here only when the dS consumer has read what this slot of P held.
        mbarrier.wait(barriers.do_full.index(slot), slot_phase)
        p16 = gl.convert_layout(p, gl.DotOperandLayout(0, grads, k_width=2), assert_trivial=True)
        dv = warpgroup_mma(p16, do_sa.index(slot), dv, is_async=True)
        if V_B > 0:
            p16_b = gl.convert_layout(p, gl.DotOperandLayout(0, beside, k_width=2), assert_trivial=True)
            dv_beside = warpgroup_mma(p16_b, do_sb.index(slot), dv_beside, is_async=True)
        p_s.index(slot).store(as_fp16(weights) if P_SHIFT > 0 else p)
        mbarrier.arrive(barriers.p_full.index(slot), count=1)
        stage, phase = advanced(stage, phase, shape.STAGES)
        mbarrier.wait(barriers.q_full.index(stage), phase)
        s = _issue_scores(held, others, q_sa.index(stage), q_sb.index(stage), zeros, D_A, D_B)
        if V_B > 0:
            dv, dv_beside, p16, p16_b = warpgroup_mma_wait(PRODUCTS, deps=(dv, dv_beside, p16, p16_b))
        else:
            dv, p16 = warpgroup_mma_wait(PRODUCTS, deps=(dv, p16))
        mbarrier.arrive(barriers.do_empty.index(slot), count=1)
        slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
        i = next_rows(i, block, ROWS)
        s = warpgroup_mma_wait(0, deps=(s,))
    mbarrier.arrive(barriers.finished, count=1)
    mbarrier.wait(barriers.finished, 0)
    if P_SHIFT > 0:
        dv, dv_beside = dv * 0.5**P_SHIFT, dv_beside * 0.5**P_SHIFT
    _epilogue(dv_a, dv_b, place, dv, dv_beside, do_sa, do_sb, V_A, V_B, ADDS)


@gluon.jit
def _ds_consumer(
    dk_a, dk_b, ds_desc, tiles, barriers, place, block, launch, scale, shape, ADDS: gl.constexpr, P_SHIFT: gl.constexpr
):  # fmt: skip
    dtype: gl.constexpr = tiles.q_a.dtype
    ROWS: gl.constexpr = shape.ROWS
    V_A: gl.constexpr = shape.V_A
    V_B: gl.constexpr = shape.V_B
    D_A: gl.constexpr = shape.D_A
    D_B: gl.constexpr = shape.D_B
    scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    grads: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D_A, 16])
    beside: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D_B if D_B > 0 else D_A, 16])
    PRODUCTS: gl.constexpr = 2 if V_A + V_B > 128 else 1
    q_sa, q_sb, do_sa, do_sb, p_s, ds_s = tiles.q_a, tiles.q_b, tiles.do_a, tiles.do_b, tiles.p, tiles.ds
    dk, zeros = gl.zeros([64, D_A], gl.float32, grads), gl.zeros([64, ROWS], gl.float32, scores)
    dk_beside = gl.zeros([64, D_B if D_B > 0 else D_A], gl.float32, beside)
    head, i, stage, phase, slot, slot_phase = 0, block.first_row, 0, 0, 0, 0
    mbarrier.wait(barriers.kv_full, 0)
    held, others = _held(ds_s, tiles.v, dtype, scores, V_B)
    mbarrier.wait(barriers.do_full.index(0), 0)
    dp = _issue_scores(held, others, do_sa.index(0), do_sb.index(0), zeros, V_A, V_B)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    for _ in range(block.steps):
        mbarrier.wait(barriers.q_full.index(stage), phase)
        delta = tiles.delta.index(stage).load(gl.SliceLayout(0, scores))
        if P_SHIFT > 0:
            ds = dp * 0.5**P_SHIFT - delta[None, :]
        else:
            ds = dp - delta[None, :]
        mbarrier.wait(barriers.p_full.index(slot), slot_phase)
        ds = (ds * p_s.index(slot).load(scores).to(gl.float32)).to(dtype)
        ds16 = gl.convert_layout(ds, gl.DotOperandLayout(0, grads, k_width=2), assert_trivial=True)
        dk = warpgroup_mma(ds16, q_sa.index(stage), dk, is_async=True)
        if D_B > 0:
            ds16_b = gl.convert_layout(ds, gl.DotOperandLayout(0, beside, k_width=2), assert_trivial=True)
            dk_beside = warpgroup_mma(ds16_b, q_sb.index(stage), dk_beside, is_async=True)
        mbarrier.arrive(barriers.do_empty.index(slot), count=1)
        spill_ds(ds_desc, place.ds_slot, head, 0, i - launch.row_begin, ds, ds_s.index(slot), shape.SLOTS - 1)
        i += ROWS
        if i >= block.stop_row:
            i = block.first_row
            head += 1
        slot, slot_phase = advanced(slot, slot_phase, shape.SLOTS)
        mbarrier.wait(barriers.do_full.index(slot), slot_phase)
        dp = _issue_scores(held, others, do_sa.index(slot), do_sb.index(slot), zeros, V_A, V_B)
        if D_B > 0:
            dk, dk_beside, ds16, ds16_b = warpgroup_mma_wait(PRODUCTS, deps=(dk, dk_beside, ds16, ds16_b))
        else:
            dk, ds16 = warpgroup_mma_wait(PRODUCTS, deps=(dk, ds16))
        # For both consumers: the other was done with these rows when it shared P.
        mbarrier.arrive(barriers.q_empty.index(stage), count=1)
        stage, phase = advanced(stage, phase, shape.STAGES)
        dp = warpgroup_mma_wait(0, deps=(dp,))
    mbarrier.arrive(barriers.finished, count=1)
    mbarrier.wait(barriers.finished, 0)
    _epilogue(dk_a, dk_b, place, dk * scale, dk_beside * scale, q_sa, q_sb, D_A, D_B, ADDS)


@gluon.jit
def _load_columns(desc_a, desc_b, place, rest, full, batch, kv_head, first_key, A: gl.constexpr, B: gl.constexpr):
    """Load keys or values: 128 columns for registers to where P or dS will be, the others there or beside."""
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    held = place._reinterpret(desc_a.dtype, [64, 128], tiled)
    tma.async_copy_global_to_shared(desc_a, [batch, kv_head, first_key, 0], full, held)
    if A > 128:
        tma.async_copy_global_to_shared(desc_a, [batch, kv_head, first_key, A // 2], full, rest)
    if B > 0:
        others = place.index(2)._reinterpret(desc_a.dtype, [64, B], tiled)
        tma.async_copy_global_to_shared(desc_b, [batch, kv_head, first_key, A], full, others)


@gluon.jit
def _issue_keys(k_a, k_b, v_a, v_b, tiles, barriers, place, launch, shape):
    """Issue the loads of K and V."""
    mbarrier.expect(barriers.kv_full, 2 * 64 * (shape.D_A + shape.D_B + shape.V_A + shape.V_B))
    batch, kv_head = place.batch, place.kv_head // launch.group_parts
    first_key = place.first_key
    _load_columns(k_a, k_b, tiles.p, tiles.k, barriers.kv_full, batch, kv_head, first_key, shape.D_A, shape.D_B)
    _load_columns(v_a, v_b, tiles.ds, tiles.v, barriers.kv_full, batch, kv_head, first_key, shape.V_A, shape.V_B)


@gluon.jit
def _producer(inputs, tiles, barriers, block, launch, shape, P_SHIFT: gl.constexpr):
    """Load rows."""
    load_row_tiles(inputs, tiles, barriers, block, launch, shape, shape.STAGES, shape.SLOTS, P_SHIFT)


@gluon.jit(do_not_specialize=ANY_NUMBER, do_not_specialize_on_alignment=ANY_PLACE)
def spilled_key_gradients_kernel(
    q_a, q_b, k_a, k_b, v_a, v_b, do_a, do_b, dk_a, dk_b, dv_a, dv_b, ds_desc, Lse, Delta, FirstRows, StopRows,
    scale_log2, scale, first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end,
    padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D_A: gl.constexpr, D_B: gl.constexpr, V_A: gl.constexpr, V_B: gl.constexpr,
    STAGES: gl.constexpr, SLOTS: gl.constexpr,
    MASKED: gl.constexpr, PACKED: gl.constexpr, ADDS: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """As the key-stationary kernels, with dS spilled; descriptors of K and V have 128 columns, and those beside.

    STAGES tiles of queries and SLOTS tiles of dO, P and dS are there at once: three of these where there are columns
    beside, which come to the third.
    """
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    dtype: gl.constexpr = q_a.dtype
    q_sa = gl.allocate_shared_memory(dtype, [STAGES, ROWS, D_A], tiled)
    do_sa = gl.allocate_shared_memory(dtype, [SLOTS, ROWS, V_A], tiled)
    q_sb, do_sb, k_s, v_s = q_sa, do_sa, q_sa, do_sa
    if D_B > 0:
        q_sb = gl.allocate_shared_memory(dtype, [STAGES, ROWS, D_B], tiled)
    if V_B > 0:
        do_sb = gl.allocate_shared_memory(dtype, [SLOTS, ROWS, V_B], tiled)
    if D_A > 128:
        k_s = gl.allocate_shared_memory(dtype, [64, D_A // 2], tiled)
    if V_A > 128:
        v_s = gl.allocate_shared_memory(dtype, [64, V_A // 2], tiled)
    # P is shared in fp16, of bf16 times 2 to this. Threads of 256 columns have no registers for a second P.
    shared: gl.constexpr = gl.float16 if D_A == 128 else dtype
    P_SHIFT: gl.constexpr = SHIFT if shared != dtype else 0
    p_s = gl.allocate_shared_memory(shared, [SLOTS, 64, ROWS], tiled)
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
    tiles = Tiles(k_s, v_s, q_sa, q_sb, do_sa, do_sb, lse_s, delta_s, p_s, ds_s, ds_s, k_s, v_s, ds_s)
    barriers = Barriers(kv_full, q_full, do_full, q_empty, do_empty, p_full, p_full, p_full, finished, finished)
    inputs, ranges = RowInputs(q_a, q_b, do_a, do_b, Lse, Delta), Ranges(FirstRows, StopRows)
    launch = Launch(
        first_block, together, kv_heads, group_parts, group, keys, below, above, row_begin, row_end, padded
    )  # fmt: skip
    shape: gl.constexpr = Shape(ROWS, KEYS, D_A, D_B, V_A, V_B, STAGES, SLOTS, MASKED, PACKED)
    block = block_work(launch, ranges, ROWS, KEYS, PACKED)
    ds_slot = block.batch_head * ((keys + KEYS - 1) // KEYS) + block.tile - first_block
    place = _Place(block.batch_head // kv_heads, block.batch_head % kv_heads, block.tile * KEYS, ds_slot)
    _issue_keys(k_a, k_b, v_a, v_b, tiles, barriers, place, launch, shape)
    issue_first_rows(inputs, tiles, barriers, block, launch, shape)
    gl.warp_specialize([
        (_producer, (inputs, tiles, barriers, block, launch, shape, P_SHIFT)),
        (_p_consumer, (dv_a, dv_b, ranges, tiles, barriers, place, block, launch, scale_log2, shape, ADDS, P_SHIFT)),
        (_ds_consumer, (dk_a, dk_b, ds_desc, tiles, barriers, place, block, launch, scale, shape, ADDS, P_SHIFT)),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
