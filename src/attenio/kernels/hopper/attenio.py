"""The dataflow ``attenio`` on Hopper: persistent programs, one producer warpgroup, two or three consumer warpgroups.

    for each (batch x head, row tile, direction) of the program's list:
        producer:    load Q; for each key tile that the rows may see: load K_j, then V_j
        consumer c:  rows 64 c .. 64 c + 63 of the tile
            S = Q K_0^T;  P = softmax step
            for j = 1 ..:  issue S' = Q K_j^T;  issue O += P V_{j-1};  wait S';  softmax step of S' while O is computed
            O += P V_last;  epilogue: write O / l, m, l

Consumers that see fewer keys than their neighbours skip tiles unread. A key tile is masked only where a row of the
consumer does not see all of it. Widths that are no power of two are two tiles side by side (96 = 64 + 32, 192 = 128 +
64), so that no product is padded. O leaves through shared memory while the next row tile is computed.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma_wait

from attenio.kernels.hopper.key_step import (
    Edges,
    add_outputs,
    issue_scores,
    key_step,
    rounded,
    wait_outputs,
    weights_of,
)
from attenio.kernels.hopper.online_softmax import row_sums, thread_sums
from attenio.kernels.hopper.producer import (
    ENTRY,
    ROWS,
    Barriers,
    Inputs,
    Shape,
    Tiles,
    Work,
    advanced,
    producer,
    ring_barriers,
    row_ranges,
    tile_range,
    union_range,
)

# TMA descriptors of O, and where the largest score and the sum of weights of every row go.
Output = namedtuple("Output", "o_a o_b Largest Total Sinks")


@gluon.jit
def skip_tiles(
    stage, phase, token, steps, barriers, mine, theirs, STAGES: gl.constexpr, PINGPONG: gl.constexpr
):  # fmt: skip
    """Free key and value tiles that other consumers need and this one does not."""
    for _ in range(0, steps):
        if PINGPONG:
            mbarrier.wait(mine, token)
            token ^= 1
            mbarrier.arrive(theirs, count=1)
        mbarrier.wait(barriers.k_full.index(stage), phase)
        mbarrier.arrive(barriers.k_free.index(stage), count=1)
        mbarrier.wait(barriers.v_full.index(stage), phase)
        mbarrier.arrive(barriers.v_free.index(stage), count=1)
        stage, phase = advanced(stage, phase, STAGES)
    return stage, phase, token


@gluon.jit
def masked_steps(start, stop, edges, backwards):
    """How many key tiles after the first are masked before those that all rows see whole, and after these."""
    whole_start = gl.minimum(gl.maximum(edges.whole_start, start), stop)
    whole_stop = gl.minimum(gl.maximum(edges.whole_stop, whole_start), stop)
    low, high, steps = whole_start - start, stop - whole_stop, stop - start - 1
    first = gl.minimum(gl.maximum(gl.where(backwards != 0, high, low) - 1, 0), steps)
    last = gl.minimum(gl.where(backwards != 0, low, high), steps - first)
    return first, last


@gluon.jit
def epilogue(
    acc, acc_b, largest, total, output, o_s, o_sb, q_free, batch, head, row, out_row, queries, shape,
    R_LAYOUT: gl.constexpr, O_LAYOUT: gl.constexpr, B_LAYOUT: gl.constexpr, STAGED: gl.constexpr,
):  # fmt: skip
    """Write 64 rows: O leaves through shared memory, where it may still be when the next row tile begins."""
    inverse = 1.0 / gl.where(total == 0.0, 1.0, total)
    at = row + gl.arange(0, ROWS, R_LAYOUT)
    gl.store(output.Largest + out_row + at, largest, mask=at < queries)
    gl.store(output.Total + out_row + at, total, mask=at < queries)
    if STAGED:
        tma.store_wait(0)
    by = gl.convert_layout(inverse, gl.SliceLayout(1, O_LAYOUT), assert_trivial=True)
    o_s.reshape([ROWS, shape.V_A]).store((acc * by[:, None]).to(o_s.dtype))
    if shape.V_B > 0:
        by = gl.convert_layout(inverse, gl.SliceLayout(1, B_LAYOUT), assert_trivial=True)
        o_sb.reshape([ROWS, shape.V_B]).store((acc_b * by[:, None]).to(o_s.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(output.o_a, [batch, head, row, 0], o_s)
    if shape.V_B > 0:
        tma.async_copy_shared_to_global(output.o_b, [batch, head, row, shape.V_A], o_sb)
    if not STAGED:
        tma.store_wait(0)
        mbarrier.arrive(q_free, count=1)


@gluon.jit
def consumer(
    output, tiles, barriers, mine, theirs, work, shape, ME: gl.constexpr, PINGPONG: gl.constexpr, STAGED: gl.constexpr,
    HELD: gl.constexpr,
):  # fmt: skip
    """Computes rows 64 ME .. 64 ME + 63 of every row tile of the program."""
    V_A: gl.constexpr = shape.V_A
    V_B: gl.constexpr = shape.V_B
    KEY_TILE: gl.constexpr = shape.KEY_TILE
    element: gl.constexpr = tiles.q_a.dtype
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEY_TILE, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_A, 16])
    B_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_B if V_B > 0 else V_A, 16])
    R_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    program = gl.program_id(0)
    begin, end = gl.load(work.Starts + program), gl.load(work.Starts + program + 1)
    batch_head, code = gl.load(work.Entries + ENTRY * begin), gl.load(work.Entries + ENTRY * begin + 1)
    zeros = gl.zeros([ROWS, KEY_TILE], gl.float32, S_LAYOUT)
    stage, phase, token, turn = 0, 0, 0, 0
    p_s = tiles.p.index(ME)
    for index in range(begin, end):
        batch, tile_row, backwards = batch_head // work.heads, (code // 2) * (shape.CONSUMERS * ROWS), code % 2
        head, row, out_row = batch_head % work.heads, tile_row + ME * ROWS, batch_head * work.queries
        entry = work.Entries + ENTRY * index
        batch_head, code = gl.load(entry + ENTRY), gl.load(entry + ENTRY + 1)
        start, stop, unseen = 0, work.keys // KEY_TILE, 0
        edges = Edges(0, 0, 0, 0)
        if shape.MASKED:
            limits = work.Bounds + batch * work.bounds_b
            low, high = union_range(tile_row, work, limits, shape)
            start, stop, whole_start, whole_stop = tile_range(row, work, limits, shape)
            first, row_stop = row_ranges(row, work, batch, R_LAYOUT, shape.RANGES)
            edges = Edges(first, row_stop, whole_start, whole_stop)
            start, stop = gl.where(start < stop, start, low), gl.where(start < stop, stop, low + 1)
            before = gl.where(backwards != 0, high - stop, start - low)
            unseen = high - low - (stop - start) - before
            stage, phase, token = skip_tiles(
                stage, phase, token, before, barriers, mine, theirs, shape.STAGES, PINGPONG
            )
        tile = gl.where(backwards != 0, stop - 1, start)
        onward = gl.where(backwards != 0, -1, 1)
        largest = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
        total = thread_sums(zeros)
        if shape.SINKS:  # a first weight, whose value is zero
            largest = gl.zeros([ROWS], gl.float32, R_LAYOUT) + gl.load(output.Sinks + head) * 1.4426950408889634
            own = gl.arange(0, 8, gl.SliceLayout(0, total.type.layout)) == 0
            total = total + gl.where(own, 1.0, 0.0)[None, :]
        acc = gl.zeros([ROWS, V_A], gl.float32, O_LAYOUT)
        acc_b = gl.zeros([ROWS, V_B if V_B > 0 else V_A], gl.float32, B_LAYOUT)

        mbarrier.wait(barriers.q_full.index(ME), turn)
        turn ^= 1
        q_a = tiles.q_a.index(ME).reshape([ROWS, shape.D_A])
        q_b = tiles.q_b.index(ME).reshape([ROWS, shape.D_B if shape.D_B > 0 else shape.D_A])
        if HELD:
            q_a = q_a.load(gl.DotOperandLayout(0, S_LAYOUT, 2))
            if shape.D_B > 0:
                q_b = q_b.load(gl.DotOperandLayout(0, S_LAYOUT, 2))
        mbarrier.wait(barriers.k_full.index(stage), phase)
        scores = issue_scores(q_a, q_b, tiles.k_a.index(stage), tiles.k_b.index(stage), zeros, shape)
        scores = warpgroup_mma_wait(0, deps=(scores,))
        mbarrier.arrive(barriers.k_free.index(stage), count=1)
        weights, largest, total, _unused = weights_of(
            scores, largest, total, edges, tile, work, shape, element, shape.MASKED
        )
        p = rounded(weights, p_s, element, shape)
        steps = stop - start - 1
        if shape.MASKED:
            first_masked, last_masked = masked_steps(start, stop, edges, backwards)
            for end in range(0, 2):  # masked tiles at the first end, those that all rows see whole, the other end
                for _ in range(0, gl.where(end == 0, first_masked, last_masked)):
                    tile += onward
                    p, acc, acc_b, largest, total, stage, phase, token = key_step(
                        p, acc, acc_b, largest, total, stage, phase, token, tile, q_a, q_b, zeros, edges, p_s, tiles,
                        barriers, mine, theirs, work, shape, True, PINGPONG,
                    )  # fmt: skip
                for _ in range(0, gl.where(end == 0, steps - first_masked - last_masked, 0)):
                    tile += onward
                    p, acc, acc_b, largest, total, stage, phase, token = key_step(
                        p, acc, acc_b, largest, total, stage, phase, token, tile, q_a, q_b, zeros, edges, p_s, tiles,
                        barriers, mine, theirs, work, shape, False, PINGPONG,
                    )  # fmt: skip
        else:
            for _ in range(0, steps):
                p, acc, acc_b, largest, total, stage, phase, token = key_step(
                    p, acc, acc_b, largest, total, stage, phase, token, tile, q_a, q_b, zeros, edges, p_s, tiles,
                    barriers, mine, theirs, work, shape, False, PINGPONG,
                )  # fmt: skip
        if STAGED:
            mbarrier.arrive(barriers.q_free.index(ME), count=1)
        acc, acc_b, p_b = add_outputs(p, acc, acc_b, tiles, barriers.v_full, stage, phase, shape)
        acc, acc_b = wait_outputs(acc, acc_b, p, p_b, shape)
        mbarrier.arrive(barriers.v_free.index(stage), count=1)
        stage, phase = advanced(stage, phase, shape.STAGES)
        if shape.MASKED:
            stage, phase, token = skip_tiles(
                stage, phase, token, unseen, barriers, mine, theirs, shape.STAGES, PINGPONG
            )

        total = row_sums(total, R_LAYOUT)
        epilogue(
            acc, acc_b, largest, total, output, tiles.o_a.index(ME), tiles.o_b.index(ME), barriers.q_free.index(ME),
            batch, head, row, out_row, work.queries, shape, R_LAYOUT, O_LAYOUT, B_LAYOUT, STAGED,
        )  # fmt: skip
    tma.store_wait(0)


_ANY_NUMBER = ["range_b", "bounds_b", "heads", "group", "queries", "keys", "below", "above"]
_ANY_PLACE = ["Largest", "Total", "Starts", "Entries", "First", "Stop", "Bounds", "Progress", "Sinks"]


@gluon.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_PLACE)
def attenio_kernel(
    q_a, q_b, k_a, k_b, v_a, v_b, o_a, o_b, Largest, Total, Starts, Entries, First, Stop, Bounds,
    Progress, Sinks, range_b, bounds_b, heads, group, queries, keys, below, above, scale_log2, inner,
    CONSUMERS: gl.constexpr, KEY_TILE: gl.constexpr, STAGES: gl.constexpr,
    D_A: gl.constexpr, D_B: gl.constexpr, V_A: gl.constexpr, V_B: gl.constexpr,
    MASKED: gl.constexpr, BELOW: gl.constexpr, RANGES: gl.constexpr,
    PINGPONG: gl.constexpr, STAGED: gl.constexpr, HELD: gl.constexpr,
    PACE: gl.constexpr, LAG: gl.constexpr, REGISTERS: gl.constexpr, SINKS: gl.constexpr,
    CAPPED: gl.constexpr, SHARES_P: gl.constexpr,
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
    if SHARES_P:
        P_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, KEY_TILE], q_a.dtype)
        p_s = gl.allocate_shared_memory(q_a.dtype, [CONSUMERS, ROWS, KEY_TILE], P_LAYOUT)
    else:
        p_s = q_sa
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], BARRIER)
    q_free = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], BARRIER)
    tokens = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], BARRIER)
    for c in gl.static_range(CONSUMERS):
        mbarrier.init(q_full.index(c), count=1)
        mbarrier.init(q_free.index(c), count=1)
        mbarrier.init(tokens.index(c), count=1)
    k_full, k_free, v_full, v_free = ring_barriers(STAGES, CONSUMERS)
    fence_async_shared()
    mbarrier.arrive(tokens.index(0), count=1)
    inputs, output = Inputs(q_a, q_b, k_a, k_b, v_a, v_b), Output(o_a, o_b, Largest, Total, Sinks)
    tiles = Tiles(q_sa, q_sb, k_sa, k_sb, v_sa, v_sb, o_sa, o_sb, p_s)
    barriers = Barriers(q_full, q_free, k_full, k_free, v_full, v_free)
    work = Work(
        Starts, Entries, First, Stop, Bounds, range_b, bounds_b, heads, queries, keys, below, above, scale_log2, inner
    )
    # Beside narrow heads, whose products are short, other consumers' products run anyway.
    OVERLAPS: gl.constexpr = D_A + D_B + V_A + V_B > 256
    shape: gl.constexpr = Shape(
        CONSUMERS, KEY_TILE, STAGES, D_A, D_B, V_A, V_B, MASKED, BELOW, RANGES, SINKS, CAPPED, SHARES_P, OVERLAPS
    )  # fmt: skip
    t_0 = tokens.index(0)
    if CONSUMERS == 1:
        gl.warp_specialize(
            [
                (producer, (inputs, tiles, barriers, work, Progress, group, shape, PACE, LAG)),
                (consumer, (output, tiles, barriers, t_0, t_0, work, shape, 0, PINGPONG, STAGED, HELD)),
            ],
            [4],
            [REGISTERS],
        )
    elif CONSUMERS == 2:
        t_1 = tokens.index(1)
        gl.warp_specialize(
            [
                (producer, (inputs, tiles, barriers, work, Progress, group, shape, PACE, LAG)),
                (consumer, (output, tiles, barriers, t_0, t_1, work, shape, 0, PINGPONG, STAGED, HELD)),
                (consumer, (output, tiles, barriers, t_1, t_0, work, shape, 1, PINGPONG, STAGED, HELD)),
            ],
            [4, 4],
            [REGISTERS, REGISTERS],
        )
    else:
        t_1, t_2 = tokens.index(1), tokens.index(2)
        gl.warp_specialize(
            [
                (producer, (inputs, tiles, barriers, work, Progress, group, shape, PACE, LAG)),
                (consumer, (output, tiles, barriers, t_0, t_1, work, shape, 0, PINGPONG, STAGED, HELD)),
                (consumer, (output, tiles, barriers, t_1, t_2, work, shape, 1, PINGPONG, STAGED, HELD)),
                (consumer, (output, tiles, barriers, t_2, t_0, work, shape, 2, PINGPONG, STAGED, HELD)),
            ],
            [4, 4, 4],
            [REGISTERS, REGISTERS, REGISTERS],
        )
