"""Gradients of queries from slopes that lie in memory: dQ_i = scale * sum over j of dS_ij K_j, a plain product.

    for each block of rows of a head, of the chunk whose slopes were written:
        loader:      for each 64 keys of each key tile that a row of the block sees: copy K_j, dS^T_j of each 64 rows
        consumer c:  dQ += dS_j K_j for its share of the rows
        write scale * dQ, or add dQ to sums that are carried from chunk to chunk

Slopes are (slots, group, keys of a tile, rows): a slot is a key tile of a unit (a KV head of a sequence). Only tiles
that a row sees were written; for the others the copy engine is asked for rows that do not exist, which read as zeros.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, assignment, var-annotated"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from attenio.kernels.gluon.loading import advanced

__all__ = ["query_gradients_kernel"]


@gluon.jit
def _range_of(Ranges, at, first_tile, stop_tile):
    """Key tiles of the chunk that 64 rows see."""
    return gl.maximum(gl.load(Ranges + 2 * at), first_tile), gl.minimum(gl.load(Ranges + 2 * at + 1), stop_tile)


@gluon.jit
def _load(
    slopes_desc, k_desc, Ranges, ds_s, k_s, full, free,
    batch, kv_head, head, slot, slot_step, row, ranges_at, first_tile, stop_tile, begin, steps, rows,
    PARTS: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """``slot`` and ``row`` are those of the first key tile of the chunk and of the block, in the slopes."""
    ranges = ()
    for part in gl.static_range(PARTS):
        ranges = ranges + (_range_of(Ranges, ranges_at + part, first_tile, stop_tile),)  # noqa: RUF005 - in Gluon
    stage, phase = 0, 1
    for step in range(steps):
        tile, key = begin + step // (KEYS // 64), step % (KEYS // 64) * 64
        mbarrier.wait(free.index(stage), phase)
        mbarrier.expect(full.index(stage), k_desc.block_type.nbytes + PARTS * slopes_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(
            k_desc, [batch, kv_head, tile * KEYS + key, 0], full.index(stage), k_s.index(stage)
        )
        for part in gl.static_range(PARTS):
            first, stop = ranges[part]
            seen_row = gl.where((tile >= first) & (tile < stop), row + part * 64, rows)
            tma.async_copy_global_to_shared(
                slopes_desc, [slot + (tile - first_tile) * slot_step, head, key, seen_row],
                full.index(stage), ds_s.index(stage * PARTS + part),
            )  # fmt: skip
        stage, phase = advanced(stage, phase, STAGES)


@gluon.jit
def _add(dq, Sums, row, D: gl.constexpr, LAYOUT: gl.constexpr):
    """Add to sums in memory; no other program adds to these."""
    rows = row + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
    at = Sums + (rows[:, None] * D + gl.arange(0, D, gl.SliceLayout(0, LAYOUT))[None, :])
    gl.store(at, gl.load(at) + dq)


@gluon.jit
def _multiply(
    dq_desc, Sums, ds_s, k_s, full, free, finished, batch, head, row, sums_row, steps, slope, carries,
    ME: gl.constexpr, PARTS: gl.constexpr, ALL_PARTS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """dQ of PARTS times 64 rows, one or two."""
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    dtype: gl.constexpr = k_s.dtype
    FIRST: gl.constexpr = ME * PARTS
    upper, lower = gl.zeros([64, D], gl.float32, layout), gl.zeros([64, D], gl.float32, layout)
    stage, phase, last = 0, 0, 0
    for step in range(steps):
        mbarrier.wait(full.index(stage), phase)
        at = stage * ALL_PARTS + FIRST
        upper = warpgroup_mma(ds_s.index(at).permute((1, 0)), k_s.index(stage), upper, is_async=True)
        if PARTS == 2:
            lower = warpgroup_mma(ds_s.index(at + 1).permute((1, 0)), k_s.index(stage), lower, is_async=True)
            upper, lower = warpgroup_mma_wait(2, deps=(upper, lower))
        else:
            upper = warpgroup_mma_wait(1, deps=(upper,))
        mbarrier.arrive(free.index(last), count=1, pred=step > 0)
        last = stage
        stage, phase = advanced(stage, phase, STAGES)
    upper, lower = warpgroup_mma_wait(0, deps=(upper, lower))
    if carries:
        _add(upper, Sums, sums_row + FIRST * 64, D, layout)
        if PARTS == 2:
            _add(lower, Sums, sums_row + FIRST * 64 + 64, D, layout)
    else:
        # Keys have been used by all, and dQ leaves by way of their memory.
        mbarrier.arrive(finished, count=1)
        mbarrier.wait(finished, 0)
        k_s.index(FIRST).store((upper * slope).to(dtype))
        if PARTS == 2:
            k_s.index(FIRST + 1).store((lower * slope).to(dtype))
        fence_async_shared()
        for part in gl.static_range(PARTS):
            place = [batch, head, row + (FIRST + part) * 64, 0]
            tma.async_copy_shared_to_global(dq_desc, place, k_s.index(FIRST + part))
        tma.store_wait(0)


@gluon.jit(
    do_not_specialize=[
        "first_unit", "unit_slots", "tile_slots", "kv_heads", "group", "first_row", "rows", "first_tile", "tiles",
        "ranges_step", "sums_rows", "carries",
    ],
    do_not_specialize_on_alignment=["Sums", "Ranges"],
)  # fmt: skip
def query_gradients_kernel(
    slopes_desc, k_desc, dq_desc, Sums, Ranges, slope,
    first_unit, unit_slots, tile_slots, kv_heads, group, first_row, rows, first_tile, tiles, ranges_step, sums_rows,
    carries,
    PARTS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Two consumers with PARTS times 64 rows each.

    The chunk has the key tiles from ``first_tile`` and the ``rows`` from ``first_row`` of its units, whose slots are
    ``unit_slots`` apart, and those of their tiles ``tile_slots``. Blocks come with the last unit's last rows first,
    which were written last; or with the last rows of all units, where their tiles lie between each other: these have
    the most keys then.
    """
    ALL_PARTS: gl.constexpr = 2 * PARTS
    tiled: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    ds_s = gl.allocate_shared_memory(k_desc.dtype, [STAGES * ALL_PARTS, 64, 64], tiled)
    k_s = gl.allocate_shared_memory(k_desc.dtype, [STAGES, 64, D], tiled)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    finished = gl.allocate_shared_memory(gl.int64, [1], barrier)
    mbarrier.init(finished, count=2)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(free.index(stage), count=2)
    fence_async_shared()
    block, blocks = gl.num_programs(0) - 1 - gl.program_id(0), (rows + ALL_PARTS * 64 - 1) // (ALL_PARTS * 64)
    heads = gl.num_programs(0) // blocks
    place = gl.where(tile_slots > 1, block // heads, block % blocks)
    which = gl.where(tile_slots > 1, block % heads, block // blocks)
    row, head, in_chunk = place * (ALL_PARTS * 64), which % group, which // group
    batch, kv_head = (first_unit + in_chunk) // kv_heads, (first_unit + in_chunk) % kv_heads
    ranges_at = batch * ranges_step + (first_row + row) // 64
    begin, end = _range_of(Ranges, ranges_at, first_tile, first_tile + tiles)
    for part in gl.static_range(1, ALL_PARTS):
        first, stop = _range_of(Ranges, ranges_at + part, first_tile, first_tile + tiles)
        begin, end = gl.minimum(begin, first), gl.maximum(end, stop)
    steps = gl.maximum(end - begin, 0) * (KEYS // 64)
    sums_row = gl.cast(head, gl.int64) * sums_rows + first_row + row
    gl.warp_specialize([
        (_load, (
            slopes_desc, k_desc, Ranges, ds_s, k_s, full, free,
            batch, kv_head, head, in_chunk * unit_slots, tile_slots, row, ranges_at, first_tile, first_tile + tiles,
            begin, steps, rows, ALL_PARTS, KEYS, STAGES,
        )),
        (_multiply, (
            dq_desc, Sums, ds_s, k_s, full, free, finished, batch, kv_head * group + head, first_row + row, sums_row,
            steps, slope, carries, 0, PARTS, ALL_PARTS, D, STAGES,
        )),
        (_multiply, (
            dq_desc, Sums, ds_s, k_s, full, free, finished, batch, kv_head * group + head, first_row + row, sums_row,
            steps, slope, carries, 1, PARTS, ALL_PARTS, D, STAGES,
        )),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
