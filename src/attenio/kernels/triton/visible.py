"""What a tile of rows may see, inside a kernel: a range of keys a row, and what data hide on top of it.

Rows are positions times heads of a group: row r is head r % PACK at position r // PACK.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl


@triton.jit
def ranges_of(positions, queries, keys, below, above, First, Stop):
    """First key, and the one after the last, that every position may see; positions past the end repeat the last."""
    inside = tl.minimum(positions, queries - 1)
    first = tl.maximum(inside + below, 0)
    stop = tl.minimum(inside + above + 1, keys)
    if First is not None:
        first = tl.maximum(first, tl.load(First + inside).to(tl.int32))
        stop = tl.minimum(stop, tl.load(Stop + inside).to(tl.int32))
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
def hide(
    scores, positions, heads, columns, first, stop, queries, keys,
    QueryIds, KeyIds, Blocks, blocks_in_row, query_block, key_block, Bias, bias_h, bias_q, bias_k,
    BOOLEAN: tl.constexpr, LOG2_E: tl.constexpr,
):  # fmt: skip
    """Scores with the bias added and -inf where a key is hidden; rows along whichever axis ``positions`` have."""
    shown = (columns >= first) & (columns < stop) & (positions < queries)
    inside = shown & (columns < keys)
    if QueryIds is not None:
        mine = tl.load(QueryIds + positions, mask=positions < queries, other=-1)
        shown = shown & (mine == tl.load(KeyIds + columns, mask=columns < keys, other=-2))
    if Blocks is not None:
        where = (positions // query_block) * blocks_in_row + columns // key_block
        shown = shown & (tl.load(Blocks + where, mask=inside, other=0) != 0)
    if Bias is not None:
        at = Bias + heads.to(tl.int64) * bias_h + positions.to(tl.int64) * bias_q + columns.to(tl.int64) * bias_k
        if BOOLEAN:
            shown = shown & (tl.load(at, mask=inside, other=0) != 0)
        else:
            scores += tl.load(at, mask=inside, other=0.0).to(tl.float32) * LOG2_E
    return tl.where(shown, scores, float("-inf"))


@triton.jit
def dropout_factors(seed, positions, heads, columns, batch, probability):
    """1/(1-p) where a weight is kept and 0 where it is dropped: a function of the seed and the place alone."""
    nothing = (positions + columns) * 0
    bits, _, _, _ = tl.philox(seed, positions + nothing, columns + nothing, heads + nothing, batch + nothing)
    return tl.where(tl.uint_to_uniform_float(bits) >= probability, 1.0 / (1.0 - probability), 0.0)
