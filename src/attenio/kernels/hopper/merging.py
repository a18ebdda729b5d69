"""Warps of a program that took keys of their own: their results become those of all keys of the program."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language import debug_barrier


@gluon.jit
def weighed(scores, acc, largest, total):
    """Weights of a tile of scores [warp, row, key], and accumulator, largest and total with that tile's rescaling."""
    larger = gl.maximum(largest, gl.max(scores, 2))
    anchor = gl.where(larger == float("-inf"), 0.0, larger)
    weights = gl.exp2(scores - gl.expand_dims(anchor, 2))
    rescale = gl.exp2(largest - anchor)
    return weights, acc * gl.expand_dims(rescale, 2), larger, total * rescale + gl.sum(weights, 2)


@gluon.jit
def merged_warps(
    acc, largest, total, value_ring, ROWS: gl.constexpr, PART_ROWS: gl.constexpr, MERGED: gl.constexpr,
):  # fmt: skip
    """Accumulator, largest and total of the rows that exist: a thread takes those of all warps for its columns.

    They meet in the ring of values, which is used up. MERGED is the layout of [warp, row, column].
    """
    KEY_WARPS: gl.constexpr = acc.shape[0]
    W_PADDED: gl.constexpr = acc.shape[2]
    PADDED: gl.constexpr = gl.PaddedSharedLayout.with_identity_for(
        [[W_PADDED, 8]], [KEY_WARPS, ROWS, W_PADDED], [2, 1, 0]
    )
    met = value_ring._reinterpret(gl.float32, [KEY_WARPS, ROWS, W_PADDED], PADDED)
    met_statistics = gl.allocate_shared_memory(
        gl.float32, [2, KEY_WARPS, ROWS], gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    )
    met.store(acc)
    met_statistics.index(0).store(largest)
    met_statistics.index(1).store(total)
    BY_ROW: gl.constexpr = gl.SliceLayout(0, MERGED)
    tops = met_statistics.index(0).slice(0, PART_ROWS, 1).load(gl.SliceLayout(2, MERGED))
    totals = met_statistics.index(1).slice(0, PART_ROWS, 1).load(gl.SliceLayout(2, MERGED))
    parts = met.slice(0, PART_ROWS, 1).load(MERGED)
    merged_largest = gl.max(tops, 0)
    anchor = gl.where(merged_largest == float("-inf"), 0.0, merged_largest)
    faded = gl.exp2(tops - gl.expand_dims(anchor, 0))
    merged_total = gl.convert_layout(gl.sum(totals * faded, 0), gl.SliceLayout(1, BY_ROW))
    merged_largest = gl.convert_layout(merged_largest, gl.SliceLayout(1, BY_ROW))
    return gl.sum(parts * gl.expand_dims(faded, 2), 0), merged_largest, merged_total


@gluon.jit
def store_run(Partial, Statistics, acc, largest, total, split, LAYOUT: gl.constexpr):
    """Write the results of this run of keys beside those of the others, before its program says that they are there."""
    PART_ROWS: gl.constexpr = acc.shape[0]
    W_PADDED: gl.constexpr = acc.shape[1]
    rows = gl.arange(0, PART_ROWS, gl.SliceLayout(1, LAYOUT))
    columns = gl.arange(0, W_PADDED, gl.SliceLayout(0, LAYOUT))
    place = split * PART_ROWS + rows
    gl.store(Statistics + 2 * place, largest)
    gl.store(Statistics + 2 * place + 1, total)
    gl.store(Partial + place[:, None] * W_PADDED + columns[None, :], acc)
    debug_barrier()
