"""The producer warpgroup of the forward kernels: which key tiles a row tile needs, and their TMA loads.

    for each (batch x head, row tile, direction) of the program's list:
        for each key tile that a row may see: wait until its stage is free, load K_j, then V_j  (Q with the first)

Programs that walk keys too large for L2 wait for each other every few tiles, so that one read of memory serves all.
Values that the partitions of a kernel share are bundled here; a width is one tile (A) or two side by side (A and B).
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

# Rows of a consumer warpgroup: those of one wgmma instruction.
ROWS = gl.constexpr(64)
# Numbers of an entry of a schedule: batch x head, 2 tile + backwards, the stretch of key tiles that it begins with, and
# programs to keep pace with.
ENTRY = gl.constexpr(4)
# How often a program polls for those behind it before it goes on alone: some milliseconds.
MAX_POLLS = gl.constexpr(4096)


# TMA descriptors of Q, K and V.
Inputs = namedtuple("Inputs", "q_a q_b k_a k_b v_a v_b")
# Shared memory: Q and O of every consumer, a ring of K and V; B is A where there is no second tile.
Tiles = namedtuple("Tiles", "q_a q_b k_a k_b v_a v_b o_a o_b p")
# Full when bytes have arrived, free when all consumers are done; of each consumer's Q, and of each stage.
Barriers = namedtuple("Barriers", "q_full q_free k_full k_free v_full v_free")
# Lists of row tiles, what their rows see (ranges or a band), lengths, the scale in units of log2 (or the cap, where
# there is one), and what scores are multiplied by inside of the cap.
Work = namedtuple(
    "Work", "Starts Entries First Stop Bounds range_b bounds_b heads queries keys below above scale_log2 inner"
)
# Compile-time constants: warpgroups, tiles, widths, which masks there are, whether rows have a sink and scores a cap.
Shape = namedtuple(
    "Shape", "CONSUMERS KEY_TILE STAGES D_A D_B V_A V_B MASKED BELOW RANGES SINKS CAPPED SHARES_P OVERLAPS"
)


@gluon.jit
def row_ranges(row, work, batch, LAYOUT: gl.constexpr, RANGES: gl.constexpr):
    """First key, and the one after the last, that each row of a consumer may see; rows past the end repeat the last."""
    First, Stop = work.First + batch * work.range_b, work.Stop + batch * work.range_b
    at = gl.minimum(row + gl.arange(0, ROWS, LAYOUT), work.queries - 1)
    if RANGES:
        first, stop = gl.load(First + at), gl.load(Stop + at)
    else:
        first, stop = gl.maximum(at + work.below, 0), gl.minimum(at + work.above + 1, work.keys)
    return first, stop


@gluon.jit
def tile_range(row, work, Bounds, shape):
    """Key tiles that a consumer's rows may see, start and stop, and those that all of them see whole."""
    if shape.RANGES:
        at = Bounds + 4 * gl.minimum(row // ROWS, (work.queries - 1) // ROWS)
        first, last_first, first_stop, stop = gl.load(at), gl.load(at + 1), gl.load(at + 2), gl.load(at + 3)
    else:
        last = gl.minimum(row + ROWS, work.queries) - 1
        first, last_first = gl.maximum(row + work.below, 0), gl.maximum(last + work.below, 0)
        first_stop, stop = gl.minimum(row + work.above + 1, work.keys), gl.minimum(last + work.above + 1, work.keys)
    sees = (first < stop) & (row < work.queries)
    start_tile = gl.where(sees, first // shape.KEY_TILE, 0)
    stop_tile = gl.where(sees, (stop + shape.KEY_TILE - 1) // shape.KEY_TILE, 0)
    whole_start = gl.where(sees, (last_first + shape.KEY_TILE - 1) // shape.KEY_TILE, 0)
    whole_stop = gl.where(sees, gl.maximum(first_stop, 0) // shape.KEY_TILE, 0)
    return start_tile, stop_tile, whole_start, whole_stop


@gluon.jit
def union_range(row, work, Bounds, shape):
    """Key tiles that some consumer sees: at least one, so that no loop is empty."""
    start, stop, _, _ = tile_range(row, work, Bounds, shape)
    for c in gl.static_range(1, shape.CONSUMERS):
        mine, its, _, _ = tile_range(row + c * ROWS, work, Bounds, shape)
        start = gl.where(mine < its, gl.where(start < stop, gl.minimum(start, mine), mine), start)
        stop = gl.maximum(stop, its)
    return start, gl.maximum(stop, start + 1)


@gluon.jit
def copy_tile(a, b, batch, head, row, full, at_a, at_b, WIDTH_A: gl.constexpr, WIDTH_B: gl.constexpr):
    """Issue the load of rows of a matrix, both of its side-by-side tiles, onto one barrier."""
    if WIDTH_B > 0:
        mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_copy_global_to_shared(a, [batch, head, row, 0], full, at_a)
        tma.async_copy_global_to_shared(b, [batch, head, row, WIDTH_A], full, at_b)
    else:
        mbarrier.expect(full, a.block_type.nbytes)
        tma.async_copy_global_to_shared(a, [batch, head, row, 0], full, at_a)


@gluon.jit
def keep_pace(Progress, stretch, others, LAG: gl.constexpr):
    """Count this program in at a stretch of key tiles, and wait for those that are LAG stretches behind.

    Programs that walk the same keys then find each other's tiles in L2. The wait is bounded: it saves traffic, and
    nothing depends on it.
    """
    gl.atomic_add(Progress + stretch, 1, sem="relaxed")
    if stretch >= LAG:
        polls = 0
        while (gl.load(Progress + stretch - LAG, volatile=True) < others) & (polls < MAX_POLLS):
            polls += 1


@gluon.jit
def producer(inputs, tiles, barriers, work, Progress, group, shape, PACE: gl.constexpr, LAG: gl.constexpr):
    """Keeps the ring of key and value tiles full, over row tile after row tile."""
    program = gl.program_id(0)
    begin, end = gl.load(work.Starts + program), gl.load(work.Starts + program + 1)
    stage, phase, turn = 0, 1, 1
    for index in range(begin, end):
        entry = work.Entries + ENTRY * index
        batch_head, code = gl.load(entry), gl.load(entry + 1)
        batch, head = batch_head // work.heads, batch_head % work.heads
        row, backwards = (code // 2) * (shape.CONSUMERS * ROWS), code % 2
        start, stop = 0, work.keys // shape.KEY_TILE
        if shape.MASKED:
            start, stop = union_range(row, work, work.Bounds + batch * work.bounds_b, shape)
        for step in range(0, stop - start):
            key = gl.where(backwards != 0, stop - 1 - step, start + step) * shape.KEY_TILE
            if PACE > 0:
                if step % PACE == 0:
                    keep_pace(Progress, gl.load(entry + 2) + step // PACE, gl.load(entry + 3), LAG)
            mbarrier.wait(barriers.k_free.index(stage), phase)
            copy_tile(
                inputs.k_a, inputs.k_b, batch, head // group, key, barriers.k_full.index(stage),
                tiles.k_a.index(stage), tiles.k_b.index(stage), shape.D_A, shape.D_B,
            )  # fmt: skip
            if step == 0:  # queries wait for the row tile before; keys need not wait for them
                for c in gl.static_range(shape.CONSUMERS):
                    mbarrier.wait(barriers.q_free.index(c), turn)
                    copy_tile(
                        inputs.q_a, inputs.q_b, batch, head, row + c * ROWS, barriers.q_full.index(c),
                        tiles.q_a.index(c), tiles.q_b.index(c), shape.D_A, shape.D_B,
                    )  # fmt: skip
            mbarrier.wait(barriers.v_free.index(stage), phase)
            copy_tile(
                inputs.v_a, inputs.v_b, batch, head // group, key, barriers.v_full.index(stage),
                tiles.v_a.index(stage), tiles.v_b.index(stage), shape.V_A, shape.V_B,
            )  # fmt: skip
            stage, phase = advanced(stage, phase, shape.STAGES)
        turn ^= 1


@gluon.jit
def ring_barriers(STAGES: gl.constexpr, CONSUMERS: gl.constexpr):
    """Of tiles of keys and of values: full when bytes have arrived, free when all consumers are done with them."""
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for s in gl.static_range(STAGES):
        mbarrier.init(k_full.index(s), count=1)
        mbarrier.init(v_full.index(s), count=1)
        mbarrier.init(k_free.index(s), count=CONSUMERS)
        mbarrier.init(v_free.index(s), count=CONSUMERS)
    return k_full, k_free, v_full, v_free


@gluon.jit
def advanced(stage, phase, STAGES: gl.constexpr):
    """The next stage of a ring, and its phase."""
    stage += 1
    if stage == STAGES:
        stage = 0
        phase ^= 1
    return stage, phase
