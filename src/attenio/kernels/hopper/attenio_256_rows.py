"""Query-stationary attention with 256 rows an SM: for heads whose keys and values do not stay in L2.

    for each (head, row tile of 256, direction) of the program's list:
        loader:      copy Q; for each key tile, kept in pace with all other programs: copy K_j, then V_j
        consumer c:  rows 128 c .. 128 c + 127 of the tile as two halves
            S_0 = Q_0 K_0^T
            for each j:  start S_1 = Q_1 K_j^T;  softmax step of S_0 meanwhile
                         start O_0 += P_0 V_j;  softmax step of S_1 meanwhile
                         O_1 += P_1 V_j;  S_0 = Q_0 K_{j+1}^T
            write O / l, m, l

A sweep over the keys then serves twice the rows, so memory is read half as often. Dense attention only, and whole key
tiles.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from attenio.kernels.hopper.attenio import scores_of, softmax_step, write_rows
from attenio.kernels.hopper.producer import ENTRY, ROWS, advanced, loader

__all__ = ["wide_rows_kernel"]

CONSUMERS = gl.constexpr(2)


@gluon.jit
def wide_consumer(
    o_box, Largest, Total, q_s, k_s, v_s, q_full, q_free, k_full, k_free, v_full, v_free, Starts, Entries,
    heads, queries, keys, scale,
    ME: gl.constexpr, KEY_TILE: gl.constexpr, STAGES: gl.constexpr, D: gl.constexpr, V: gl.constexpr,
):  # fmt: skip
    """Computes rows 128 ME .. 128 ME + 127 of every row tile of the program."""
    element: gl.constexpr = q_s.dtype
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEY_TILE, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    R_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    C_LAYOUT: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)
    BY_ROW: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    program = gl.program_id(0)
    begin, end = gl.load(Starts + program), gl.load(Starts + program + 1)
    zeros = gl.zeros([ROWS, KEY_TILE], gl.float32, S_LAYOUT)
    q_0, q_1 = q_s.index(2 * ME).reshape([ROWS, D]), q_s.index(2 * ME + 1).reshape([ROWS, D])
    stage, phase, turn = 0, 0, 0
    for index in range(begin, end):
        unit, code = gl.load(Entries + ENTRY * index), gl.load(Entries + ENTRY * index + 1)
        batch, head, out_row = unit // heads, unit % heads, unit * queries
        row = (code // 2) * (2 * CONSUMERS * ROWS) + 2 * ME * ROWS
        m_0 = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
        m_1 = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
        l_0, l_1 = gl.zeros([ROWS], gl.float32, R_LAYOUT), gl.zeros([ROWS], gl.float32, R_LAYOUT)
        sums_0 = gl.zeros([ROWS, V], gl.float32, O_LAYOUT)
        sums_1 = gl.zeros([ROWS, V], gl.float32, O_LAYOUT)
        mbarrier.wait(q_full.index(2 * ME), turn)
        mbarrier.wait(q_full.index(2 * ME + 1), turn)
        turn ^= 1
        mbarrier.wait(k_full.index(stage), phase)
        k = k_s.index(stage)
        scores_0 = scores_of(q_0, q_0, k, k, zeros, KEY_TILE, D, 0)
        scores_0 = warpgroup_mma_wait(0, deps=(scores_0,))
        for _ in range(1, keys // KEY_TILE):
            k, v = k_s.index(stage), v_s.index(stage).reshape([KEY_TILE, V])
            scores_1 = scores_of(q_1, q_1, k, k, zeros, KEY_TILE, D, 0)
            weights, m_0, l_0, fading = softmax_step(scores_0, m_0, l_0, scale, 0, 0, 0, 0, 0, C_LAYOUT, False, False)
            sums_0 = sums_0 * gl.convert_layout(fading, BY_ROW, assert_trivial=True)[:, None]
            p_0 = gl.convert_layout(weights.to(element), P_LAYOUT, assert_trivial=True)
            mbarrier.wait(v_full.index(stage), phase)
            sums_0 = warpgroup_mma(p_0, v, sums_0, is_async=True)
            scores_1 = warpgroup_mma_wait(1, deps=(scores_1,))
            mbarrier.arrive(k_free.index(stage), count=1)
            weights, m_1, l_1, fading = softmax_step(scores_1, m_1, l_1, scale, 0, 0, 0, 0, 0, C_LAYOUT, False, False)
            sums_1 = sums_1 * gl.convert_layout(fading, BY_ROW, assert_trivial=True)[:, None]
            p_1 = gl.convert_layout(weights.to(element), P_LAYOUT, assert_trivial=True)
            sums_1 = warpgroup_mma(p_1, v, sums_1, is_async=True)
            ahead, ahead_phase = advanced(stage, phase, STAGES)
            mbarrier.wait(k_full.index(ahead), ahead_phase)
            k = k_s.index(ahead)
            coming = scores_of(q_0, q_0, k, k, zeros, KEY_TILE, D, 0)
            scores_0, sums_0, sums_1, p_0, p_1 = warpgroup_mma_wait(0, deps=(coming, sums_0, sums_1, p_0, p_1))
            mbarrier.arrive(v_free.index(stage), count=1)
            stage, phase = ahead, ahead_phase
        k, v = k_s.index(stage), v_s.index(stage).reshape([KEY_TILE, V])
        scores_1 = scores_of(q_1, q_1, k, k, zeros, KEY_TILE, D, 0)
        weights, m_0, l_0, fading = softmax_step(scores_0, m_0, l_0, scale, 0, 0, 0, 0, 0, C_LAYOUT, False, False)
        sums_0 = sums_0 * gl.convert_layout(fading, BY_ROW, assert_trivial=True)[:, None]
        p_0 = gl.convert_layout(weights.to(element), P_LAYOUT, assert_trivial=True)
        mbarrier.wait(v_full.index(stage), phase)
        sums_0 = warpgroup_mma(p_0, v, sums_0, is_async=True)
        scores_1 = warpgroup_mma_wait(1, deps=(scores_1,))
        mbarrier.arrive(k_free.index(stage), count=1)
        weights, m_1, l_1, fading = softmax_step(scores_1, m_1, l_1, scale, 0, 0, 0, 0, 0, C_LAYOUT, False, False)
        sums_1 = sums_1 * gl.convert_layout(fading, BY_ROW, assert_trivial=True)[:, None]
        p_1 = gl.convert_layout(weights.to(element), P_LAYOUT, assert_trivial=True)
        sums_1 = warpgroup_mma(p_1, v, sums_1, is_async=True)
        sums_0, sums_1, p_0, p_1 = warpgroup_mma_wait(0, deps=(sums_0, sums_1, p_0, p_1))
        mbarrier.arrive(v_free.index(stage), count=1)
        stage, phase = advanced(stage, phase, STAGES)
        write_rows(
            sums_0, sums_0, m_0, l_0, o_box, o_box, Largest, Total, q_s.index(2 * ME), q_s.index(2 * ME),
            q_free.index(2 * ME), batch, head, row, out_row, queries, R_LAYOUT, O_LAYOUT, O_LAYOUT, V, 0, False,
        )  # fmt: skip
        write_rows(
            sums_1, sums_1, m_1, l_1, o_box, o_box, Largest, Total, q_s.index(2 * ME + 1), q_s.index(2 * ME + 1),
            q_free.index(2 * ME + 1), batch, head, row + ROWS, out_row, queries, R_LAYOUT, O_LAYOUT, O_LAYOUT, V, 0,
            False,
        )  # fmt: skip


@gluon.jit(
    do_not_specialize=["heads", "group", "queries", "keys"],
    do_not_specialize_on_alignment=["Largest", "Total", "Starts", "Entries", "Progress"],
)
def wide_rows_kernel(
    q_box, k_box, v_box, o_box, Largest, Total, Starts, Entries, Progress,
    heads, group, queries, keys, scale,
    KEY_TILE: gl.constexpr, STAGES: gl.constexpr, D: gl.constexpr, V: gl.constexpr,
    PACE: gl.constexpr, LAG: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    q_s = gl.allocate_shared_memory(q_box.dtype, [2 * CONSUMERS, 1, 1, ROWS, D], q_box.layout)
    k_s = gl.allocate_shared_memory(k_box.dtype, [STAGES, 1, 1, KEY_TILE, D], k_box.layout)
    v_s = gl.allocate_shared_memory(v_box.dtype, [STAGES, 1, 1, KEY_TILE, V], v_box.layout)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [2 * CONSUMERS, 1], BARRIER)
    q_free = gl.allocate_shared_memory(gl.int64, [2 * CONSUMERS, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for h in gl.static_range(2 * CONSUMERS):
        mbarrier.init(q_full.index(h), count=1)
        mbarrier.init(q_free.index(h), count=1)
    for s in gl.static_range(STAGES):
        mbarrier.init(k_full.index(s), count=1)
        mbarrier.init(v_full.index(s), count=1)
        mbarrier.init(k_free.index(s), count=CONSUMERS)
        mbarrier.init(v_free.index(s), count=CONSUMERS)
    fence_async_shared()
    gl.warp_specialize(
        [
            (loader, (
                q_box, None, k_box, None, v_box, None, q_s, q_s, k_s, k_s, v_s, v_s,
                q_full, q_free, k_full, k_free, v_full, v_free,
                Starts, Entries, Starts, Progress, 0, heads, group, queries, keys, 0, 0,
                2 * CONSUMERS, KEY_TILE, STAGES, D, 0, V, 0, False, False, PACE, LAG,
            )),
            (wide_consumer, (
                o_box, Largest, Total, q_s, k_s, v_s, q_full, q_free, k_full, k_free, v_full, v_free,
                Starts, Entries, heads, queries, keys, scale, 0, KEY_TILE, STAGES, D, V,
            )),
            (wide_consumer, (
                o_box, Largest, Total, q_s, k_s, v_s, q_full, q_free, k_full, k_free, v_full, v_free,
                Starts, Entries, heads, queries, keys, scale, 1, KEY_TILE, STAGES, D, V,
            )),
        ],
        [4, 4],
        [REGISTERS, REGISTERS],
    )  # fmt: skip
