"""The producer warpgroup of the backward kernels, and the shared memory and barriers that it fills.

load K_j, V_j
for each tile i of rows that sees a key of j (and one more, which is not used):
    load Q_i, dO_i, their log-sum-exp and delta
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from attenio.kernels.hopper.backward.block import next_rows
from attenio.kernels.hopper.producer import advanced, copy_tile

# TMA descriptors of Q and dO (B is None where there is no second tile beside A), and the two numbers of a row.
RowInputs = namedtuple("RowInputs", "q_a q_b do_a do_b Lse Delta")
# Shared memory; what a kernel does not have is an alias of something that it has.
Tiles = namedtuple("Tiles", "k v q_a q_b do_a do_b lse delta p ds dq k_b v_b dq_b")
# Full when something has arrived or been shared, empty or free when it may be overwritten; ``finished`` when both
# consumers are, and ``written`` when they have left their gradients in shared memory.
Barriers = namedtuple("Barriers", "kv_full q_full do_full q_empty do_empty p_full ds_full ds_free finished written")


@gluon.jit
def allocate(
    dtype: gl.constexpr, dq_dtype: gl.constexpr, shape, FREED: gl.constexpr, FINISHES: gl.constexpr
):  # fmt: skip
    """Memory and barriers of the key-stationary kernels: FREED warpgroups free a slot of dS."""
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    q_s = gl.allocate_shared_memory(dtype, [shape.STAGES, shape.ROWS, shape.D_A], tiled)
    do_s = gl.allocate_shared_memory(dtype, [shape.STAGES, shape.ROWS, shape.D_A], tiled)
    k_s = gl.allocate_shared_memory(dtype, [2, 64, shape.D_A], tiled)
    v_s = gl.allocate_shared_memory(dtype, [2, 64, shape.D_A], tiled)
    q_sb, do_sb, k_sb, v_sb = q_s, do_s, k_s, v_s
    if shape.D_B > 0:
        beside: gl.constexpr = gl.NVMMASharedLayout(2 * shape.D_B, 16, rank=2)
        q_sb = gl.allocate_shared_memory(dtype, [shape.STAGES, shape.ROWS, shape.D_B], beside)
        do_sb = gl.allocate_shared_memory(dtype, [shape.STAGES, shape.ROWS, shape.D_B], beside)
        k_sb = gl.allocate_shared_memory(dtype, [2, 64, shape.D_B], beside)
        v_sb = gl.allocate_shared_memory(dtype, [2, 64, shape.D_B], beside)
    ds_s = gl.allocate_shared_memory(dtype, [shape.SLOTS * 2, 64, shape.ROWS], tiled)
    unswizzled: gl.constexpr = gl.NVMMASharedLayout(0, 32, rank=2)
    dq_s = gl.allocate_shared_memory(dq_dtype, [1 if shape.D_B > 0 else 2, 64, 64], unswizzled)
    dq_sb = dq_s
    if shape.D_B > 0:
        dq_sb = gl.allocate_shared_memory(dq_dtype, [1, shape.D_B, 64], unswizzled)
    lse_s = gl.allocate_shared_memory(gl.float32, [shape.STAGES, shape.ROWS], plain)
    delta_s = gl.allocate_shared_memory(gl.float32, [shape.STAGES, shape.ROWS], plain)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    kv_full = gl.allocate_shared_memory(gl.int64, [1], barrier)
    if FINISHES:
        finished = gl.allocate_shared_memory(gl.int64, [1], barrier)
    written = gl.allocate_shared_memory(gl.int64, [1], barrier)
    q_full = gl.allocate_shared_memory(gl.int64, [shape.STAGES, 1], barrier)
    do_full = gl.allocate_shared_memory(gl.int64, [shape.STAGES, 1], barrier)
    empty = gl.allocate_shared_memory(gl.int64, [shape.STAGES, 1], barrier)
    ds_full = gl.allocate_shared_memory(gl.int64, [shape.SLOTS, 1], barrier)
    ds_free = gl.allocate_shared_memory(gl.int64, [shape.SLOTS, 1], barrier)
    mbarrier.init(kv_full, count=1)
    if FINISHES:
        mbarrier.init(finished, count=2)
    else:
        finished = written
    mbarrier.init(written, count=2)
    for stage in gl.static_range(shape.STAGES):
        mbarrier.init(q_full.index(stage), count=2)
        mbarrier.init(do_full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    for slot in gl.static_range(shape.SLOTS):
        mbarrier.init(ds_full.index(slot), count=2)
        mbarrier.init(ds_free.index(slot), count=FREED)
    fence_async_shared()
    tiles = Tiles(k_s, v_s, q_s, q_sb, do_s, do_sb, lse_s, delta_s, ds_s, ds_s, dq_s, k_sb, v_sb, dq_sb)
    return tiles, Barriers(
        kv_full, q_full, do_full, empty, empty, ds_full, ds_full, ds_free, finished, written
    )  # fmt: skip


@gluon.jit
def load_keys(k_desc, v_desc, k_b, v_b, tiles, kv_full, block, launch, shape):
    """Load the keys and values that a block keeps; those of a second tile beside the first, if there is one."""
    batch, kv_head = block.batch_head // launch.kv_heads, block.batch_head % launch.kv_heads // launch.group_parts
    mbarrier.expect(kv_full, 2 * shape.KEYS * (shape.D_A + shape.D_B + shape.V_A + shape.V_B))
    for part in gl.static_range(shape.KEYS // 64):
        at = block.tile * shape.KEYS + part * 64
        tma.async_copy_global_to_shared(k_desc, [batch, kv_head, at, 0], kv_full, tiles.k.index(part))
        tma.async_copy_global_to_shared(v_desc, [batch, kv_head, at, 0], kv_full, tiles.v.index(part))
        if shape.D_B > 0:
            tma.async_copy_global_to_shared(k_b, [batch, kv_head, at, shape.D_A], kv_full, tiles.k_b.index(part))
            tma.async_copy_global_to_shared(v_b, [batch, kv_head, at, shape.V_A], kv_full, tiles.v_b.index(part))


@gluon.jit
def load_row_tiles(
    inputs, tiles, barriers, block, launch, shape, STAGES: gl.constexpr, DO_STAGES: gl.constexpr, SHIFT: gl.constexpr
):  # fmt: skip
    """Load the tiles of rows from the block's start on, each when its stage is free, and one that is not used."""
    batch, kv_head = block.batch_head // launch.kv_heads, block.batch_head % launch.kv_heads
    head, i, stage, phase, do_stage, do_phase = 0, block.start, 0, 1, 0, 1
    for step in range(block.steps + 1):
        load_rows(
            inputs, tiles, barriers, stage, phase, do_stage, do_phase,
            block.batch_head, batch, kv_head, head, i, step, launch, shape, SHIFT,
        )  # fmt: skip
        i = next_rows(i, block, shape.ROWS)
        if (i == block.start) & (step + 1 < block.steps):
            head += 1
        stage, phase = advanced(stage, phase, STAGES)
        do_stage, do_phase = advanced(do_stage, do_phase, DO_STAGES)


@gluon.jit
def issue_q(inputs, tiles, barriers, stage, batch, head, i, shape):
    """Issue the load of queries of a tile of rows."""
    copy_tile(
        inputs.q_a, inputs.q_b, batch, head, i, barriers.q_full.index(stage), tiles.q_a.index(stage),
        tiles.q_b.index(stage), shape.D_A, shape.D_B,
    )  # fmt: skip


@gluon.jit
def issue_do(inputs, tiles, barriers, stage, batch, head, i, shape):
    """Issue the load of dO of a tile of rows."""
    copy_tile(
        inputs.do_a, inputs.do_b, batch, head, i, barriers.do_full.index(stage), tiles.do_a.index(stage),
        tiles.do_b.index(stage), shape.V_A, shape.V_B,
    )  # fmt: skip


@gluon.jit
def issue_first_rows(inputs, tiles, barriers, block, launch, shape):
    """Issue the loads of the block's first tile of rows: before the warpgroups part, which takes some 1,800 cycles."""
    batch, head = block.batch_head // launch.kv_heads, block.batch_head % launch.kv_heads * launch.group
    issue_q(inputs, tiles, barriers, 0, batch, head, block.start, shape)
    issue_do(inputs, tiles, barriers, 0, batch, head, block.start, shape)


@gluon.jit
def load_rows(
    inputs, tiles, barriers, stage, phase, do_stage, do_phase, batch_head, batch, kv_head, of_group, i, step, launch,
    shape, SHIFT: gl.constexpr,
):  # fmt: skip
    """Load one tile of rows of a head of the group, and their numbers, which are those of P times 2 to the SHIFT.

    The first tile has been issued before the warpgroups parted.
    """
    lse_s, delta_s = tiles.lse.index(stage), tiles.delta.index(stage)
    head, row = kv_head * launch.group + of_group, (batch_head * launch.group + of_group) * launch.padded + i
    within = gl.arange(0, shape.ROWS, gl.BlockedLayout([1], [32], [4], [0]))
    lse, delta = gl.load(inputs.Lse + row + within), gl.load(inputs.Delta + row + within)
    if step > 0:
        mbarrier.wait(barriers.q_empty.index(stage), phase)
        issue_q(inputs, tiles, barriers, stage, batch, head, i, shape)
    if SHIFT > 0:
        lse, delta = lse - SHIFT, delta * (0.5**SHIFT)
    lse_s.store(lse)
    delta_s.store(delta)
    mbarrier.arrive(barriers.q_full.index(stage), count=1)
    if step > 0:
        mbarrier.wait(barriers.do_empty.index(do_stage), do_phase)
        issue_do(inputs, tiles, barriers, do_stage, batch, head, i, shape)
