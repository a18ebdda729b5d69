"""One key tile of a consumer warpgroup of the forward kernel.

    issue S' = Q K_j^T;  issue O += P V_{j-1};  wait S';  softmax step of S' while O is computed;  wait O;  rescale O

P is a register operand of the second product, or goes through shared memory where registers do not suffice for it.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from attenio.kernels.hopper.capping import tanh
from attenio.kernels.hopper.online_softmax import held_back, rescaled, softmax_step
from attenio.kernels.hopper.producer import advanced

# Keys that each row sees, from first to stop, and the key tiles that all rows see whole.
Edges = namedtuple("Edges", "first stop whole_start whole_stop")


@gluon.jit
def issue_scores(q_a, q_b, k_a, k_b, zeros, shape):
    """Issue S = Q K^T."""
    k = k_a.reshape([shape.KEY_TILE, shape.D_A]).permute((1, 0))
    scores = warpgroup_mma(q_a, k, zeros, use_acc=False, is_async=True)
    if shape.D_B > 0:
        k = k_b.reshape([shape.KEY_TILE, shape.D_B]).permute((1, 0))
        scores = warpgroup_mma(q_b, k, scores, is_async=True)
    return scores


@gluon.jit
def weights_of(scores, largest, total, edges, tile, work, shape, element: gl.constexpr, MASKED: gl.constexpr):
    """The softmax step of a key tile."""
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, shape.KEY_TILE, 16])
    LAZY: gl.constexpr = shape.V_A + shape.V_B >= shape.KEY_TILE
    if shape.CAPPED:
        FAST_TANH: gl.constexpr = element == gl.bfloat16
        scores = tanh(scores * work.inner, FAST_TANH)
    return softmax_step(
        scores, largest, total, work.scale_log2, edges, tile, MASKED, shape.BELOW, gl.SliceLayout(0, S_LAYOUT), LAZY
    )


@gluon.jit
def rounded(weights, p_s, element: gl.constexpr, shape):
    """P in 16 bits, where the product with V reads it: in registers, or in shared memory."""
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, shape.V_A, 16])
    if shape.SHARES_P:
        p_s.store(weights.to(element))
        fence_async_shared()
        return p_s
    else:
        return gl.convert_layout(weights.to(element), gl.DotOperandLayout(0, O_LAYOUT, 2), assert_trivial=True)


@gluon.jit
def add_outputs(p, acc, acc_b, tiles, full, stage, phase, shape):
    """Issue O += P V; what the second product reads is returned, for it must stay in registers too."""
    V_B: gl.constexpr = shape.V_B if shape.V_B > 0 else shape.V_A
    B_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_B, 16])
    mbarrier.wait(full.index(stage), phase)
    acc = warpgroup_mma(p, tiles.v_a.index(stage).reshape([shape.KEY_TILE, shape.V_A]), acc, is_async=True)
    p_b = p
    if shape.V_B > 0:
        if not shape.SHARES_P:
            p_b = gl.convert_layout(p, gl.DotOperandLayout(0, B_LAYOUT, 2), assert_trivial=True)
        acc_b = warpgroup_mma(p_b, tiles.v_b.index(stage).reshape([shape.KEY_TILE, shape.V_B]), acc_b, is_async=True)
    return acc, acc_b, p_b


@gluon.jit
def wait_outputs(acc, acc_b, p, p_b, shape):
    """Wait for O += P V, and keep P in registers until then."""
    if shape.SHARES_P:
        if shape.V_B > 0:
            acc, acc_b = warpgroup_mma_wait(0, deps=(acc, acc_b))
        else:
            acc = warpgroup_mma_wait(0, deps=(acc,))
    elif shape.V_B > 0:
        acc, acc_b, p, p_b = warpgroup_mma_wait(0, deps=(acc, acc_b, p, p_b))
    else:
        acc, p = warpgroup_mma_wait(0, deps=(acc, p))
    return acc, acc_b


@gluon.jit
def key_step(
    p, acc, acc_b, largest, total, stage, phase, token, tile, q_a, q_b, zeros, edges, p_s, tiles, barriers, mine,
    theirs, work, shape, MASKED: gl.constexpr, PINGPONG: gl.constexpr,
):  # fmt: skip
    """Scores of the next key tile beside the output of this one."""
    V_B: gl.constexpr = shape.V_B if shape.V_B > 0 else shape.V_A
    A_ROWS: gl.constexpr = gl.SliceLayout(1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, shape.V_A, 16]))
    B_ROWS: gl.constexpr = gl.SliceLayout(1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, V_B, 16]))
    OUTPUTS: gl.constexpr = 2 if shape.V_B > 0 else 1
    LAZY: gl.constexpr = shape.V_A + shape.V_B >= shape.KEY_TILE
    ahead, ahead_phase = advanced(stage, phase, shape.STAGES)
    mbarrier.wait(barriers.k_full.index(ahead), ahead_phase)
    if PINGPONG:
        mbarrier.wait(mine, token)
        token ^= 1
    scores = issue_scores(q_a, q_b, tiles.k_a.index(ahead), tiles.k_b.index(ahead), zeros, shape)
    acc, acc_b, p_b = add_outputs(p, acc, acc_b, tiles, barriers.v_full, stage, phase, shape)
    if PINGPONG:
        mbarrier.arrive(theirs, count=1)
    scores = warpgroup_mma_wait(OUTPUTS, deps=(scores,))
    mbarrier.arrive(barriers.k_free.index(ahead), count=1)
    weights, largest, total, rescale = weights_of(
        scores, largest, total, edges, tile, work, shape, tiles.q_a.dtype, MASKED
    )
    if shape.OVERLAPS or shape.SHARES_P:
        if shape.OVERLAPS:
            total = held_back(total)
        acc, acc_b = wait_outputs(acc, acc_b, p, p_b, shape)
        # Before the wait, P would be rounded beside the one that is still read, and copied.
        p = rounded(weights, p_s, tiles.q_a.dtype, shape)
    else:
        # Waited for with the rest, P stays in pairs, as the next product reads them.
        coming = rounded(weights, p_s, tiles.q_a.dtype, shape)
        if shape.V_B > 0:
            acc, acc_b, p, p_b, p = warpgroup_mma_wait(0, deps=(acc, acc_b, p, p_b, coming))
        else:
            acc, p, p = warpgroup_mma_wait(0, deps=(acc, p, coming))
    mbarrier.arrive(barriers.v_free.index(stage), count=1)
    if shape.V_B > 0:
        acc_b = rescaled(acc_b, gl.convert_layout(rescale, B_ROWS, assert_trivial=True), LAZY)
    acc = rescaled(acc, gl.convert_layout(rescale, A_ROWS, assert_trivial=True), LAZY)
    return p, acc, acc_b, largest, total, ahead, ahead_phase, token
