"""The dataflow ``attenio`` with 256 rows an SM: for heads whose keys and values do not stay in L2.

    for each (batch x head, row tile of 256, direction) of the program's list:
        producer:    load Q; for each key tile, in pace with all other programs: load K_j, then V_j
        consumer c:  rows 128 c .. 128 c + 127 of the tile as two halves
            S_0 = Q_0 K_0^T
            for each j:  issue S_1 = Q_1 K_j^T;  softmax step of S_0 meanwhile
                         issue O_0 += P_0 V_j;  softmax step of S_1 meanwhile
                         O_1 += P_1 V_j;  S_0 = Q_0 K_{j+1}^T
            epilogue: write O / l, m, l

One sweep over the keys then serves twice the rows, so memory is read half as often. Dense attention only, and whole key
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

from attenio.kernels.hopper.attenio import Output, epilogue
from attenio.kernels.hopper.key_step import Edges, issue_scores
from attenio.kernels.hopper.online_softmax import row_sums, softmax_step, thread_sums
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
)

CONSUMERS = gl.constexpr(2)


@gluon.jit
def _weighed(scores, m, l, acc, scale_log2, element: gl.constexpr):
    """Weights of a tile of which all is seen, as an operand, and m, l and O with its rescaling."""
    by_row: gl.constexpr = gl.SliceLayout(1, acc.type.layout)
    operand: gl.constexpr = gl.DotOperandLayout(0, acc.type.layout, 2)
    columns: gl.constexpr = gl.SliceLayout(0, scores.type.layout)
    everything = Edges(0, 0, 0, 0)
    weights, m, l, rescale = softmax_step(scores, m, l, scale_log2, everything, 0, False, False, columns, False)
    acc = acc * gl.convert_layout(rescale, by_row, assert_trivial=True)[:, None]
    return gl.convert_layout(weights.to(element), operand, assert_trivial=True), m, l, acc


@gluon.jit
def _consumer(output, tiles, barriers, work, shape, ME: gl.constexpr):
    """Computes rows 128 ME .. 128 ME + 127 of every row tile of the program."""
    element: gl.constexpr = tiles.q_a.dtype
    KEY_TILE: gl.constexpr = shape.KEY_TILE
    V: gl.constexpr = shape.V_A
    D: gl.constexpr = shape.D_A
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEY_TILE, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V, 16])
    R_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    program = gl.program_id(0)
    begin, end = gl.load(work.Starts + program), gl.load(work.Starts + program + 1)
    zeros = gl.zeros([ROWS, KEY_TILE], gl.float32, S_LAYOUT)
    q_0, q_1 = tiles.q_a.index(2 * ME).reshape([ROWS, D]), tiles.q_a.index(2 * ME + 1).reshape([ROWS, D])
    stage, phase, turn = 0, 0, 0
    for index in range(begin, end):
        batch_head, code = gl.load(work.Entries + ENTRY * index), gl.load(work.Entries + ENTRY * index + 1)
        batch, head, out_row = batch_head // work.heads, batch_head % work.heads, batch_head * work.queries
        row = (code // 2) * (2 * CONSUMERS * ROWS) + 2 * ME * ROWS
        m_0 = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
        m_1 = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
        l_0, l_1 = thread_sums(zeros), thread_sums(zeros)
        acc_0 = gl.zeros([ROWS, V], gl.float32, O_LAYOUT)
        acc_1 = gl.zeros([ROWS, V], gl.float32, O_LAYOUT)
        mbarrier.wait(barriers.q_full.index(2 * ME), turn)
        mbarrier.wait(barriers.q_full.index(2 * ME + 1), turn)
        turn ^= 1
        mbarrier.wait(barriers.k_full.index(stage), phase)
        k = tiles.k_a.index(stage)
        scores_0 = issue_scores(q_0, q_0, k, k, zeros, shape)
        scores_0 = warpgroup_mma_wait(0, deps=(scores_0,))
        for _ in range(1, work.keys // KEY_TILE):
            k, v = tiles.k_a.index(stage), tiles.v_a.index(stage).reshape([KEY_TILE, V])
            scores_1 = issue_scores(q_1, q_1, k, k, zeros, shape)
            p_0, m_0, l_0, acc_0 = _weighed(scores_0, m_0, l_0, acc_0, work.scale_log2, element)
            mbarrier.wait(barriers.v_full.index(stage), phase)
            acc_0 = warpgroup_mma(p_0, v, acc_0, is_async=True)
            scores_1 = warpgroup_mma_wait(1, deps=(scores_1,))
            mbarrier.arrive(barriers.k_free.index(stage), count=1)
            p_1, m_1, l_1, acc_1 = _weighed(scores_1, m_1, l_1, acc_1, work.scale_log2, element)
            acc_1 = warpgroup_mma(p_1, v, acc_1, is_async=True)
            ahead, ahead_phase = advanced(stage, phase, shape.STAGES)
            mbarrier.wait(barriers.k_full.index(ahead), ahead_phase)
            k = tiles.k_a.index(ahead)
            coming = issue_scores(q_0, q_0, k, k, zeros, shape)
            scores_0, acc_0, acc_1, p_0, p_1 = warpgroup_mma_wait(0, deps=(coming, acc_0, acc_1, p_0, p_1))
            mbarrier.arrive(barriers.v_free.index(stage), count=1)
            stage, phase = ahead, ahead_phase
        k, v = tiles.k_a.index(stage), tiles.v_a.index(stage).reshape([KEY_TILE, V])
        scores_1 = issue_scores(q_1, q_1, k, k, zeros, shape)
        p_0, m_0, l_0, acc_0 = _weighed(scores_0, m_0, l_0, acc_0, work.scale_log2, element)
        mbarrier.wait(barriers.v_full.index(stage), phase)
        acc_0 = warpgroup_mma(p_0, v, acc_0, is_async=True)
        scores_1 = warpgroup_mma_wait(1, deps=(scores_1,))
        mbarrier.arrive(barriers.k_free.index(stage), count=1)
        p_1, m_1, l_1, acc_1 = _weighed(scores_1, m_1, l_1, acc_1, work.scale_log2, element)
        acc_1 = warpgroup_mma(p_1, v, acc_1, is_async=True)
        acc_0, acc_1, p_0, p_1 = warpgroup_mma_wait(0, deps=(acc_0, acc_1, p_0, p_1))
        mbarrier.arrive(barriers.v_free.index(stage), count=1)
        stage, phase = advanced(stage, phase, shape.STAGES)
        l_0, l_1 = row_sums(l_0, R_LAYOUT), row_sums(l_1, R_LAYOUT)
        epilogue(
            acc_0, acc_0, m_0, l_0, output, tiles.q_a.index(2 * ME), tiles.q_a.index(2 * ME),
            barriers.q_free.index(2 * ME), batch, head, row, out_row, work.queries, shape,
            R_LAYOUT, O_LAYOUT, O_LAYOUT, False,
        )  # fmt: skip
        epilogue(
            acc_1, acc_1, m_1, l_1, output, tiles.q_a.index(2 * ME + 1), tiles.q_a.index(2 * ME + 1),
            barriers.q_free.index(2 * ME + 1), batch, head, row + ROWS, out_row, work.queries, shape,
            R_LAYOUT, O_LAYOUT, O_LAYOUT, False,
        )  # fmt: skip


@gluon.jit(
    do_not_specialize=["heads", "group", "queries", "keys"],
    do_not_specialize_on_alignment=["Largest", "Total", "Starts", "Entries", "Progress"],
)
def attenio_256_rows_kernel(
    q_desc, k_desc, v_desc, o_desc, Largest, Total, Starts, Entries, Progress,
    heads, group, queries, keys, scale_log2,
    KEY_TILE: gl.constexpr, STAGES: gl.constexpr, D: gl.constexpr, V: gl.constexpr,
    PACE: gl.constexpr, LAG: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    q_s = gl.allocate_shared_memory(q_desc.dtype, [2 * CONSUMERS, 1, 1, ROWS, D], q_desc.layout)
    k_s = gl.allocate_shared_memory(k_desc.dtype, [STAGES, 1, 1, KEY_TILE, D], k_desc.layout)
    v_s = gl.allocate_shared_memory(v_desc.dtype, [STAGES, 1, 1, KEY_TILE, V], v_desc.layout)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [2 * CONSUMERS, 1], BARRIER)
    q_free = gl.allocate_shared_memory(gl.int64, [2 * CONSUMERS, 1], BARRIER)
    for h in gl.static_range(2 * CONSUMERS):
        mbarrier.init(q_full.index(h), count=1)
        mbarrier.init(q_free.index(h), count=1)
    k_full, k_free, v_full, v_free = ring_barriers(STAGES, CONSUMERS)
    fence_async_shared()
    inputs, output = Inputs(q_desc, None, k_desc, None, v_desc, None), Output(o_desc, o_desc, Largest, Total, Total)
    tiles = Tiles(q_s, q_s, k_s, k_s, v_s, v_s, q_s, q_s, q_s)
    barriers = Barriers(q_full, q_free, k_full, k_free, v_full, v_free)
    work = Work(Starts, Entries, Starts, Starts, Starts, 0, 0, heads, queries, keys, 0, 0, scale_log2, 1.0)
    shape: gl.constexpr = Shape(
        2 * CONSUMERS, KEY_TILE, STAGES, D, 0, V, 0, False, False, False, False, False, False, False
    )
    gl.warp_specialize(
        [
            (producer, (inputs, tiles, barriers, work, Progress, group, shape, PACE, LAG)),
            (_consumer, (output, tiles, barriers, work, shape, 0)),
            (_consumer, (output, tiles, barriers, work, shape, 1)),
        ],
        [4, 4],
        [REGISTERS, REGISTERS],
    )
