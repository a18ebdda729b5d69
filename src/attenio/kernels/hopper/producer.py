"""Keys and values on their way to shared memory: which tiles a row tile needs, and the four warps that fetch them.

    for each (head, row tile, direction) of the program's list:
        wait until free, copy Q;  for each key tile that a row may see: wait until free, copy K_j, then V_j

Programs that walk keys too large for L2 together wait for each other every few tiles, so that one fetch serves all.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

__all__ = ["ENTRY", "ROWS", "advanced", "copy_tile", "loader", "row_ranges", "tile_range", "union_range"]

# Rows of a consumer: those of one matrix instruction.
ROWS = gl.constexpr(64)
# Numbers of an entry of a schedule: unit, 2 tile + backwards, the stretch of key tiles that it begins with, and
# programs to keep pace with.
ENTRY = gl.constexpr(4)
# How often a program looks for those behind it before it goes on alone: some milliseconds.
MOST_LOOKS = gl.constexpr(4096)


@gluon.jit
def row_ranges(row, queries, keys, below, above, First, Stop, LAYOUT: gl.constexpr, RANGES: gl.constexpr):
    """First key, and the one after the last, that each row of a consumer may see; rows past the end repeat the last."""
    at = gl.minimum(row + gl.arange(0, ROWS, LAYOUT), queries - 1)
    if RANGES:
        first, stop = gl.load(First + at), gl.load(Stop + at)
    else:
        first, stop = gl.maximum(at + below, 0), gl.minimum(at + above + 1, keys)
    return first, stop


@gluon.jit
def tile_range(row, queries, keys, below, above, Bounds, KEY_TILE: gl.constexpr, RANGES: gl.constexpr):
    """Key tiles that a consumer's rows may see, start and stop, and those that all of them see whole."""
    if RANGES:
        at = Bounds + 4 * gl.minimum(row // ROWS, (queries - 1) // ROWS)
        first, last_first, first_stop, stop = gl.load(at), gl.load(at + 1), gl.load(at + 2), gl.load(at + 3)
    else:
        last = gl.minimum(row + ROWS, queries) - 1
        first, last_first = gl.maximum(row + below, 0), gl.maximum(last + below, 0)
        first_stop, stop = gl.minimum(row + above + 1, keys), gl.minimum(last + above + 1, keys)
    sees = (first < stop) & (row < queries)
    start_tile = gl.where(sees, first // KEY_TILE, 0)
    stop_tile = gl.where(sees, (stop + KEY_TILE - 1) // KEY_TILE, 0)
    whole_start = gl.where(sees, (last_first + KEY_TILE - 1) // KEY_TILE, 0)
    whole_stop = gl.where(sees, gl.maximum(first_stop, 0) // KEY_TILE, 0)
    return start_tile, stop_tile, whole_start, whole_stop


@gluon.jit
def union_range(
    row, queries, keys, below, above, Bounds, CONSUMERS: gl.constexpr, KEY_TILE: gl.constexpr, RANGES: gl.constexpr
):
    """Key tiles that some consumer sees: at least one, so that no loop is empty."""
    start, stop, _, _ = tile_range(row, queries, keys, below, above, Bounds, KEY_TILE, RANGES)
    for c in gl.static_range(1, CONSUMERS):
        mine, its, _, _ = tile_range(row + c * ROWS, queries, keys, below, above, Bounds, KEY_TILE, RANGES)
        start = gl.where(mine < its, gl.where(start < stop, gl.minimum(start, mine), mine), start)
        stop = gl.maximum(stop, its)
    return start, gl.maximum(stop, start + 1)


@gluon.jit
def copy_tile(a, b, batch, head, row, full, at_a, at_b, WIDTH_A: gl.constexpr, WIDTH_B: gl.constexpr):
    """Start copying rows of a matrix, both of its side-by-side tiles, onto one barrier."""
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
        looks = 0
        while (gl.load(Progress + stretch - LAG, volatile=True) < others) & (looks < MOST_LOOKS):
            looks += 1


@gluon.jit
def loader(
    q_a, q_b, k_a, k_b, v_a, v_b, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, q_full, q_free, k_full, k_free, v_full, v_free,
    Starts, Entries, Bounds, Progress, bounds_b, heads, group, queries, keys, below, above,
    CONSUMERS: gl.constexpr, KEY_TILE: gl.constexpr, STAGES: gl.constexpr,
    D_A: gl.constexpr, D_B: gl.constexpr, V_A: gl.constexpr, V_B: gl.constexpr,
    MASKED: gl.constexpr, RANGES: gl.constexpr, PACE: gl.constexpr, LAG: gl.constexpr,
):  # fmt: skip
    """Keeps the ring of key and value tiles full, over row tile after row tile."""
    program = gl.program_id(0)
    begin, end = gl.load(Starts + program), gl.load(Starts + program + 1)
    stage, phase, turn = 0, 1, 1
    for index in range(begin, end):
        entry = Entries + ENTRY * index
        unit, code = gl.load(entry), gl.load(entry + 1)
        batch, head, row, backwards = unit // heads, unit % heads, (code // 2) * (CONSUMERS * ROWS), code % 2
        start, stop = 0, keys // KEY_TILE
        if MASKED:
            start, stop = union_range(
                row, queries, keys, below, above, Bounds + batch * bounds_b, CONSUMERS, KEY_TILE, RANGES
            )
        for step in range(0, stop - start):
            key = gl.where(backwards != 0, stop - 1 - step, start + step) * KEY_TILE
            if PACE > 0:
                if step % PACE == 0:
                    keep_pace(Progress, gl.load(entry + 2) + step // PACE, gl.load(entry + 3), LAG)
            mbarrier.wait(k_free.index(stage), phase)
            copy_tile(
                k_a, k_b, batch, head // group, key, k_full.index(stage), k_sa.index(stage), k_sb.index(stage), D_A, D_B
            )
            if step == 0:  # queries wait for the row tile before; keys need not wait for them
                for c in gl.static_range(CONSUMERS):
                    mbarrier.wait(q_free.index(c), turn)
                    copy_tile(
                        q_a, q_b, batch, head, row + c * ROWS, q_full.index(c), q_sa.index(c), q_sb.index(c), D_A, D_B
                    )
            mbarrier.wait(v_free.index(stage), phase)
            copy_tile(
                v_a, v_b, batch, head // group, key, v_full.index(stage), v_sa.index(stage), v_sb.index(stage), V_A, V_B
            )
            stage += 1
            if stage == STAGES:
                stage = 0
                phase ^= 1
        turn ^= 1


@gluon.jit
def advanced(stage, phase, STAGES: gl.constexpr):
    """The next place of a ring."""
    stage += 1
    if stage == STAGES:
        stage = 0
        phase ^= 1
    return stage, phase
