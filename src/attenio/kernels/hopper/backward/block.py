"""What the blocks of all backward kernels share: who has which keys, which rows see them, and the ways of tiles.

A block keeps KEYS keys of a unit (a KV head of a sequence). One group of its warps serves the others:

    load K_j, V_j
    for each tile i of rows that sees a key of j (and one more, which nobody uses):
        load Q_i, dO_i, their log-sum-exp and delta

The rows that see a key are one range, and ranges of later keys neither begin nor end earlier: a band, or what the host
found for packed sequences. So the first key of some says where their rows begin and the last one where they end.

Slopes dS leave a block either spilled, for the kernel that multiplies them with keys, or as its share of dQ, which is
added to sums in memory, in any order.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from attenio.kernels.hopper.producer import copy_tile

__all__ = [
    "ANY_NUMBER",
    "ANY_PLACE",
    "add_sums",
    "block_of",
    "counted",
    "edges_hidden",
    "hidden",
    "load_keys",
    "load_rows",
    "number_of",
    "rows_of",
    "serve_rows",
    "spill_slopes",
    "start_of",
]


# Arguments of these kernels whose value or alignment they are not compiled for.
ANY_NUMBER = [
    "first_block", "together", "kv_heads", "group", "keys", "below", "above", "row_begin", "row_end", "padded",
]  # fmt: skip
ANY_PLACE = ["Lse", "Delta", "FirstRows", "StopRows"]
# Tiles of rows that blocks begin apart. Of the 132 that an H200 runs at once nine at most then meet at a tile, and what
# one of them reads the others need within 16 tiles: 1 MiB of Q, dO and sums of each head, little for an L2.
_APART = gl.constexpr(16)
# 1.5 * 2^23, and a number near 1.5 * 2^33 whose last 22 bits are those that the bits of the other lack to 2^32.
_FINE = gl.constexpr(12582912.0)
_COARSE = gl.constexpr(11622416384.0)


@gluon.jit
def rows_of(key, batch, FirstRows, StopRows, keys, below, above, PACKED: gl.constexpr):
    """Where the rows that see a key (or each of some) begin, and where they end; nobody sees beyond the last key.

    PACKED sequences have both in memory, (batch, keys); else they follow from the band.
    """
    if PACKED:
        at = batch * keys + key
        first = gl.load(FirstRows + at, mask=key < keys, other=1 << 30)
        stop = gl.load(StopRows + at, mask=key < keys, other=1 << 30)
    else:
        first, stop = gl.where(key < keys, key - above, 1 << 30), key - below + 1
    return first, stop


@gluon.jit
def number_of(first_block, together, keys, KEYS: gl.constexpr):
    """The number of a block: they count through the tiles of a unit and then through units, a launch's from the first.

    So many units come ``together``: the first tiles of all of them, then the second ones, because of causal heads these
    are the longest.
    """
    tiles = (keys + KEYS - 1) // KEYS
    before = gl.program_id(0) // (together * tiles) * together
    units = gl.maximum(gl.minimum(together, gl.num_programs(0) // tiles - before), 1)
    place = gl.program_id(0) - before * tiles
    return first_block + (before + place % units) * tiles + place // units


@gluon.jit
def block_of(
    block, kv_heads, group, FirstRows, StopRows, keys, below, above, first_row, stop_row,
    ROWS: gl.constexpr, KEYS: gl.constexpr, PACKED: gl.constexpr,
):  # fmt: skip
    """Which unit and which tile of its keys a block has, which rows from ``first_row`` to ``stop_row`` see one of these
    (whole tiles of them), and how many tiles that are with all heads of the group.
    """
    tiles = (keys + KEYS - 1) // KEYS
    unit, tile = block // tiles, block % tiles
    batch, last = unit // kv_heads, gl.minimum(tile * KEYS + KEYS, keys) - 1
    first, _ = rows_of(tile * KEYS, batch, FirstRows, StopRows, keys, below, above, PACKED)
    _, stop = rows_of(last, batch, FirstRows, StopRows, keys, below, above, PACKED)
    # The tile that nobody uses is there also for keys that nobody sees.
    first = gl.minimum(gl.maximum(first, first_row), stop_row - 1) // ROWS * ROWS
    stop = (gl.minimum(stop, stop_row) + ROWS - 1) // ROWS * ROWS
    return unit, tile, first, stop, gl.maximum(stop - first, 0) // ROWS * group


@gluon.jit
def start_of(tile, first_row, stop_row, ROWS: gl.constexpr):
    """Where a block begins with its rows: from there it goes to the last, and then from the first on.

    Blocks that run at once have tiles of keys that follow each other. Where all rows see these, blocks that begin at
    the first would all add to the same sums at once, and L2 makes one addition to a number after the other. So
    neighbours begin apart, if they have so many rows.
    """
    start = first_row + tile % _APART * ROWS
    return gl.where(start < stop_row, start, first_row)


@gluon.jit
def hidden(s, i, first, stop, LAYOUT: gl.constexpr, ROWS: gl.constexpr):
    """Scores (keys, rows from i) where rows outside ``first`` to ``stop`` of each key do not see it."""
    # A thread's rows differ from each other by constants: what comes from the thread (bits of 6) goes to the other side
    # of the comparison, so that no row takes a register.
    rows = gl.arange(0, ROWS, gl.SliceLayout(0, LAYOUT))[None, :]
    begin, end = (first - i)[:, None] - (rows & 6), (stop - i)[:, None] - (rows & 6)
    return gl.where(((rows & -7) >= begin) & ((rows & -7) < end), s, float("-inf"))


@gluon.jit
def edges_hidden(s, i, first, stop, whole_first, whole_stop, LAYOUT: gl.constexpr, ROWS: gl.constexpr):
    """The same, where rows from ``whole_first`` to ``whole_stop`` see all of these keys, and most tiles lie there."""
    if (i < whole_first) | (i + ROWS > whole_stop):
        s = hidden(s, i, first, stop, LAYOUT, ROWS)
    return s


@gluon.jit
def spill_slopes(slopes_desc, slot, head, key, row, slopes, staged, PENDING: gl.constexpr):
    """Write a tile of dS^T to a slot by way of shared memory, where the copy engine may still read PENDING others."""
    tma.store_wait(PENDING)
    staged.store(slopes)
    fence_async_shared()
    tma.async_copy_shared_to_global(slopes_desc, [slot, head, key, row], staged)


@builtin
def _reduce_add(descriptor, place, source, _semantic=None):
    """The copy engine adds a tile of shared memory to memory; Gluon has the instruction, but no name for it."""
    place = _semantic._convert_to_ir_values(place, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, descriptor.handle, place, source.handle)


@gluon.jit
def counted(shares, fineness):
    """Shares of dQ as whole numbers of grains, so many to 1 for each row: their sums do not depend on an order.

    Next to 2^23 the bits of a number of fp32 count ones, and next to 2^33 they count 1024s. So a large number is added
    to round a share to 1024s, and a smaller one to round what is left; they are such that their own bits add up to 0.
    That takes four instructions, where the one that converts takes as long as eight.
    """
    grains = shares * fineness[:, None]
    coarse = grains + _COARSE
    fine = grains + (_COARSE + _FINE - coarse)
    return (gl.cast(coarse, gl.int32, bitcast=True) << 10) + gl.cast(fine, gl.int32, bitcast=True)


@gluon.jit
def add_sums(sums_desc, part, sums, staged, D: gl.constexpr, PENDING: gl.constexpr = 0):
    """Add a tile of 64 x D to its sums by way of shared memory; 64 columns after 64 columns, in D rows of 64 each.

    It lies there and in memory as registers hold it, 16 bytes of a thread side by side: no two threads meet in a bank.
    From registers it would take no shared memory, and stall those who need the registers next. The copy engine may
    still read PENDING other tiles.
    """
    tma.store_wait(PENDING)
    staged.store(sums.reshape([4, 2, 8, D // 8, 4, 2]).permute([3, 0, 2, 4, 1, 5]).reshape([D, 64]))
    fence_async_shared()
    _reduce_add(sums_desc, [0, 0, part * 64, 0], staged)


@gluon.jit
def load_keys(k_desc, v_desc, k_s, v_s, kv_full, batch, kv_head, first_key, KEYS: gl.constexpr):
    """Load the keys and values that a block keeps."""
    mbarrier.expect(kv_full, KEYS // 64 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
    for part in gl.static_range(KEYS // 64):
        at = first_key + part * 64
        tma.async_copy_global_to_shared(k_desc, [batch, kv_head, at, 0], kv_full, k_s.index(part))
        tma.async_copy_global_to_shared(v_desc, [batch, kv_head, at, 0], kv_full, v_s.index(part))


@gluon.jit
def serve_rows(
    q_desc, do_desc, Lse, Delta, q_s, do_s, lse_s, delta_s, q_full, do_full, q_empty, do_empty,
    unit, kv_heads, group, start, first_row, stop_row, steps, padded,
    ROWS: gl.constexpr, STAGES: gl.constexpr, DO_STAGES: gl.constexpr, SHIFT: gl.constexpr,
    q_beside, do_beside, q_sb, do_sb, D_A: gl.constexpr, D_B: gl.constexpr, V_A: gl.constexpr, V_B: gl.constexpr,
):  # fmt: skip
    """Load the tiles of rows from ``start`` on, each when nobody needs what was in its place.

    Some are of two tiles side by side.
    """
    batch, kv_head = unit // kv_heads, unit % kv_heads
    head, i, stage, phase, do_stage, do_phase = 0, start, 0, 1, 0, 1
    for step in range(steps + 1):
        load_rows(
            q_desc, do_desc, Lse, Delta, q_s.index(stage), do_s.index(do_stage), lse_s.index(stage),
            delta_s.index(stage), q_full.index(stage), do_full.index(do_stage), q_empty.index(stage), phase,
            do_empty.index(do_stage), do_phase, batch, kv_head * group + head, i,
            (unit * group + head) * padded + i, ROWS, SHIFT,
            q_beside, do_beside, q_sb.index(stage), do_sb.index(do_stage), D_A, D_B, V_A, V_B,
        )  # fmt: skip
        i += ROWS
        if i >= stop_row:
            i = first_row
        if (i == start) & (step + 1 < steps):
            head += 1
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
        do_stage += 1
        if do_stage == DO_STAGES:
            do_stage = 0
            do_phase ^= 1


@gluon.jit
def load_rows(
    q_desc, do_desc, Lse, Delta, q, do, lse_s, delta_s, q_full, do_full, q_empty, q_phase, do_empty, do_phase,
    batch, head, i, row, ROWS: gl.constexpr, SHIFT: gl.constexpr, q_beside=None, do_beside=None, q_b=None, do_b=None,
    D_A: gl.constexpr = 0, D_B: gl.constexpr = 0, V_A: gl.constexpr = 0, V_B: gl.constexpr = 0,
):  # fmt: skip
    """Load one tile of rows; with their numbers, which are those of weights times 2 to the SHIFT.

    Of queries there may be D_B columns beside D_A in a tile of their own, and of gradients V_B beside V_A.
    """
    within = gl.arange(0, ROWS, gl.BlockedLayout([1], [32], [4], [0]))
    lse, delta = gl.load(Lse + row + within), gl.load(Delta + row + within)
    mbarrier.wait(q_empty, q_phase)
    copy_tile(q_desc, q_beside, batch, head, i, q_full, q, q_b, D_A, D_B)
    if SHIFT > 0:
        lse, delta = lse - SHIFT, delta * (0.5**SHIFT)
    lse_s.store(lse)
    delta_s.store(delta)
    mbarrier.arrive(q_full, count=1)
    mbarrier.wait(do_empty, do_phase)
    copy_tile(do_desc, do_beside, batch, head, i, do_full, do, do_b, V_A, V_B)
