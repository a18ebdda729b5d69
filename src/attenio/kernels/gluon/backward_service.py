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

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

__all__ = ["add_sums", "block_of", "serve"]


@gluon.jit
def block_of(group, queries, keys, below, above, padded, ROWS: gl.constexpr, KEYS: gl.constexpr, ORDERED: gl.constexpr):
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
    return unit, tile, gl.minimum(first_row, padded - ROWS), stop_row, steps


@gluon.jit
def add_sums(Sums, part, sums):
    """Add a tile of 64 x 64 to its sums, 16 bytes a thread and in the order in which registers hold them."""
    flat = sums.reshape([4, 2, 8, 8, 4, 2]).permute([3, 0, 2, 4, 1, 5]).reshape([4096])
    gl.atomic_add(Sums + part.to(gl.int64) * 4096 + gl.arange(0, 4096, flat.type.layout), flat, sem="relaxed")


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
    k_s, v_s, q_s, do_s, lse_s, delta_s, kv_full, q_full, do_full, empty, turn, added,
    unit, kv_heads, group, tile, first_row, stop_row, steps, keys, below, above, padded,
    ROWS: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, ORDERED: gl.constexpr,
):  # fmt: skip
    flat: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    batch, kv_head = unit // kv_heads, unit % kv_heads
    mbarrier.expect(kv_full, KEYS // 64 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
    for part in gl.static_range(KEYS // 64):
        at = tile * KEYS + part * 64
        tma.async_copy_global_to_shared(k_desc, [batch, kv_head, at, 0], kv_full, k_s.index(part))
        tma.async_copy_global_to_shared(v_desc, [batch, kv_head, at, 0], kv_full, v_s.index(part))
    within = gl.arange(0, ROWS, flat)
    head, i, stage, phase = 0, first_row, 0, 1
    added_head, added_i = 0, first_row
    for step in range(steps + 1):
        row = (unit * group + head) * padded + i
        lse, delta = gl.load(Lse + row + within), gl.load(Delta + row + within)
        mbarrier.wait(empty.index(stage), phase)
        mbarrier.expect(q_full.index(stage), q_desc.block_type.nbytes)
        mbarrier.expect(do_full.index(stage), do_desc.block_type.nbytes)
        box = [batch, kv_head * group + head, i, 0]
        tma.async_copy_global_to_shared(q_desc, box, q_full.index(stage), q_s.index(stage))
        tma.async_copy_global_to_shared(do_desc, box, do_full.index(stage), do_s.index(stage))
        lse_s.index(stage).store(lse)
        delta_s.index(stage).store(delta)
        mbarrier.arrive(q_full.index(stage), count=1)
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
        if ORDERED:
            if step >= 2:
                mbarrier.wait(added, step & 1)
                gl.atomic_add(Counters + ((unit * group + added_head) * padded + added_i) // ROWS, 1, sem="release")
                added_i += ROWS
                if added_i >= stop_row:
                    added_i = first_row
                    added_head += 1
            if step >= 1:
                counter = ((unit * group + added_head) * padded + added_i) // ROWS
                _wait_for_turn(Counters, counter, added_i, tile, keys, below, above, ROWS, KEYS)
                mbarrier.arrive(turn, count=1)
    if ORDERED:
        if steps > 0:
            mbarrier.wait(added, (steps - 1) & 1)
            gl.atomic_add(Counters + ((unit * group + added_head) * padded + added_i) // ROWS, 1, sem="release")
