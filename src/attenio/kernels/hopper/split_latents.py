"""The dataflow ``split_keys`` on Hopper where values are the first 512 columns of keys: multi-head latent attention.

    for each (sequence, KV head), each run of keys_per_split keys, each tile of 64 rows (queries x heads of the group):
        scores:       Q stays in registers.  S_0 = Q K_0^T
                      for each j:  softmax step of S_j;  issue S_{j+1} = Q K_{j+1}^T;  P_j and factors to shared memory
        values 0, 1:  load their 256 columns of the first latents
                      for each j:  O *= factors;  when S_{j+1} is there: O += P_j V_j;  load a latent in its place
        write O / l of the run;  another kernel joins the runs

A latent is loaded once for both products. Products of scores and of values take turns on the tensor cores: a softmax
step runs beside those of values, rescaling beside those of scores. Row tiles of a run are neighbours in the grid: all
but the first find the latents in L2. Columns past the 512th, which only scores need, have a tile of their own.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from attenio.kernels.hopper.producer import ROWS, advanced

# Columns of values that one warpgroup accumulates.
HALF = gl.constexpr(256)
# Columns of a tile of queries that lies in shared memory, where registers do not suffice for all.
TAIL = gl.constexpr(64)

# TMA descriptors of queries and latents: 256 columns, and 64.
Inputs = namedtuple("Inputs", "q_wide q_narrow k_wide k_narrow")
# Shared memory: a ring of latents (two halves, and the columns that are no values), P and what rows are rescaled by.
Ring = namedtuple("Ring", "left right rope q_tail p factors")
# Full when bytes have arrived, free when both value warpgroups are done; the same of P.
Barriers = namedtuple("Barriers", "left_full right_full rope_full q_full q_held p_full s_done p_free")
# The run of this program: where it is, its keys, and what rows may see.
Run = namedtuple("Run", "batch kv_head row start stop tiles")
# Where results go: the output and statistics, or those of a run.
Output = namedtuple("Output", "O Largest Total rows row_count")
# Queries: most columns in registers, the last in shared memory.
Queries = namedtuple("Queries", "left middle next tail rope")
# Keys that each row sees, and those that all rows see.
Edges = namedtuple("Edges", "first stop whole_first whole_stop")
Shape = namedtuple("Shape", "KEY_TILE STAGES ROPE RANGED SINKS")


@gluon.jit
def _run(kv_heads, splits, row_tiles, first_key, stop_key, KEY_TILE: gl.constexpr):
    """Where this program is: runs differ by one tile at most."""
    program = gl.program_id(0)
    row_tile, rest = program % row_tiles, program // row_tiles
    split, batch_head = rest % splits, rest // splits
    total = gl.cdiv(stop_key - first_key, KEY_TILE)
    first, last = split * total // splits, (split + 1) * total // splits
    start, stop = first_key + first * KEY_TILE, gl.minimum(first_key + last * KEY_TILE, stop_key)
    return (
        Run(batch_head // kv_heads, batch_head % kv_heads, row_tile * ROWS, start, stop, last - first),
        split,
        batch_head,
    )


@gluon.jit
def _load(wide, half, full, stage, run, row, wanted, COLUMN: gl.constexpr):
    """Issue the load of half of the columns of 64 rows of latents, or of queries, which are as wide."""
    mbarrier.expect(full.index(stage), wide.block_type.nbytes, pred=wanted)
    at = [run.batch, run.kv_head, row, COLUMN]
    tma.async_copy_global_to_shared(wide, at, full.index(stage), half.index(stage), pred=wanted)


@gluon.jit
def _load_narrow(narrow, target, barrier, run, row, wanted, COLUMN: gl.constexpr):
    """Issue the load of 64 columns; those past the last are zeros."""
    mbarrier.expect(barrier, narrow.block_type.nbytes, pred=wanted)
    tma.async_copy_global_to_shared(narrow, [run.batch, run.kv_head, row, COLUMN], barrier, target, pred=wanted)


@gluon.jit
def _issue_scores(queries, ring, barriers, zeros, stage, phase, turn, shape):
    """Issue S = Q K^T of the tile in a stage."""
    KEY_TILE: gl.constexpr = shape.KEY_TILE
    mbarrier.wait(barriers.left_full.index(stage), phase)
    k = ring.left.index(stage).reshape([KEY_TILE, HALF]).permute((1, 0))
    scores = warpgroup_mma(queries.left, k, zeros, use_acc=False, is_async=True)
    mbarrier.wait(barriers.right_full.index(stage), phase)
    k = ring.right.index(stage).reshape([KEY_TILE, HALF])
    scores = warpgroup_mma(queries.middle, k.slice(0, 2 * TAIL, 1).permute((1, 0)), scores, is_async=True)
    scores = warpgroup_mma(queries.next, k.slice(2 * TAIL, TAIL, 1).permute((1, 0)), scores, is_async=True)
    scores = warpgroup_mma(queries.tail, k.slice(3 * TAIL, TAIL, 1).permute((1, 0)), scores, is_async=True)
    if shape.ROPE:
        mbarrier.wait(barriers.rope_full, turn)
        k = ring.rope.reshape([KEY_TILE, TAIL]).permute((1, 0))
        scores = warpgroup_mma(queries.rope, k, scores, is_async=True)
    return scores


@gluon.jit
def _weights(scores, largest, total, edges, key, scale_log2, KEY_TILE: gl.constexpr, S_LAYOUT: gl.constexpr):
    """The softmax step of a key tile."""
    if (key < edges.whole_first) | (key + KEY_TILE > edges.whole_stop):
        columns = key + gl.arange(0, KEY_TILE, gl.SliceLayout(0, S_LAYOUT))[None, :]
        scores = gl.where((columns >= edges.first[:, None]) & (columns < edges.stop[:, None]), scores, float("-inf"))
    larger = gl.maximum(largest, gl.max(scores, 1) * scale_log2)
    anchor = gl.where(larger == float("-inf"), 0.0, larger)  # a row that has seen nothing yet
    weights = gl.exp2(scores * scale_log2 - anchor[:, None])
    rescale = gl.exp2(largest - anchor)
    return weights, larger, total * rescale + gl.sum(weights, 1), rescale


@gluon.jit
def _hand_over(ring, barriers, weights, rescale, turn):
    """Give P and the factors to the value warpgroups, as soon as they are done with those before."""
    mbarrier.wait(barriers.p_free, turn ^ 1)
    ring.p.store(weights)
    ring.factors.store(rescale)
    fence_async_shared()
    mbarrier.arrive(barriers.p_full, count=1)


@gluon.jit
def _scores(
    ring, barriers, run, output, First, Stop, range_b, below, above, queries,
    Sinks, scale_log2, split, shape,
):  # fmt: skip
    """Scores and weights of 64 rows, key tile after key tile."""
    KEY_TILE: gl.constexpr = shape.KEY_TILE
    ROPE: gl.constexpr = shape.ROPE
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEY_TILE, 16])
    Q_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, S_LAYOUT, 2)
    R_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    element: gl.constexpr = ring.left.dtype
    mbarrier.wait(barriers.left_full.index(0), 0)
    q_left = ring.left.index(0).reshape([ROWS, HALF]).load(Q_LAYOUT)
    mbarrier.wait(barriers.right_full.index(0), 0)
    q_right = ring.right.index(0).reshape([ROWS, HALF])
    q_middle, q_next = q_right.slice(0, 2 * TAIL, 1).load(Q_LAYOUT), q_right.slice(2 * TAIL, TAIL, 1).load(Q_LAYOUT)
    mbarrier.arrive(barriers.q_held, count=1)
    mbarrier.wait(barriers.q_full, 0)
    q_tail = ring.q_tail.index(0).reshape([ROWS, TAIL])
    q_rope = ring.q_tail.index(1 if ROPE else 0).reshape([ROWS, TAIL])
    rows = run.row + gl.arange(0, ROWS, R_LAYOUT)
    largest = gl.full([ROWS], float("-inf"), gl.float32, R_LAYOUT)
    total = gl.zeros([ROWS], gl.float32, R_LAYOUT)
    if shape.SINKS:  # a first weight, whose value is zero
        if split == 0:
            heads = run.kv_head * (output.row_count // queries) + rows // queries
            sink = gl.load(Sinks + heads, mask=rows < output.row_count, other=0.0)
            largest = sink * 1.4426950408889634
            total = total + 1.0
    first, stop = gl.zeros([ROWS], gl.int32, R_LAYOUT), gl.zeros([ROWS], gl.int32, R_LAYOUT) + run.stop
    if shape.RANGED:
        near = rows % queries
        first, stop = gl.maximum(near + below, 0), gl.minimum(near + above + 1, run.stop)
        if First is not None:
            near += run.batch * range_b
            first = gl.maximum(first, gl.load(First + near).to(gl.int32))
            stop = gl.minimum(stop, gl.load(Stop + near).to(gl.int32))
    edges = Edges(first, stop, gl.max(first, 0), gl.min(stop, 0))
    held = Queries(q_left, q_middle, q_next, q_tail, q_rope)
    zeros = gl.zeros([ROWS, KEY_TILE], gl.float32, S_LAYOUT)
    stage, phase, turn, key = 1, 0, 0, run.start
    scores = _issue_scores(held, ring, barriers, zeros, stage, phase, turn, shape)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    mbarrier.arrive(barriers.s_done, count=1)
    for _ in range(1, run.tiles):
        weights, largest, total, rescale = _weights(scores, largest, total, edges, key, scale_log2, KEY_TILE, S_LAYOUT)
        narrow = weights.to(element)
        stage, phase = advanced(stage, phase, shape.STAGES)
        scores = _issue_scores(held, ring, barriers, zeros, stage, phase, turn ^ 1, shape)
        _hand_over(ring, barriers, narrow, rescale, turn)
        scores = warpgroup_mma_wait(0, deps=(scores,))
        mbarrier.arrive(barriers.s_done, count=1)
        turn ^= 1
        key += KEY_TILE
    weights, largest, total, rescale = _weights(scores, largest, total, edges, key, scale_log2, KEY_TILE, S_LAYOUT)
    _hand_over(ring, barriers, weights.to(element), rescale, turn)
    turn ^= 1
    mbarrier.arrive(barriers.s_done, count=1)
    mbarrier.wait(barriers.p_free, turn ^ 1)
    ring.factors.store(1.0 / gl.where(total == 0.0, 1.0, total))
    mbarrier.arrive(barriers.p_full, count=1)
    inside = rows < output.row_count
    gl.store(output.Largest + output.rows + rows, largest, mask=inside)
    gl.store(output.Total + output.rows + rows, total, mask=inside)


@gluon.jit
def _values(inputs, half, full, ring, barriers, run, output, shape, COLUMN: gl.constexpr):
    """Loads half of the columns of latents, and computes those of the output of 64 rows."""
    KEY_TILE: gl.constexpr = shape.KEY_TILE
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    R_LAYOUT: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    gdc_wait()
    gdc_launch_dependents()
    _load(inputs.q_wide, half, full, 0, run, run.row, True, COLUMN)
    for stage in gl.static_range(1, shape.STAGES):
        key = run.start + (stage - 1) * KEY_TILE
        _load(inputs.k_wide, half, full, stage, run, key, stage <= run.tiles, COLUMN)
    if COLUMN == 0:
        _load_narrow(inputs.q_narrow, ring.q_tail.index(0), barriers.q_full, run, run.row, True, 2 * HALF - TAIL)
        if shape.ROPE:
            _load_narrow(inputs.q_narrow, ring.q_tail.index(1), barriers.q_full, run, run.row, True, 2 * HALF)
            _load_narrow(inputs.k_narrow, ring.rope, barriers.rope_full, run, run.start, run.tiles > 0, 2 * HALF)
    mbarrier.wait(barriers.q_held, 0)
    ahead = run.start + (shape.STAGES - 1) * KEY_TILE
    _load(inputs.k_wide, half, full, 0, run, ahead, run.tiles >= shape.STAGES, COLUMN)
    acc = gl.zeros([ROWS, HALF], gl.float32, O_LAYOUT)
    stage, turn = 1, 0
    if shape.ROPE and COLUMN == 0:
        if run.tiles > 1:  # of a single tile the barrier may be two phases further already
            mbarrier.wait(barriers.s_done, 0)
            _load_narrow(inputs.k_narrow, ring.rope, barriers.rope_full, run, run.start + KEY_TILE, True, 2 * HALF)
    for tile in range(run.tiles):
        mbarrier.wait(barriers.p_full, turn)
        acc = acc * ring.factors.load(R_LAYOUT)[:, None]
        mbarrier.wait(barriers.s_done, turn ^ 1)
        if shape.ROPE and COLUMN == 0:  # scores of the next tile are computed
            here, wanted = run.start + (tile + 2) * KEY_TILE, tile + 2 < run.tiles
            _load_narrow(inputs.k_narrow, ring.rope, barriers.rope_full, run, here, wanted, 2 * HALF)
        acc = warpgroup_mma(ring.p, half.index(stage).reshape([KEY_TILE, HALF]), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(barriers.p_free, count=1)
        ahead += KEY_TILE
        _load(inputs.k_wide, half, full, stage, run, ahead, tile + shape.STAGES < run.tiles, COLUMN)
        turn ^= 1
        stage = gl.where(stage == shape.STAGES - 1, 0, stage + 1)
    mbarrier.wait(barriers.p_full, turn)
    acc = acc * ring.factors.load(R_LAYOUT)[:, None]
    rows = run.row + gl.arange(0, ROWS, R_LAYOUT)
    columns = COLUMN + gl.arange(0, HALF, gl.SliceLayout(0, O_LAYOUT))
    at = (gl.cast(output.rows, gl.int64) + rows)[:, None] * (2 * HALF) + columns[None, :]
    gl.store(output.O + at, acc.to(output.O.dtype.element_ty), mask=(rows < output.row_count)[:, None])


_ANY_NUMBER = [
    "range_b", "kv_heads", "queries", "row_count", "first_key", "stop_key", "splits", "row_tiles",
    "below", "above",
]  # fmt: skip


@gluon.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=["Largest", "Total", "First", "Stop", "Sinks"])
def split_latents_kernel(
    q_wide, q_narrow, k_wide, k_narrow, O, Largest, Total, First, Stop, Sinks,
    range_b, kv_heads, queries, row_count, first_key, stop_key, splits, row_tiles, below, above,
    scale_log2,
    KEY_TILE: gl.constexpr, STAGES: gl.constexpr, ROPE: gl.constexpr, RANGED: gl.constexpr, SINKS: gl.constexpr,
    VALUE_REGISTERS: gl.constexpr,
):  # fmt: skip
    """Results of every run go to ``O``, ``Largest`` and ``Total``, by (sequence, KV head), run and row."""
    left = gl.allocate_shared_memory(k_wide.dtype, [STAGES, 1, 1, KEY_TILE, HALF], k_wide.layout)
    right = gl.allocate_shared_memory(k_wide.dtype, [STAGES, 1, 1, KEY_TILE, HALF], k_wide.layout)
    rope = gl.allocate_shared_memory(k_wide.dtype, [1, 1, KEY_TILE, TAIL], k_narrow.layout)
    q_tail = gl.allocate_shared_memory(k_wide.dtype, [2 if ROPE else 1, 1, 1, ROWS, TAIL], q_narrow.layout)
    p = gl.allocate_shared_memory(
        k_wide.dtype, [ROWS, KEY_TILE], gl.NVMMASharedLayout.get_default_for([ROWS, KEY_TILE], k_wide.dtype)
    )
    factors = gl.allocate_shared_memory(gl.float32, [ROWS], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    left_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    right_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    once = gl.allocate_shared_memory(gl.int64, [6, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(left_full.index(stage), count=1)
        mbarrier.init(right_full.index(stage), count=1)
    for one in gl.static_range(5):
        mbarrier.init(once.index(one), count=2 if one == 1 and ROPE else 1)
    mbarrier.init(once.index(5), count=2)
    fence_async_shared()
    run, split, batch_head = _run(kv_heads, splits, row_tiles, first_key, stop_key, KEY_TILE)
    inputs = Inputs(q_wide, q_narrow, k_wide, k_narrow)
    ring = Ring(left, right, rope, q_tail, p, factors)
    barriers = Barriers(
        left_full, right_full, once.index(0), once.index(1), once.index(2), once.index(3), once.index(4), once.index(5)
    )
    output = Output(O, Largest, Total, (batch_head * splits + split) * row_count, row_count)
    shape: gl.constexpr = Shape(KEY_TILE, STAGES, ROPE, RANGED, SINKS)
    gl.warp_specialize(
        [
            (_scores, (ring, barriers, run, output, First, Stop, range_b, below, above, queries, Sinks,
                       scale_log2, split, shape)),
            (_values, (inputs, left, left_full, ring, barriers, run, output, shape, 0)),
            (_values, (inputs, right, right_full, ring, barriers, run, output, shape, HALF)),
        ],
        [4, 4],
        [VALUE_REGISTERS, VALUE_REGISTERS],
    )  # fmt: skip
