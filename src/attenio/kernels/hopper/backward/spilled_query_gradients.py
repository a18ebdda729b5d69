"""``spilled_gradients``, dQ from dS that lies in memory: dQ_i = scale * sum over j of dS_ij K_j, a plain product.

    for each block of 128 rows of a head, of the chunk whose dS was written:
        producer:    for each tile of 64 keys that a row of the block sees: load K_j, and dS^T_j of each 64 rows
        consumer c:  dQ += dS_j K_j for its 64 rows; 192 columns are two tiles side by side, 128 and 64
        epilogue:    write scale * dQ, or add dQ to an accumulator that is carried from chunk to chunk

dS is (slots, group, keys of a tile, rows): a slot is a key tile of a batch x KV head. Only tiles that a row sees were
written; for the others TMA loads rows that do not exist, which read as zeros.
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

from attenio.kernels.hopper.producer import advanced

# Shared memory: tiles of dS and K, and the barriers of a ring of them; ``finished`` when both consumers are.
_Ring = namedtuple("_Ring", "ds k_a k_b full free finished")


@gluon.jit
def _range_of(Ranges, at, first_tile, stop_tile):
    """Key tiles of the chunk that 64 rows see."""
    return gl.maximum(gl.load(Ranges + 2 * at), first_tile), gl.minimum(gl.load(Ranges + 2 * at + 1), stop_tile)


@gluon.jit
def _producer(
    ds_desc, k_a, k_b, ring, batch, kv_head, head, slot, row, rows,
    begin, end, first, stop, last_first, last_stop, first_tile,
    D_A: gl.constexpr, D_B: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """``slot`` is that of the chunk's first key tile, and ``row`` the block's first, of those in dS.

    The first 64 rows see key tiles from ``first`` to ``stop``, the last 64 from ``last_first`` to ``last_stop``.
    """
    stage, phase = 0, 1
    for tile in range(begin, end):
        upper = gl.where((tile >= first) & (tile < stop), row, rows)
        lower = gl.where((tile >= last_first) & (tile < last_stop), row + 64, rows)
        here = slot + tile - first_tile
        mbarrier.wait(ring.free.index(stage), phase)
        full = ring.full.index(stage)
        mbarrier.expect(full, 2 * 64 * (D_A + D_B) + 2 * ds_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_a, [batch, kv_head, tile * 64, 0], full, ring.k_a.index(stage))
        if D_B > 0:
            tma.async_copy_global_to_shared(k_b, [batch, kv_head, tile * 64, D_A], full, ring.k_b.index(stage))
        tma.async_copy_global_to_shared(ds_desc, [here, head, 0, upper], full, ring.ds.index(2 * stage))
        tma.async_copy_global_to_shared(ds_desc, [here, head, 0, lower], full, ring.ds.index(2 * stage + 1))
        stage, phase = advanced(stage, phase, STAGES)


@gluon.jit
def _accumulate(DQAcc, first_row, first_column, dq, LAYOUT: gl.constexpr, WIDTH: gl.constexpr, D: gl.constexpr):
    """Add so many columns of 64 rows to the accumulator; no other program adds to these."""
    rows = first_row + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
    columns = first_column + gl.arange(0, WIDTH, gl.SliceLayout(0, LAYOUT))
    at = DQAcc + (rows[:, None] * D + columns[None, :])
    gl.store(at, gl.load(at) + dq)


@gluon.jit
def _consumer(
    dq_a, dq_b, DQAcc, ring, batch, head, row, acc_row, begin, end, scale, carries,
    ME: gl.constexpr, D_A: gl.constexpr, D_B: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """dQ of 64 rows."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D_A, 16])
    layout_b: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D_B if D_B > 0 else D_A, 16])
    dq = gl.zeros([64, D_A], gl.float32, layout)
    beside = gl.zeros([64, D_B if D_B > 0 else D_A], gl.float32, layout_b)
    stage, phase, last = 0, 0, 0
    for tile in range(begin, end):
        mbarrier.wait(ring.full.index(stage), phase)
        ds = ring.ds.index(2 * stage + ME).permute((1, 0))
        dq = warpgroup_mma(ds, ring.k_a.index(stage), dq, is_async=True)
        if D_B > 0:
            beside = warpgroup_mma(ds, ring.k_b.index(stage), beside, is_async=True)
            dq, beside = warpgroup_mma_wait(2, deps=(dq, beside))
        else:
            dq = warpgroup_mma_wait(1, deps=(dq,))
        mbarrier.arrive(ring.free.index(last), count=1, pred=tile > begin)
        last = stage
        stage, phase = advanced(stage, phase, STAGES)
    if D_B > 0:
        dq, beside = warpgroup_mma_wait(0, deps=(dq, beside))
    else:
        dq = warpgroup_mma_wait(0, deps=(dq,))
    if carries:
        _accumulate(DQAcc, acc_row + ME * 64, 0, dq, layout, D_A, D_A + D_B)
        if D_B > 0:
            _accumulate(DQAcc, acc_row + ME * 64, D_A, beside, layout_b, D_B, D_A + D_B)
    else:
        # Both are done with K, and dQ leaves by way of its memory.
        mbarrier.arrive(ring.finished, count=1)
        mbarrier.wait(ring.finished, 0)
        ring.k_a.index(ME).store((dq * scale).to(ring.k_a.dtype))
        if D_B > 0:
            ring.k_b.index(ME).store((beside * scale).to(ring.k_b.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(dq_a, [batch, head, row + ME * 64, 0], ring.k_a.index(ME))
        if D_B > 0:
            tma.async_copy_shared_to_global(dq_b, [batch, head, row + ME * 64, D_A], ring.k_b.index(ME))
        tma.store_wait(0)


@gluon.jit(
    do_not_specialize=[
        "first_head", "together", "kv_heads", "group_parts", "group", "first_row", "rows", "first_tile", "tiles",
        "ranges_step", "acc_rows", "carries",
    ],
    do_not_specialize_on_alignment=["DQAcc", "Ranges"],
)  # fmt: skip
def spilled_query_gradients_kernel(
    ds_desc, k_a, k_b, dq_a, dq_b, DQAcc, Ranges, scale,
    first_head, together, kv_heads, group_parts, group, first_row, rows, first_tile, tiles, ranges_step,
    acc_rows, carries,
    D_A: gl.constexpr, D_B: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """The chunk has the key tiles from ``first_tile`` and the ``rows`` from ``first_row`` of its batch x KV heads, from
    ``first_head`` on. Blocks come with the last heads' last rows first, which were written last; so many heads
    ``together`` where their last rows have the most keys.
    """
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    ds_s = gl.allocate_shared_memory(k_a.dtype, [2 * STAGES, 64, 64], tiled)
    k_sa = gl.allocate_shared_memory(k_a.dtype, [STAGES, 64, D_A], tiled)
    k_sb = k_sa
    if D_B > 0:
        k_sb = gl.allocate_shared_memory(k_a.dtype, [STAGES, 64, D_B], tiled)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    finished = gl.allocate_shared_memory(gl.int64, [1], barrier)
    mbarrier.init(finished, count=2)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(free.index(stage), count=2)
    fence_async_shared()
    blocks = (rows + 127) // 128
    heads, before = gl.num_programs(0) // blocks, gl.program_id(0) // (together * blocks) * together
    in_turns, of_these = gl.minimum(together, heads - before), gl.program_id(0) - before * blocks
    row, place = (blocks - 1 - of_these // in_turns) * 128, heads - 1 - before - of_these % in_turns
    head, batch_head = place % group, place // group
    batch, kv_head = (first_head + batch_head) // kv_heads, (first_head + batch_head) % kv_heads
    at = batch * ranges_step + (first_row + row) // 64
    first, stop = _range_of(Ranges, at, first_tile, first_tile + tiles)
    last_first, last_stop = _range_of(Ranges, at + 1, first_tile, first_tile + tiles)
    begin, end = gl.minimum(first, last_first), gl.maximum(stop, last_stop)
    acc_row = gl.cast(head, gl.int64) * acc_rows + first_row + row
    ring = _Ring(ds_s, k_sa, k_sb, full, free, finished)
    gl.warp_specialize([
        (_producer, (
            ds_desc, k_a, k_b, ring, batch, kv_head // group_parts, head, batch_head * tiles, row, rows,
            begin, end, first, stop, last_first, last_stop, first_tile, D_A, D_B, STAGES,
        )),
        (_consumer, (
            dq_a, dq_b, DQAcc, ring, batch, kv_head * group + head, first_row + row,
            acc_row, begin, end, scale, carries, 0, D_A, D_B, STAGES,
        )),
        (_consumer, (
            dq_a, dq_b, DQAcc, ring, batch, kv_head * group + head, first_row + row,
            acc_row, begin, end, scale, carries, 1, D_A, D_B, STAGES,
        )),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
