"""What a block of the backward kernels does besides computing: it loads tiles, and turns finished sums into gradients.

One group of warps of every block runs ``serve``:

    load K_j, V_j
    for each tile i of rows that sees a key of j (and one more, which nobody uses):
        load Q_i, dO_i, their log-sum-exp and delta
    count this block as one that has added all its dS_i K_j
    convert a share of the sums of dQ of ``lag`` units ago, and leave zeros behind

A unit is a KV head of a sequence with its group of query heads. Sums live in slots, one for a unit; a unit takes the
slot of the one that was converted ``slots`` units ago. So they stay in L2, and need no kernel that clears all of them
and none that converts them. After the last unit come ``lag`` empty ones, which only convert. Blocks start in the order
of their number and wait only for those of a lower number: nothing can deadlock.

Where order matters (ORDERED), blocks add to each tile one after the other, and ``serve`` tells the groups when.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

__all__ = ["add_sums", "block_of", "serve"]

# Triton 3.6 and 3.7 name it differently.
_all_threads_meet = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier


@gluon.jit
def block_of(
    units, kv_heads, group, queries, keys, below, above, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, ORDERED: gl.constexpr,
):  # fmt: skip
    """Which keys a block keeps, and which rows see one of them: tiles from ``first_row`` up to ``stop_row``.

    Blocks of a causal head come with the longest first; where order matters with the shortest, whose diagonal is last,
    so that those which add to a tile one after the other also reach it one after the other.
    """
    tiles = (keys + KEYS - 1) // KEYS
    tile, unit = gl.program_id(0) % tiles, gl.program_id(0) // tiles
    if ORDERED:
        if above < keys:
            tile = tiles - 1 - tile
    first_row = gl.maximum(tile * KEYS - above, 0) // ROWS * ROWS
    stop_row = gl.minimum(gl.minimum(tile * KEYS + KEYS, keys) - below, queries)
    stop_row = (stop_row + ROWS - 1) // ROWS * ROWS
    steps = gl.maximum(stop_row - first_row, 0) // ROWS * group
    if unit >= units:
        steps = 0
    return unit, tile, gl.minimum(first_row, padded - ROWS), stop_row, steps


@gluon.jit
def add_sums(Sums, part, sums):
    """Add a tile of 64 x 64 to its sums, 16 bytes a thread and in the order in which registers hold them."""
    flat = sums.reshape([4, 2, 8, 8, 4, 2]).permute([3, 0, 2, 4, 1, 5]).reshape([4096])
    gl.atomic_add(Sums + part.to(gl.int64) * 4096 + gl.arange(0, 4096, flat.type.layout), flat, sem="relaxed")


@gluon.jit
def _convert(Sums, dQ, part, row, inside, slope, WIDTH: gl.constexpr, D: gl.constexpr):
    """Sums of 64 rows become gradients (what ``add_sums`` permutes is put back), and zeros."""
    flat: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    for piece in range(D // 32):
        here = Sums + part.to(gl.int64) * (64 * D) + piece * 2048 + gl.arange(0, 2048, flat)
        # What other blocks have added is in L2; L1 may hold the zeros of an earlier unit.
        sums = gl.load(here, cache_modifier=".cg")
        gl.store(here, gl.zeros([2048], gl.float32, flat))
        tile = sums.reshape([4, 4, 8, 4, 2, 2]).permute([1, 4, 2, 0, 3, 5]).reshape([64, 32])
        rows = gl.arange(0, 64, gl.SliceLayout(1, tile.type.layout))
        columns = piece * 32 + gl.arange(0, 32, gl.SliceLayout(0, tile.type.layout))
        at = dQ + (row + rows)[:, None].to(gl.int64) * WIDTH + columns[None, :]
        kept = (rows < inside)[:, None]
        if WIDTH != D:
            kept = kept & (columns < WIDTH)[None, :]
        gl.store(at, (tile * slope).to(dQ.dtype.element_ty), mask=kept)


@gluon.jit
def _convert_share(
    Sums, dQ, Added, Converted, unit, tile, tiles, group, queries, slope, padded, slots,
    WIDTH: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """One block's share of the sums of a unit, once all its blocks have added."""
    slot = unit % slots
    while gl.atomic_add(Added + slot, 0, sem="acquire") < (unit // slots + 1) * tiles:
        pass
    in_head = padded // 64
    parts = group * in_head
    for part in range(tile * parts // tiles, (tile + 1) * parts // tiles):
        head, first = part // in_head, part % in_head * 64
        row = (unit * group + head) * queries + first
        _convert(Sums, dQ, slot * parts + part, row, queries - first, slope, WIDTH, D)
    _all_threads_meet()
    gl.atomic_add(Converted + slot, 1, sem="release")


@gluon.jit
def _wait_for_turn(
    Counters, slot, round_, head, i, tile, group, row_tiles, keys, below, above,
    ROWS: gl.constexpr, KEYS: gl.constexpr,
):  # fmt: skip
    """Wait until all blocks that come before have added to a tile of rows."""
    first, end = gl.maximum(i + below, 0) // KEYS, (gl.minimum(i + ROWS + above, keys) + KEYS - 1) // KEYS
    place = tile - first
    if above < keys:
        place = end - 1 - tile
    counter = Counters + (slot * group + head) * row_tiles + i // ROWS
    while gl.atomic_add(counter, 0, sem="acquire") < round_ * (end - first) + place:
        pass


@gluon.jit
def serve(
    q_desc, k_desc, v_desc, do_desc, Lse, Delta, Sums, dQ, Counters, Added, Converted,
    k_s, v_s, q_s, do_s, lse_s, delta_s, kv_full, q_full, do_full, empty, turn, added,
    unit, units, kv_heads, group, tile, first_row, stop_row, steps, queries, keys, below, above, slope, padded,
    slots, lag,
    ROWS: gl.constexpr, KEYS: gl.constexpr, WIDTH: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
    ORDERED: gl.constexpr,
):  # fmt: skip
    flat: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    batch, kv_head = unit // kv_heads, unit % kv_heads
    mbarrier.expect(kv_full, KEYS // 64 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
    for part in gl.static_range(KEYS // 64):
        at = tile * KEYS + part * 64
        tma.async_copy_global_to_shared(k_desc, [batch, kv_head, at, 0], kv_full, k_s.index(part))
        tma.async_copy_global_to_shared(v_desc, [batch, kv_head, at, 0], kv_full, v_s.index(part))
    tiles, row_tiles = (keys + KEYS - 1) // KEYS, padded // ROWS
    slot, round_ = unit % slots, unit // slots
    known = gl.minimum(unit, units - 1) * group
    within = gl.arange(0, ROWS, flat)
    head, i, stage, phase = 0, first_row, 0, 1
    added_head, added_i = 0, first_row
    for step in range(steps + 1):
        row = (known + head) * padded + i
        lse, delta = gl.load(Lse + row + within), gl.load(Delta + row + within)
        mbarrier.wait(empty.index(stage), phase)
        mbarrier.expect(q_full.index(stage), q_desc.block_type.nbytes)
        box = [batch, kv_head * group + head, i, 0]
        tma.async_copy_global_to_shared(q_desc, box, q_full.index(stage), q_s.index(stage))
        lse_s.index(stage).store(lse)
        mbarrier.arrive(q_full.index(stage), count=1)
        mbarrier.expect(do_full.index(stage), do_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(do_desc, box, do_full.index(stage), do_s.index(stage))
        delta_s.index(stage).store(delta)
        mbarrier.arrive(do_full.index(stage), count=1)
        i += ROWS
        if i >= stop_row:
            i = first_row
            if step + 1 < steps:
                head += 1
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        if step == 1:
            # The first addition waits until the slot is free.
            while gl.atomic_add(Converted + slot, 0, sem="acquire") < round_ * tiles:
                pass
        if ORDERED:
            if step >= 2:
                mbarrier.wait(added, step & 1)
                gl.atomic_add(Counters + (slot * group + added_head) * row_tiles + added_i // ROWS, 1, sem="release")
                added_i += ROWS
                if added_i >= stop_row:
                    added_i = first_row
                    added_head += 1
            if step >= 1:
                _wait_for_turn(
                    Counters, slot, round_, added_head, added_i, tile, group, row_tiles, keys, below, above, ROWS, KEYS
                )
                mbarrier.arrive(turn, count=1)
        elif step == 1:
            mbarrier.arrive(turn, count=1)
    if steps > 0:
        if ORDERED:
            mbarrier.wait(added, (steps - 1) & 1)
            gl.atomic_add(Counters + (slot * group + added_head) * row_tiles + added_i // ROWS, 1, sem="release")
        else:
            mbarrier.wait(added, 0)
    if unit < units:
        gl.atomic_add(Added + slot, 1, sem="release")
    if unit >= lag:
        _convert_share(
            Sums, dQ, Added, Converted, unit - lag, tile, tiles, group, queries, slope, padded, slots, WIDTH, D
        )
