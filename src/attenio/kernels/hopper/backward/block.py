"""What the blocks of all backward kernels share: their keys, the rows that see these, and how dS and dQ leave a block.

A block keeps KEYS keys of one batch x KV head. The rows that see a key are one range, and ranges of later keys neither
begin nor end earlier: a band, or what the host computed for packed sequences. So the first key of some says where their
rows begin and the last one where they end.

dS leaves a block spilled, for the kernel that multiplies it with K; or multiplied already, as a part of dQ that is
added to an accumulator in memory, in any order.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

# Arguments of these kernels whose value or alignment they are not compiled for.
ANY_NUMBER = [
    "first_block", "together", "kv_heads", "group_parts", "group", "keys", "below", "above", "row_begin", "row_end",
    "padded",
]  # fmt: skip
ANY_PLACE = ["Lse", "Delta", "FirstRows", "StopRows"]
# How many row tiles apart neighbouring blocks start. Of the 132 that an H200 runs at once nine at most are then at the
# same tile, and what one of them reads the others need within 16 tiles: 1 MiB of Q, dO and dQ accumulators of each
# head, little for an L2.
_APART = gl.constexpr(16)
# 1.5 * 2^23, and a number near 1.5 * 2^33 whose last 22 bits are those that the bits of the other lack to 2^32.
_FINE = gl.constexpr(12582912.0)
_COARSE = gl.constexpr(11622416384.0)


# Of packed sequences: the first row that sees each key, and the one after the last; both (batch, keys).
Ranges = namedtuple("Ranges", "FirstRows StopRows")
# The blocks of a launch: from ``first_block`` on, ``together`` batch x KV heads in turns, heads, keys, the band, rows
# from ``row_begin`` to ``row_end``, and rows of a head in memory. A group in parts counts as so many KV heads, which
# have the same keys and ``group`` query heads each.
Launch = namedtuple(
    "Launch", "first_block together kv_heads group_parts group keys below above row_begin row_end padded"
)
# A tile of keys of a batch x KV head, the rows that see one of them (whole tiles), the row that the block starts with,
# and the number of tiles of rows with all heads of the group.
Block = namedtuple("Block", "batch_head tile start first_row stop_row steps")
# Compile-time constants: tiles, widths (A, and B beside it), ring sizes, and which masks there are.
Shape = namedtuple("Shape", "ROWS KEYS D_A D_B V_A V_B STAGES SLOTS MASKED PACKED")


@gluon.jit
def visible_rows(key, batch, ranges, launch, PACKED: gl.constexpr):
    """Where the rows that see a key (or each of some) begin, and where they end; no row sees beyond the last key."""
    if PACKED:
        at = batch * launch.keys + key
        first = gl.load(ranges.FirstRows + at, mask=key < launch.keys, other=1 << 30)
        stop = gl.load(ranges.StopRows + at, mask=key < launch.keys, other=1 << 30)
    else:
        first, stop = gl.where(key < launch.keys, key - launch.above, 1 << 30), key - launch.below + 1
    return first, stop


@gluon.jit
def whole_rows(first_key, batch, ranges, launch, PACKED: gl.constexpr):
    """Rows, from and to, that see all of 64 keys: only tiles that cross an end are masked."""
    _, whole_stop = visible_rows(first_key, batch, ranges, launch, PACKED)
    whole_first, _ = visible_rows(first_key + 63, batch, ranges, launch, PACKED)
    return whole_first, whole_stop


@gluon.jit
def _block_number(launch, KEYS: gl.constexpr):
    """The number of this block: they count through the key tiles of a batch x KV head, then through these.

    So many heads come ``together``: the first tiles of all of them, then the second ones, because of causal heads these
    are the longest.
    """
    tiles = (launch.keys + KEYS - 1) // KEYS
    before = gl.program_id(0) // (launch.together * tiles) * launch.together
    heads = gl.maximum(gl.minimum(launch.together, gl.num_programs(0) // tiles - before), 1)
    place = gl.program_id(0) - before * tiles
    return launch.first_block + (before + place % heads) * tiles + place // heads


@gluon.jit
def block_work(launch, ranges, ROWS: gl.constexpr, KEYS: gl.constexpr, PACKED: gl.constexpr):
    """Which keys this block has, and which of the launch's rows see one of these."""
    number = _block_number(launch, KEYS)
    tiles = (launch.keys + KEYS - 1) // KEYS
    batch_head, tile = number // tiles, number % tiles
    batch, last = batch_head // launch.kv_heads, gl.minimum(tile * KEYS + KEYS, launch.keys) - 1
    first, _ = visible_rows(tile * KEYS, batch, ranges, launch, PACKED)
    _, stop = visible_rows(last, batch, ranges, launch, PACKED)
    # The unused tile is there also for keys that no row sees.
    first = gl.minimum(gl.maximum(first, launch.row_begin), launch.row_end - 1) // ROWS * ROWS
    stop = (gl.minimum(stop, launch.row_end) + ROWS - 1) // ROWS * ROWS
    return Block(batch_head, tile, first, first, stop, gl.maximum(stop - first, 0) // ROWS * launch.group)


@gluon.jit
def staggered_start(tile, first_row, stop_row, ROWS: gl.constexpr):
    """Where a block begins with its rows: from there it goes to the last, and then from the first on.

    Blocks that run at once have tiles of keys that follow each other. Where all rows see these, blocks that begin at
    the first would all add to the same part of dQ at once, and L2 serialises additions to one address. So
    neighbours start at different tiles, if they have so many rows.
    """
    start = first_row + tile % _APART * ROWS
    return gl.where(start < stop_row, start, first_row)


@gluon.jit
def next_rows(i, block, ROWS: gl.constexpr):
    """Where the tile of rows after that from i on begins: the first follows the last."""
    i += ROWS
    if i >= block.stop_row:
        i = block.first_row
    return i


@gluon.jit
def masked_scores(s, i, first, stop, LAYOUT: gl.constexpr, ROWS: gl.constexpr):
    """Scores (keys, rows from i) where rows outside ``first`` to ``stop`` of each key do not see it."""
    # A thread's rows differ from each other by constants: what comes from the thread (bits of 6) goes to the other side
    # of the comparison, so that no row takes a register.
    rows = gl.arange(0, ROWS, gl.SliceLayout(0, LAYOUT))[None, :]
    begin, end = (first - i)[:, None] - (rows & 6), (stop - i)[:, None] - (rows & 6)
    return gl.where(((rows & -7) >= begin) & ((rows & -7) < end), s, float("-inf"))


@gluon.jit
def masked_edges(s, i, first, stop, whole_first, whole_stop, LAYOUT: gl.constexpr, ROWS: gl.constexpr):
    """The same, where rows from ``whole_first`` to ``whole_stop`` see all of these keys, and most tiles lie there."""
    if (i < whole_first) | (i + ROWS > whole_stop):
        s = masked_scores(s, i, first, stop, LAYOUT, ROWS)
    return s


@gluon.jit
def masked_at_edges(
    s, i, first_key, batch, whole_first, whole_stop, ranges, launch, shape, LAYOUT: gl.constexpr
):  # fmt: skip
    """The same for 64 keys from ``first_key`` on; the rows that see each are looked up where a tile crosses an end."""
    if shape.MASKED:
        if (i < whole_first) | (i + shape.ROWS > whole_stop):
            own = first_key + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
            first, stop = visible_rows(own, batch, ranges, launch, shape.PACKED)
            s = masked_scores(s, i, first, stop, LAYOUT, shape.ROWS)
    return s


@gluon.jit
def spill_ds(ds_desc, slot, head, key, row, ds, staged, PENDING: gl.constexpr):
    """Write a tile of dS^T to a slot through shared memory, where TMA may still read PENDING others."""
    tma.store_wait(PENDING)
    staged.store(ds)
    fence_async_shared()
    tma.async_copy_shared_to_global(ds_desc, [slot, head, key, row], staged)


@builtin
def _reduce_add(descriptor, place, source, _semantic=None):
    """TMA adds a tile of shared memory to memory; Gluon has the instruction, but no name for it."""
    place = _semantic._convert_to_ir_values(place, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, descriptor.handle, place, source.handle)


@gluon.jit
def to_fixed_point(dq, dq_scale):
    """Parts of dQ as 32-bit integers, times the fixed-point scale of each row: their sums do not depend on an order.

    Next to 2^23 the bits of an fp32 number count ones, and next to 2^33 they count 1024s. So a large number is added to
    round to 1024s, and a smaller one to round what is left; they are such that their own bits add up to 0. That takes
    four instructions, where the one that converts takes as long as eight.
    """
    scaled = dq * dq_scale[:, None]
    coarse = scaled + _COARSE
    fine = scaled + (_COARSE + _FINE - coarse)
    return (gl.cast(coarse, gl.int32, bitcast=True) << 10) + gl.cast(fine, gl.int32, bitcast=True)


@gluon.jit
def accumulate(desc, at, tile, staged, D: gl.constexpr, PENDING: gl.constexpr = 0):
    """Add a tile of 64 x D to its accumulator through shared memory: D rows of 64 numbers, from row ``at`` on.

    It lies there and in memory as registers hold it, 16 bytes of a thread side by side: no bank conflicts. From
    registers it would take no shared memory, and stall those who need the registers next. TMA may still read PENDING
    other tiles.
    """
    tma.store_wait(PENDING)
    staged.store(tile.reshape([4, 2, 8, D // 8, 4, 2]).permute([3, 0, 2, 4, 1, 5]).reshape([D, 64]))
    fence_async_shared()
    _reduce_add(desc, [0, 0, at, 0], staged)
