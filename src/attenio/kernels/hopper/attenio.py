"""Query-stationary attention on Hopper: persistent programs with lists of row tiles; four warps load, others compute.

    for each (head, row tile, direction) of the program's list:
        loader:      wait until free, copy Q; for each key tile the rows may see: wait until free, copy K_j, then V_j
        consumer c:  rows 64 c .. 64 c + 63 of the tile
            S = Q K_0^T;  P = softmax step
            for j = 1 ..:  start S' = Q K_j^T;  start O += P V_{j-1};  wait S';  softmax step of S' while O is computed
            O += P V_last;  write O / l, m, l

Consumers that see fewer keys than their neighbours pass tiles on unread. A key tile is masked only where a row of the
consumer does not see all of it. Widths that are no power of two are two tiles side by side (96 = 64 + 32, 192 = 128 +
64), so that no product is padded. O leaves through shared memory while the next row tile is computed.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from attenio.kernels.hopper.producer import ENTRY, ROWS, advanced, loader, row_ranges, tile_range, union_range

__all__ = ["query_stationary_kernel"]


@gluon.jit
def passed_on(
    stage, phase, token, steps, k_full, k_free, v_full, v_free, mine, theirs,
    STAGES: gl.constexpr, PINGPONG: gl.constexpr,
):  # fmt: skip
    """Free key and value tiles that other consumers need and this one does not."""
    for _ in range(0, steps):
        if PINGPONG:
            mbarrier.wait(mine, token)
            token ^= 1
            mbarrier.arrive(theirs, count=1)
        mbarrier.wait(k_full.index(stage), phase)
        mbarrier.arrive(k_free.index(stage), count=1)
        mbarrier.wait(v_full.index(stage), phase)
        mbarrier.arrive(v_free.index(stage), count=1)
        stage, phase = advanced(stage, phase, STAGES)
    return stage, phase, token


@gluon.jit
def scores_of(q_a, q_b, k_a, k_b, zeros, KEY_TILE: gl.constexpr, D_A: gl.constexpr, D_B: gl.constexpr):
    """Start S = Q K^T."""
    k = k_a.reshape([KEY_TILE, D_A]).permute((1, 0))
    scores = warpgroup_mma(q_a, k, zeros, use_acc=False, is_async=True)
    if D_B > 0:
        k = k_b.reshape([KEY_TILE, D_B]).permute((1, 0))
        scores = warpgroup_mma(q_b, k, scores, is_async=True)
    return scores


@gluon.jit
def softmax_step(
    scores, largest, total, scale, first, stop, tile, whole_start, whole_stop, COLUMNS: gl.constexpr,
    MASKED: gl.constexpr, BELOW: gl.constexpr,
):  # fmt: skip
    """Weights of a key tile, the new largest and total of every row, and the factor by which older sums fade."""
    if MASKED:
        WIDTH: gl.constexpr = scores.shape[1]
        columns = tile * WIDTH + gl.arange(0, WIDTH, COLUMNS)[None, :]
        if BELOW:
            if (tile < whole_start) | (tile >= whole_stop):
                shown = (columns >= first[:, None]) & (columns < stop[:, None])
                scores = gl.where(shown, scores, float("-inf"))
        else:
            if tile >= whole_stop:
                scores = gl.where(columns < stop[:, None], scores, float("-inf"))
    larger = gl.maximum(largest, gl.max(scores, 1) * scale)
    anchor = larger
    if MASKED:  # a row that has seen nothing yet
        anchor = gl.where(larger == float("-inf"), 0.0, larger)
    weights = gl.exp2(scores * scale - anchor[:, None])
    fading = gl.exp2(largest - anchor)
    return weights, larger, total * fading + gl.sum(weights, 1), fading


@gluon.jit
def write_rows(
    sums, sums_b, largest, total, o_a, o_b, Largest, Total, place, place_b, q_free, batch, head, row, out_row, queries,
    R_LAYOUT: gl.constexpr, O_LAYOUT: gl.constexpr, B_LAYOUT: gl.constexpr,
    V_A: gl.constexpr, V_B: gl.constexpr, STAGED: gl.constexpr,
):  # fmt: skip
    """Write 64 rows: O leaves through shared memory, where it may still be when the next row tile begins."""
    inverse = 1.0 / gl.where(total == 0.0, 1.0, total)
    at = row + gl.arange(0, ROWS, R_LAYOUT)
    gl.store(Largest + out_row + at, largest, mask=at < queries)
    gl.store(Total + out_row + at, total, mask=at < queries)
    if STAGED:
        tma.store_wait(0)
    by = gl.convert_layout(inverse, gl.SliceLayout(1, O_LAYOUT), assert_trivial=True)
    place.reshape([ROWS, V_A]).store((sums * by[:, None]).to(place.dtype))
    if V_B > 0:
        by = gl.convert_layout(inverse, gl.SliceLayout(1, B_LAYOUT), assert_trivial=True)
        place_b.reshape([ROWS, V_B]).store((sums_b * by[:, None]).to(place.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(o_a, [batch, head, row, 0], place)
    if V_B > 0:
        tma.async_copy_shared_to_global(o_b, [batch, head, row, V_A], place_b)
    if not STAGED:
        tma.store_wait(0)
        mbarrier.arrive(q_free, count=1)


@gluon.jit
def consumer(
    o_a, o_b, Largest, Total, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, o_sa, o_sb,
    q_full, q_free, k_full, k_free, v_full, v_free, mine, theirs,
    Starts, Entries, First, Stop, Bounds, range_b, bounds_b, heads, queries, keys, below, above, scale,
    ME: gl.constexpr, CONSUMERS: gl.constexpr, KEY_TILE: gl.constexpr, STAGES: gl.constexpr,
    D_A: gl.constexpr, D_B: gl.constexpr, V_A: gl.constexpr, V_B: gl.constexpr,
    MASKED: gl.constexpr, BELOW: gl.constexpr, RANGES: gl.constexpr, PINGPONG: gl.constexpr, STAGED: gl.constexpr,
    HELD: gl.constexpr,
):  # fmt: skip
    """Computes rows 64 ME .. 64 ME + 63 of every row tile of the program."""
    element: gl.constexpr = q_sa.dtype
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEY_TILE, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_A, 16])
    B_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_B if V_B > 0 else V_A, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    P_B_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, B_LAYOUT, 2)
    R_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    C_LAYOUT: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)
    PRODUCTS: gl.constexpr = 2 if V_B > 0 else 1
    program = gl.program_id(0)
    begin, end = gl.load(Starts + program), gl.load(Starts + program + 1)
    unit, code = gl.load(Entries + ENTRY * begin), gl.load(Entries + ENTRY * begin + 1)
    zeros = gl.zeros([ROWS, KEY_TILE], gl.float32, S_LAYOUT)
    stage, phase, token, turn = 0, 0, 0, 0
    for index in range(begin, end):
        batch, tile_row, backwards = unit // heads, (code // 2) * (CONSUMERS * ROWS), code % 2
        head, row, out_row = unit % heads, tile_row + ME * ROWS, unit * queries
        entry = Entries + ENTRY * index
        unit, code = gl.load(entry + ENTRY), gl.load(entry + ENTRY + 1)
        start, stop, whole_start, whole_stop = 0, keys // KEY_TILE, 0, 0
        after, first, row_stop = 0, 0, 0
        if MASKED:
            limits = Bounds + batch * bounds_b
            low, high = union_range(tile_row, queries, keys, below, above, limits, CONSUMERS, KEY_TILE, RANGES)
            start, stop, whole_start, whole_stop = tile_range(
                row, queries, keys, below, above, limits, KEY_TILE, RANGES
            )
            first, row_stop = row_ranges(
                row, queries, keys, below, above, First + batch * range_b, Stop + batch * range_b, R_LAYOUT, RANGES
            )
            start, stop = gl.where(start < stop, start, low), gl.where(start < stop, stop, low + 1)
            before = gl.where(backwards != 0, high - stop, start - low)
            after = high - low - (stop - start) - before
            stage, phase, token = passed_on(
                stage, phase, token, before, k_full, k_free, v_full, v_free, mine, theirs, STAGES, PINGPONG
            )
        tile = gl.where(backwards != 0, stop - 1, start)
        onward = gl.where(backwards != 0, -1, 1)
        largest = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
        total = gl.zeros([ROWS], gl.float32, R_LAYOUT)
        sums = gl.zeros([ROWS, V_A], gl.float32, O_LAYOUT)
        sums_b = gl.zeros([ROWS, V_B if V_B > 0 else V_A], gl.float32, B_LAYOUT)

        mbarrier.wait(q_full.index(ME), turn)
        turn ^= 1
        q_b = q_sb.index(ME).reshape([ROWS, D_B if D_B > 0 else D_A])
        if HELD:
            q_a = q_sa.index(ME).reshape([ROWS, D_A]).load(gl.DotOperandLayout(0, S_LAYOUT, 2))
        else:
            q_a = q_sa.index(ME).reshape([ROWS, D_A])
        mbarrier.wait(k_full.index(stage), phase)
        scores = scores_of(q_a, q_b, k_sa.index(stage), k_sb.index(stage), zeros, KEY_TILE, D_A, D_B)
        scores = warpgroup_mma_wait(0, deps=(scores,))
        mbarrier.arrive(k_free.index(stage), count=1)
        weights, largest, total, _ = softmax_step(
            scores, largest, total, scale, first, row_stop, tile, whole_start, whole_stop, C_LAYOUT, MASKED, BELOW
        )
        narrow = weights.to(element)
        for _ in range(1, stop - start):
            tile += onward
            ahead, ahead_phase = advanced(stage, phase, STAGES)
            mbarrier.wait(k_full.index(ahead), ahead_phase)
            if PINGPONG:
                mbarrier.wait(mine, token)
                token ^= 1
            coming = scores_of(q_a, q_b, k_sa.index(ahead), k_sb.index(ahead), zeros, KEY_TILE, D_A, D_B)
            mbarrier.wait(v_full.index(stage), phase)
            p = gl.convert_layout(narrow, P_LAYOUT, assert_trivial=True)
            sums = warpgroup_mma(p, v_sa.index(stage).reshape([KEY_TILE, V_A]), sums, is_async=True)
            if V_B > 0:
                p_b = gl.convert_layout(narrow, P_B_LAYOUT, assert_trivial=True)
                sums_b = warpgroup_mma(p_b, v_sb.index(stage).reshape([KEY_TILE, V_B]), sums_b, is_async=True)
            if PINGPONG:
                mbarrier.arrive(theirs, count=1)
            scores = warpgroup_mma_wait(PRODUCTS, deps=(coming,))
            mbarrier.arrive(k_free.index(ahead), count=1)
            weights, largest, total, fading = softmax_step(
                scores, largest, total, scale, first, row_stop, tile, whole_start, whole_stop, C_LAYOUT, MASKED, BELOW
            )
            if V_B > 0:
                sums, sums_b, p, p_b = warpgroup_mma_wait(0, deps=(sums, sums_b, p, p_b))
                sums_b = sums_b * gl.convert_layout(fading, gl.SliceLayout(1, B_LAYOUT), assert_trivial=True)[:, None]
            else:
                sums, p = warpgroup_mma_wait(0, deps=(sums, p))
            mbarrier.arrive(v_free.index(stage), count=1)
            sums = sums * gl.convert_layout(fading, gl.SliceLayout(1, O_LAYOUT), assert_trivial=True)[:, None]
            narrow = weights.to(element)
            stage, phase = ahead, ahead_phase
        if STAGED:
            mbarrier.arrive(q_free.index(ME), count=1)
        mbarrier.wait(v_full.index(stage), phase)
        p = gl.convert_layout(narrow, P_LAYOUT, assert_trivial=True)
        sums = warpgroup_mma(p, v_sa.index(stage).reshape([KEY_TILE, V_A]), sums, is_async=True)
        if V_B > 0:
            p_b = gl.convert_layout(narrow, P_B_LAYOUT, assert_trivial=True)
            sums_b = warpgroup_mma(p_b, v_sb.index(stage).reshape([KEY_TILE, V_B]), sums_b, is_async=True)
            sums, sums_b, p, p_b = warpgroup_mma_wait(0, deps=(sums, sums_b, p, p_b))
        else:
            sums, p = warpgroup_mma_wait(0, deps=(sums, p))
        mbarrier.arrive(v_free.index(stage), count=1)
        stage, phase = advanced(stage, phase, STAGES)
        if MASKED:
            stage, phase, token = passed_on(
                stage, phase, token, after, k_full, k_free, v_full, v_free, mine, theirs, STAGES, PINGPONG
            )

        write_rows(
            sums, sums_b, largest, total, o_a, o_b, Largest, Total, o_sa.index(ME), o_sb.index(ME), q_free.index(ME),
            batch, head, row, out_row, queries, R_LAYOUT, O_LAYOUT, B_LAYOUT, V_A, V_B, STAGED,
        )  # fmt: skip
    tma.store_wait(0)


@gluon.jit(
    do_not_specialize=["range_b", "bounds_b", "heads", "group", "queries", "keys", "below", "above"],
    do_not_specialize_on_alignment=[
        "Largest",
        "Total",
        "Starts",
        "Entries",
        "First",
        "Stop",
        "Bounds",
        "Progress",
    ],
)
def query_stationary_kernel(
    q_a, q_b, k_a, k_b, v_a, v_b, o_a, o_b, Largest, Total, Starts, Entries, First, Stop, Bounds,
    Progress, range_b, bounds_b, heads, group, queries, keys, below, above, scale,
    CONSUMERS: gl.constexpr, KEY_TILE: gl.constexpr, STAGES: gl.constexpr,
    D_A: gl.constexpr, D_B: gl.constexpr, V_A: gl.constexpr, V_B: gl.constexpr,
    MASKED: gl.constexpr, BELOW: gl.constexpr, RANGES: gl.constexpr,
    PINGPONG: gl.constexpr, STAGED: gl.constexpr, HELD: gl.constexpr,
    PACE: gl.constexpr, LAG: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    q_sa = gl.allocate_shared_memory(q_a.dtype, [CONSUMERS, 1, 1, ROWS, D_A], q_a.layout)
    k_sa = gl.allocate_shared_memory(k_a.dtype, [STAGES, 1, 1, KEY_TILE, D_A], k_a.layout)
    v_sa = gl.allocate_shared_memory(v_a.dtype, [STAGES, 1, 1, KEY_TILE, V_A], v_a.layout)
    if D_B > 0:
        q_sb = gl.allocate_shared_memory(q_b.dtype, [CONSUMERS, 1, 1, ROWS, D_B], q_b.layout)
        k_sb = gl.allocate_shared_memory(k_b.dtype, [STAGES, 1, 1, KEY_TILE, D_B], k_b.layout)
    else:
        q_sb, k_sb = q_sa, k_sa
    if V_B > 0:
        v_sb = gl.allocate_shared_memory(v_b.dtype, [STAGES, 1, 1, KEY_TILE, V_B], v_b.layout)
    else:
        v_sb = v_sa
    if STAGED:
        o_sa = gl.allocate_shared_memory(o_a.dtype, [CONSUMERS, 1, 1, ROWS, V_A], o_a.layout)
    else:
        o_sa = q_sa
    if V_B > 0:
        if STAGED:
            o_sb = gl.allocate_shared_memory(o_b.dtype, [CONSUMERS, 1, 1, ROWS, V_B], o_b.layout)
        else:
            o_sb = q_sb
    else:
        o_sb = o_sa
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], BARRIER)
    q_free = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], BARRIER)
    tokens = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for c in gl.static_range(CONSUMERS):
        mbarrier.init(q_full.index(c), count=1)
        mbarrier.init(q_free.index(c), count=1)
        mbarrier.init(tokens.index(c), count=1)
    for s in gl.static_range(STAGES):
        mbarrier.init(k_full.index(s), count=1)
        mbarrier.init(v_full.index(s), count=1)
        mbarrier.init(k_free.index(s), count=CONSUMERS)
        mbarrier.init(v_free.index(s), count=CONSUMERS)
    fence_async_shared()
    mbarrier.arrive(tokens.index(0), count=1)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (loader, (
                    q_a, q_b, k_a, k_b, v_a, v_b, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb,
                    q_full, q_free, k_full, k_free, v_full, v_free,
                    Starts, Entries, Bounds, Progress, bounds_b, heads, group, queries, keys, below, above,
                    CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B, MASKED, RANGES, PACE, LAG,
                )),
                (consumer, (
                    o_a, o_b, Largest, Total, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, o_sa, o_sb,
                    q_full, q_free, k_full, k_free, v_full, v_free, tokens.index(0), tokens.index(1),
                    Starts, Entries, First, Stop, Bounds,
                    range_b, bounds_b, heads, queries, keys, below, above, scale,
                    0, CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B,
                    MASKED, BELOW, RANGES, PINGPONG, STAGED, HELD,
                )),
                (consumer, (
                    o_a, o_b, Largest, Total, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, o_sa, o_sb,
                    q_full, q_free, k_full, k_free, v_full, v_free, tokens.index(1), tokens.index(0),
                    Starts, Entries, First, Stop, Bounds,
                    range_b, bounds_b, heads, queries, keys, below, above, scale,
                    1, CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B,
                    MASKED, BELOW, RANGES, PINGPONG, STAGED, HELD,
                )),
            ],
            [4, 4],
            [REGISTERS, REGISTERS],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (loader, (
                    q_a, q_b, k_a, k_b, v_a, v_b, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb,
                    q_full, q_free, k_full, k_free, v_full, v_free,
                    Starts, Entries, Bounds, Progress, bounds_b, heads, group, queries, keys, below, above,
                    CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B, MASKED, RANGES, PACE, LAG,
                )),
                (consumer, (
                    o_a, o_b, Largest, Total, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, o_sa, o_sb,
                    q_full, q_free, k_full, k_free, v_full, v_free, tokens.index(0), tokens.index(1),
                    Starts, Entries, First, Stop, Bounds,
                    range_b, bounds_b, heads, queries, keys, below, above, scale,
                    0, CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B,
                    MASKED, BELOW, RANGES, PINGPONG, STAGED, HELD,
                )),
                (consumer, (
                    o_a, o_b, Largest, Total, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, o_sa, o_sb,
                    q_full, q_free, k_full, k_free, v_full, v_free, tokens.index(1), tokens.index(2),
                    Starts, Entries, First, Stop, Bounds,
                    range_b, bounds_b, heads, queries, keys, below, above, scale,
                    1, CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B,
                    MASKED, BELOW, RANGES, PINGPONG, STAGED, HELD,
                )),
                (consumer, (
                    o_a, o_b, Largest, Total, q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, o_sa, o_sb,
                    q_full, q_free, k_full, k_free, v_full, v_free, tokens.index(2), tokens.index(0),
                    Starts, Entries, First, Stop, Bounds,
                    range_b, bounds_b, heads, queries, keys, below, above, scale,
                    2, CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B,
                    MASKED, BELOW, RANGES, PINGPONG, STAGED, HELD,
                )),
            ],
            [4, 4, 4],
            [REGISTERS, REGISTERS, REGISTERS],
        )  # fmt: skip
