"""Pieces of matrices in parts of bf16: a ring of them in shared memory, and products that take them from there.

A piece is 64 columns of some rows, as three tiles of bf16. A product of pieces is six of the nine products of their
parts (``triton.products`` says why); what passes is multiplied as it lies and transposed.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, assignment"

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

# Rows that stay with a consumer, rows that pass, columns of a piece, and pieces that are on their way or read.
ROWS, PASSING, PIECE, _SLOTS = gl.constexpr(64), gl.constexpr(64), gl.constexpr(64), gl.constexpr(3)
SUMS = gl.constexpr(gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16]))
_OPERAND = gl.constexpr(gl.DotOperandLayout(operand_index=0, parent=SUMS, k_width=2))

# Shared memory of the slots; barriers that are full when what was loaded has arrived, empty when it was read.
Ring = namedtuple("Ring", "kept passing full empty")


@gluon.jit
def next_slot(slot, phase):
    """The next slot, and the phase of its barriers; without a branch, which would cost registers."""
    last = slot == _SLOTS - 1
    return gl.where(last, 0, slot + 1), gl.where(last, phase ^ 1, phase)


@gluon.jit
def issue(slot, phase, kept_at, passing_at, COLUMN: gl.constexpr, PADDED: gl.constexpr, X, x, ring):
    """Load a piece of what stays, unless X is None, and of what passes, when their slot has been read."""
    full = ring.full.index(slot)
    mbarrier.wait(ring.empty.index(slot), phase)
    mbarrier.expect(full, 6 * PIECE * (PASSING if X is None else 2 * ROWS + PASSING))
    for part in gl.static_range(3):
        if X is not None:
            for consumer in gl.static_range(2):
                tma.async_copy_global_to_shared(
                    X, [kept_at + consumer * ROWS, part * PADDED + COLUMN], full,
                    ring.kept.index(slot * 6 + part * 2 + consumer),
                )  # fmt: skip
        tma.async_copy_global_to_shared(
            x, [passing_at, part * PADDED + COLUMN], full, ring.passing.index(slot * 3 + part)
        )
    return next_slot(slot, phase)


@gluon.jit
def _small_products(a, b, sums, USE_SUMS: gl.constexpr):
    """Start all of the six products but that of the heads, the smallest first."""
    sums = warpgroup_mma(a[2], b[0], sums, use_acc=USE_SUMS, is_async=True)
    sums = warpgroup_mma(a[0], b[2], sums, is_async=True)
    sums = warpgroup_mma(a[1], b[1], sums, is_async=True)
    sums = warpgroup_mma(a[1], b[0], sums, is_async=True)
    return warpgroup_mma(a[0], b[1], sums, is_async=True)


@gluon.jit
def product_of_rows(PADDED: gl.constexpr, slot, phase, ring, ME: gl.constexpr):
    """X x^T or Y y^T of a tile, and the next slot.

    Where a part of an infinite entry makes a sum infinite or NaN, the heads alone say which.
    """
    small = gl.zeros([ROWS, PASSING], gl.float32, SUMS)
    heads = gl.zeros([ROWS, PASSING], gl.float32, SUMS)
    before = slot
    for piece in gl.static_range(PADDED // PIECE):
        mbarrier.wait(ring.full.index(slot), phase)
        kept, passing = slot * 6 + ME, slot * 3
        a = (ring.kept.index(kept), ring.kept.index(kept + 2), ring.kept.index(kept + 4))
        b = (
            ring.passing.index(passing).permute((1, 0)), ring.passing.index(passing + 1).permute((1, 0)),
            ring.passing.index(passing + 2).permute((1, 0)),
        )  # fmt: skip
        small = _small_products(a, b, small, piece > 0)
        heads = warpgroup_mma(a[0], b[0], heads, use_acc=piece > 0, is_async=True)
        if piece > 0:
            small, heads = warpgroup_mma_wait(6, deps=(small, heads))
            mbarrier.arrive(ring.empty.index(before), count=1)
        before = slot
        slot, phase = next_slot(slot, phase)
    small, heads = warpgroup_mma_wait(0, deps=(small, heads))
    mbarrier.arrive(ring.empty.index(before), count=1)
    return heads + gl.where(gl.maximum(small, 0.0 - small) < float("inf"), small, 0.0), slot, phase


@gluon.jit
def _cut(x):
    """The leading eight bits of a number of fp32: as large or smaller, with the same sign."""
    return gl.cast(gl.cast(x, gl.int32, bitcast=True) & -65536, gl.float32, bitcast=True)


@gluon.jit
def cut_parts(x):
    """Three numbers of bf16 that sum to one of fp32, all with its sign and none of them 0 unless it is, as operands."""
    head = _cut(x)
    rest = gl.where(gl.maximum(head, 0.0 - head) == float("inf"), 0.0, x - head)
    middle = _cut(rest)
    least, last = head * 2.0**-30, rest - middle
    middle, last = gl.where(middle == 0.0, least, middle), gl.where(last == 0.0, least, last)
    return (
        gl.convert_layout(head.to(gl.bfloat16), _OPERAND, assert_trivial=True),
        gl.convert_layout(middle.to(gl.bfloat16), _OPERAND, assert_trivial=True),
        gl.convert_layout(last.to(gl.bfloat16), _OPERAND, assert_trivial=True),
    )


@gluon.jit
def added_to(a, sums, slot, phase, ring):
    """Pieces of sums, with what parts sum to times what passes added, and the next slot."""
    # All of them are there before the first product: computed between products, sums would not stay in registers.
    there = warpgroup_mma_wait(0, deps=a + sums)
    a = (there[0], there[1], there[2])
    added = ()
    for piece in gl.static_range(len(sums)):
        mbarrier.wait(ring.full.index(slot), phase)
        b = (ring.passing.index(slot * 3), ring.passing.index(slot * 3 + 1), ring.passing.index(slot * 3 + 2))
        tile = gl.zeros([ROWS, PIECE], gl.float32, SUMS)
        tile = _small_products(a, b, tile, False)
        tile = warpgroup_mma(a[0], b[0], tile, is_async=True)
        tile, head, middle, last = warpgroup_mma_wait(0, deps=(tile, a[0], a[1], a[2]))
        mbarrier.arrive(ring.empty.index(slot), count=1)
        a = (head, middle, last)
        added = added + (there[3 + piece] + tile,)  # noqa: RUF005 - as kernels have tuples
        slot, phase = next_slot(slot, phase)
    return added, slot, phase


@gluon.jit
def zero_sums(PADDED: gl.constexpr):
    """Pieces of sums."""
    sums = ()
    for _ in gl.static_range(PADDED // PIECE):
        sums = sums + (gl.zeros([ROWS, PIECE], gl.float32, SUMS),)  # noqa: RUF005
    return sums


@gluon.jit
def times(sums, factor):
    scaled = ()
    for piece in gl.static_range(len(sums)):
        scaled = scaled + (sums[piece] * factor,)  # noqa: RUF005
    return scaled


@gluon.jit
def store(Out, sums, rows, inside, WIDTH: gl.constexpr):
    """Write pieces of sums to rows of a matrix that has nothing between them."""
    for piece in gl.static_range(len(sums)):
        columns = piece * PIECE + gl.arange(0, PIECE, gl.SliceLayout(0, SUMS))
        wanted = inside[:, None] & (columns < WIDTH)[None, :]
        gl.store(Out + (rows[:, None] * WIDTH + columns[None, :]), sums[piece], mask=wanted)


@gluon.jit
def ring_of_slots():
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    kept = gl.allocate_shared_memory(gl.bfloat16, [6 * _SLOTS, ROWS, PIECE], shared)
    passing = gl.allocate_shared_memory(gl.bfloat16, [3 * _SLOTS, PASSING, PIECE], shared)
    full = gl.allocate_shared_memory(gl.int64, [_SLOTS, 1], barrier)
    empty = gl.allocate_shared_memory(gl.int64, [_SLOTS, 1], barrier)
    for slot in gl.static_range(_SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=2)
    fence_async_shared()
    return Ring(kept, passing, full, empty)
