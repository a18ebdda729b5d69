"""What a tile of rows may see, inside a kernel: a range of keys a row, and what data hide on top of it.

Rows are positions times heads of a group: row r is head r % PACK at position r // PACK.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

import triton
import triton.language as tl

# One sequence of a batch: lengths, the band, what data hide or drop, a cap and sinks; each None where there is none.
Mask = namedtuple(
    "Mask",
    "batch queries keys below above First Stop QueryIds KeyIds Blocks blocks_in_row query_block key_block "
    "Bias bias_h bias_q bias_k Seed probability softcap Sinks BOOLEAN LOG2_E",
)
# Rows along one axis of scores: positions, query heads, and the keys that each may see by the band and its range.
ScoreRows = namedtuple("ScoreRows", "positions heads first stop")
# Compile-time constants: widths of Q and K, and of V, the powers of two that hold them, and the precision of products.
# Where values are the first columns of keys, D_PADDED holds those beyond them, and is 0 where there are none.
Widths = namedtuple("Widths", "D WIDTH D_PADDED W_PADDED PRECISION D_BEYOND W_BEYOND", defaults=(0, 0))


# Numbers that kernels are not compiled for: another length, batch or number of heads runs what was compiled. What loads
# need to know of strides is that ALIGN divides them, and BIAS_ALIGN those of a mask.
PLAIN_NUMBERS = [
    "q_b", "q_h", "q_n", "k_b", "k_h", "k_n", "v_b", "v_h", "v_n", "o_b", "o_h", "o_n", "g_b", "g_h", "g_n",
    "turn", "kv_heads", "heads_in_group", "heads_in_all", "group", "queries", "keys", "below", "above",
    "skipped", "keys_per_split", "prefix_rows", "range_b", "ids_b", "key_ids_b", "blocks_in_row", "query_block",
    "key_block", "bias_b", "bias_h", "bias_q",
]  # fmt: skip


@triton.jit
def aligned(strides, ALIGN: tl.constexpr):
    """Strides of a batch, a head and a row, all of which ALIGN divides, in a form that tells a compiler so."""
    batch, head, row = strides
    return batch // ALIGN * ALIGN, head // ALIGN * ALIGN, row // ALIGN * ALIGN


@triton.jit
def ranges_of(positions, mask):
    """First key, and the one after the last, that every position may see; positions past the end repeat the last."""
    inside = tl.minimum(positions, mask.queries - 1)
    first = tl.maximum(inside + mask.below, 0)
    stop = tl.minimum(inside + mask.above + 1, mask.keys)
    if mask.First is not None:
        first = tl.maximum(first, tl.load(mask.First + inside).to(tl.int32))
        stop = tl.minimum(stop, tl.load(mask.Stop + inside).to(tl.int32))
    return first, tl.maximum(stop, first)


@triton.jit
def stretches(first, end, KEY_TILE: tl.constexpr, ALWAYS_HIDES: tl.constexpr):
    """Where the keys of a tile of rows start, where every row sees every key from and up to, and where they stop."""
    start, stop = tl.min(first) // KEY_TILE * KEY_TILE, tl.max(end)
    if ALWAYS_HIDES:
        return start, stop, stop, stop
    whole_start = tl.minimum(tl.cdiv(tl.max(first), KEY_TILE) * KEY_TILE, tl.cdiv(stop, KEY_TILE) * KEY_TILE)
    return start, whole_start, tl.maximum(tl.min(end) // KEY_TILE * KEY_TILE, whole_start), stop


@triton.jit
def stretch(edges, HIDES: tl.constexpr):
    """Start and stop of the tiles that every row sees whole, or of the others, and the gap that is left out between.

    The others lie on both sides of it and are one loop: a second copy of it would be compiled for nothing.
    """
    start, whole_start, whole_stop, stop = edges
    gap = whole_stop - whole_start
    if HIDES:
        return start, tl.maximum(stop, whole_stop) - gap, whole_start, gap
    return whole_start, whole_stop, whole_stop, 0


@triton.jit
def place(step, part, backwards, TILE: tl.constexpr):
    """Where the tile of a step begins: the last comes first where ``backwards`` is 1 and not 0."""
    start, stop, gap_start, gap = part
    mirror = start + start + (tl.cdiv(stop - start, TILE) - 1) * TILE
    at = step + backwards * (mirror - step - step)
    return tl.multiple_of(at + tl.where(at >= gap_start, gap, 0), TILE)


@triton.jit
def hide(scores, rows, columns, mask):
    """Scores with the bias added and -inf where a row does not see a key, rows along either axis."""
    positions = rows.positions
    shown = (columns >= rows.first) & (columns < rows.stop) & (positions < mask.queries)
    inside = shown & (columns < mask.keys)
    if mask.QueryIds is not None:
        mine = tl.load(mask.QueryIds + positions, mask=positions < mask.queries, other=-1)
        shown = shown & (mine == tl.load(mask.KeyIds + columns, mask=columns < mask.keys, other=-2))
    if mask.Blocks is not None:
        where = (positions // mask.query_block) * mask.blocks_in_row + columns // mask.key_block
        shown = shown & (tl.load(mask.Blocks + where, mask=inside, other=0) != 0)
    if mask.Bias is not None:
        at = at_bias(mask.Bias, rows, columns, mask)
        if mask.BOOLEAN:
            shown = shown & (tl.load(at, mask=inside, other=0) != 0)
        else:
            scores += tl.load(at, mask=inside, other=0.0).to(tl.float32) * mask.LOG2_E
    return tl.where(shown, scores, float("-inf"))


@triton.jit
def cap(scores, mask):
    """Scores in log2 with their cap, c tanh(s / c), and the derivative of this.

    Next to zero the quotient of exponentials would lose digits: there it is a polynomial, right to a rounding.
    """
    most = mask.softcap * mask.LOG2_E
    x = scores / most
    square = x * x
    inner = 1.0 + square * (
        -0.3333333333333333 + square * (0.13333333333333333 + square * (-0.05396825396825397 + square * 0.021869488536))
    )
    outer = 1.0 - 2.0 / (1.0 + tl.exp2(tl.minimum(tl.abs(x), 30.0) * 2.0 * mask.LOG2_E))
    ratio = tl.where(tl.abs(x) < 0.25, x * inner, tl.where(x < 0.0, -outer, outer))
    return ratio * most, 1.0 - ratio * ratio


@triton.jit
def at_bias(Bias, rows, columns, mask):
    """Where entries of a bias, or of its gradient, are."""
    row = Bias + rows.heads.to(tl.int64) * mask.bias_h + rows.positions.to(tl.int64) * mask.bias_q
    return row + columns.to(tl.int64) * mask.bias_k


@triton.jit
def dropout(rows, columns, mask):
    """1/(1-p) where a weight is kept and 0 where it is dropped: a function of the seed and the place alone."""
    seed, batch, nothing = tl.load(mask.Seed), mask.batch.to(tl.int32), (rows.positions + columns) * 0
    positions, heads = rows.positions + nothing, rows.heads + nothing
    bits, _, _, _ = tl.philox(seed, positions, columns + nothing, heads, batch + nothing)
    return tl.where(tl.uint_to_uniform_float(bits) >= mask.probability, 1.0 / (1.0 - mask.probability), 0.0)
