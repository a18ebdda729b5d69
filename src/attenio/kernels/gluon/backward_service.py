"""What a block of the backward kernels does besides computing: it loads tiles, and keeps order where order matters.

One group of warps of every block runs ``serve``:

    load K_j, V_j
    for each tile i of rows that sees a key of j (and one more, which nobody uses):
        load Q_i, dO_i, their log-sum-exp and delta

Blocks add their share of dQ_i to sums in memory, in any order. Where order matters (ORDERED), they add to each tile one
after the other: tiles count additions, and ``serve`` tells its block when its turn has come. Blocks start in the order
of their number and wait only for those of a lower number, so that nothing can deadlock.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

__all__ = ["add_sums", "all_added", "block_of", "serve"]


@gluon.jit
def block_of(
    units, together, group, queries, keys, below, above, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, ORDERED: gl.constexpr,
):  # fmt: skip
    """Which unit (a KV head of a sequence) and which of its keys a block has, and which rows see one of these.

    Blocks of a causal head come with the longest first. Where order matters they come with the shortest first, whose
    diagonal is last, so that those which add to a tile one after the other also reach it one after the other; and four
    units come together, because a block hands a tile on some three tiles later, while one starts with every tile.
    """
    tiles = (keys + KEYS - 1) // KEYS
    first = gl.program_id(0) // (together * tiles) * together
    together = gl.minimum(together, units - first)
    place = gl.program_id(0) - first * tiles
    tile, unit = place // together, first + place % together
    if ORDERED:
        if above < keys:
            tile = tiles - 1 - tile
    first_row = gl.maximum(tile * KEYS - above, 0) // ROWS * ROWS
    stop_row = gl.minimum(gl.minimum(tile * KEYS + KEYS, keys) - below, queries)
    stop_row = (stop_row + ROWS - 1) // ROWS * ROWS
    steps = gl.maximum(stop_row - first_row, 0) // ROWS * group
    return unit, tile, gl.minimum(first_row, padded - ROWS), stop_row, steps


@builtin
def _reduce_add(descriptor, place, source, _semantic=None):
    """The copy engine adds a tile of shared memory to memory; Gluon has the instruction, but no name for it."""
    place = _semantic._convert_to_ir_values(place, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, descriptor.handle, place, source.handle)


@gluon.jit
def add_sums(sums_desc, part, sums, staged):
    """Add a tile of 64 x 64 to its sums, by way of shared memory.

    It lies there and in memory as registers hold it, 16 bytes of a thread side by side: no two threads meet in a bank.
    From registers it would take no shared memory, and stall those who need the registers next.
    """
    tma.store_wait(0)
    staged.store(sums.reshape([4, 2, 8, 8, 4, 2]).permute([3, 0, 2, 4, 1, 5]).reshape([64, 64]))
    fence_async_shared()
    _reduce_add(sums_desc, [0, 0, part * 64, 0], staged)


@gluon.jit
def all_added():
    """Wait until what this group has added is in memory, not only out of shared memory."""
    gl.inline_asm_elementwise(
        "cp.async.bulk.wait_group 0; mov.b32 $0, $1;", "=r,r",
        [gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0]))], dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _wait_for_turn(
    Counters, at, i, tile, keys, below, above, ROWS: gl.constexpr, KEYS: gl.constexpr
):  # fmt: skip
    """Wait until all blocks that come before have added to a tile of rows."""
    place = tile - gl.maximum(i + below, 0) // KEYS
    if above < keys:
        place = (gl.minimum(i + ROWS + above, keys) + KEYS - 1) // KEYS - 1 - tile
    while gl.atomic_add(Counters + at, 0, sem="acquire") < place:
        pass


@gluon.jit
def serve(
    q_desc, k_desc, v_desc, do_desc, Lse, Delta, Counters,
    k_s, v_s, q_s, do_s, lse_s, delta_s, kv_full, q_full, do_full, q_empty, do_empty, turn, added,
    unit, kv_heads, group, tile, first_row, stop_row, steps, keys, below, above, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, DO_STAGES: gl.constexpr, ORDERED: gl.constexpr,
):  # fmt: skip
    flat: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    # Turns are given so many loads ahead of the tile's own: the groups must get there without them, but not twice.
    LEAD: gl.constexpr = 2 if DO_STAGES == STAGES else 1
    batch, kv_head = unit // kv_heads, unit % kv_heads
    mbarrier.expect(kv_full, KEYS // 64 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
    for part in gl.static_range(KEYS // 64):
        at = tile * KEYS + part * 64
        tma.async_copy_global_to_shared(k_desc, [batch, kv_head, at, 0], kv_full, k_s.index(part))
        tma.async_copy_global_to_shared(v_desc, [batch, kv_head, at, 0], kv_full, v_s.index(part))
    within = gl.arange(0, ROWS, flat)
    head, i, stage, phase, do_stage, do_phase = 0, first_row, 0, 1, 0, 1
    added_head, added_i, turn_head, turn_i = 0, first_row, 0, first_row
    for step in range(steps + 1):
        row = (unit * group + head) * padded + i
        lse, delta = gl.load(Lse + row + within), gl.load(Delta + row + within)
        box = [batch, kv_head * group + head, i, 0]
        mbarrier.wait(q_empty.index(stage), phase)
        mbarrier.expect(q_full.index(stage), q_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(q_desc, box, q_full.index(stage), q_s.index(stage))
        if DO_STAGES == STAGES:
            mbarrier.expect(do_full.index(stage), do_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(do_desc, box, do_full.index(stage), do_s.index(stage))
        lse_s.index(stage).store(lse)
        delta_s.index(stage).store(delta)
        mbarrier.arrive(q_full.index(stage), count=1)
        if DO_STAGES != STAGES:
            mbarrier.wait(do_empty.index(do_stage), do_phase)
            mbarrier.expect(do_full.index(do_stage), do_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(do_desc, box, do_full.index(do_stage), do_s.index(do_stage))
        i += ROWS
        if i >= stop_row:
            i = first_row
            if step + 1 < steps:
                head += 1
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        do_stage += 1
        if do_stage == DO_STAGES:
            do_stage = 0
            do_phase ^= 1
        if ORDERED:
            # Additions of a tile are in memory when the groups are two tiles further.
            if step >= 3:
                mbarrier.wait(added.index((step + 1) & 1), (step - 3) >> 1 & 1)
                gl.atomic_add(Counters + ((unit * group + added_head) * padded + added_i) // ROWS, 1, sem="release")
                added_i += ROWS
                if added_i >= stop_row:
                    added_i = first_row
                    added_head += 1
            if step >= LEAD:
                counter = ((unit * group + turn_head) * padded + turn_i) // ROWS
                _wait_for_turn(Counters, counter, turn_i, tile, keys, below, above, ROWS, KEYS)
                mbarrier.arrive(turn.index((step - LEAD) & 1), count=1)
                turn_i += ROWS
                if turn_i >= stop_row:
                    turn_i = first_row
                    turn_head += 1
    if ORDERED:
        for step in range(gl.maximum(steps - 2, 0), steps):
            if (LEAD == 2) & (step == steps - 1):
                counter = ((unit * group + turn_head) * padded + turn_i) // ROWS
                _wait_for_turn(Counters, counter, turn_i, tile, keys, below, above, ROWS, KEYS)
                mbarrier.arrive(turn.index(step & 1), count=1)
            mbarrier.wait(added.index(step & 1), step >> 1 & 1)
            gl.atomic_add(Counters + ((unit * group + added_head) * padded + added_i) // ROWS, 1, sem="release")
            added_i += ROWS
            if added_i >= stop_row:
                added_i = first_row
                added_head += 1
