"""The online softmax of the forward kernels: weights of a key tile, and the rescaling of the output.

Where an output is wider than a key tile, its rescaling takes more instructions than the exponentials, and most of it is
left out: weights are taken from an anchor that follows the largest score of a row only when that is more than ``SLACK``
powers of two above it. Weights are then at most 2**SLACK, which 16-bit products and fp32 sums hold as exactly as those
up to 1, and a warp whose rows keep their anchors branches around the multiplications. No product may be under way at
such a branch: ptxas would have every product wait for the one before.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

SLACK = gl.constexpr(8.0)
# Elements of a thread that one branch skips: its share of 64 rows by 64 columns. In a layout of wgmma the first two are
# of one row and the next two of the other row of the thread.
_COUNT = 32
_PACK = gl.constexpr(_COUNT)
_OPERANDS = gl.constexpr(",".join(["=f"] * _COUNT + [str(index) for index in range(_COUNT)] + ["f"] * _COUNT))


def _multiply_unless_one(count):
    """PTX that multiplies elements by the factors of their rows, unless those of the whole warp are 1."""
    factors = [f"${2 * count + index}" for index in range(count)]
    lines = [
        "{ .reg .pred p, q;", f"setp.neu.f32 p, {factors[0]}, 0f3F800000;",
        f"setp.neu.or.f32 p, {factors[2]}, 0f3F800000, p;", "vote.sync.any.pred q, p, 0xffffffff;", "@!q bra SKIP;",
        *(f"mul.f32 ${index}, ${index}, {factor};" for index, factor in enumerate(factors)), "SKIP: }",
    ]  # fmt: skip
    return "\n".join(lines)


_RESCALE = gl.constexpr(_multiply_unless_one(_COUNT))


@gluon.jit
def softmax_step(
    scores, largest, total, scale_log2, edges, tile, MASKED: gl.constexpr, BELOW: gl.constexpr,
    COLUMNS: gl.constexpr, LAZY: gl.constexpr,
):  # fmt: skip
    """Weights of a key tile, the new anchor and sums of every row, and the factor that rescales O and the sums."""
    if MASKED:
        WIDTH: gl.constexpr = scores.shape[1]
        columns = tile * WIDTH + gl.arange(0, WIDTH, COLUMNS)[None, :]
        if BELOW:
            if (tile < edges.whole_start) | (tile >= edges.whole_stop):
                shown = (columns >= edges.first[:, None]) & (columns < edges.stop[:, None])
                scores = gl.where(shown, scores, float("-inf"))
        else:
            if tile >= edges.whole_stop:
                scores = gl.where(columns < edges.stop[:, None], scores, float("-inf"))
    top = gl.max(scores, 1) * scale_log2
    if LAZY:
        larger = gl.where(top > largest + SLACK, top, largest)
    else:
        larger = gl.maximum(largest, top)
    anchor = larger
    if MASKED:  # a row that has seen nothing yet
        anchor = gl.where(larger == float("-inf"), 0.0, larger)
    weights = gl.exp2(scores * scale_log2 - anchor[:, None])
    rescale = gl.exp2(largest - anchor)
    sums = thread_sums(weights)
    faded = gl.convert_layout(rescale, gl.SliceLayout(1, sums.type.layout), assert_trivial=True)
    return weights, larger, total * gl.expand_dims(faded, 1) + sums, rescale


@gluon.jit
def rescaled(acc, factor, LAZY: gl.constexpr):
    """``acc`` with every row multiplied by its factor."""
    by_row = gl.expand_dims(factor, 1)
    if LAZY:
        return gl.inline_asm_elementwise(_RESCALE, _OPERANDS, [acc, by_row], dtype=gl.float32, is_pure=True, pack=_PACK)
    else:
        return acc * by_row


@gluon.jit
def thread_sums(weights):
    """Sums of a row's weights by their column modulo 8: each is of one thread, which adds up its own registers."""
    HEIGHT: gl.constexpr = weights.shape[0]
    WIDTH: gl.constexpr = weights.shape[1]
    return gl.sum(gl.reshape(weights, [HEIGHT, WIDTH // 8, 8]), 1)


# Sums of a thread: two columns of two rows. No sum of weights has this pattern of bits, a NaN that nothing computes.
_HELD_BACK = gl.constexpr("""// never runs
{ .reg .pred p;
setp.eq.b32 p, $4, 0x7fdead01;
setp.eq.and.b32 p, $5, 0x7fdead01, p;
setp.eq.and.b32 p, $6, 0x7fdead01, p;
setp.eq.and.b32 p, $7, 0x7fdead01, p;
@p nanosleep.u32 1; }""")


@gluon.jit
def held_back(sums):
    """The sums of weights, before which no wait is scheduled that comes after.

    ptxas moves a wait for products as far up as it may, above the exponentials that are to be computed beside them. An
    instruction that depends on all weights, and that it does not move a wait across, keeps it in its place.
    """
    return gl.inline_asm_elementwise(_HELD_BACK, "=r,=r,=r,=r,0,1,2,3", [sums], dtype=gl.float32, is_pure=False, pack=4)


@gluon.jit
def row_sums(sums, LAYOUT: gl.constexpr):
    """Whole sums of rows, over the threads that hold parts of them."""
    return gl.convert_layout(gl.sum(sums, 1), LAYOUT)
