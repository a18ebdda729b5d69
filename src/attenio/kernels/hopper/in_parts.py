"""fp32 on Hopper, in parts of bf16 that were made before: some rows stay, others pass, and pieces of both are loaded.

Of 128 rows that stay, three parts of two matrices of 256 columns would take 384 KiB. So nothing waits in shared memory
but pieces of 64 columns on their way: a product loads the pieces of both sides, in the order in which it takes them.

    for each tile of 64 rows that passes:            (in each of two consumers, with 64 rows that stay)
        S = sum over pieces of X_c x_c^T             (X stays and x passes: Q and K, or K and Q)
        P = exp2(S - m) / l
        for each piece:  A_c += P y_c                (O, or dV)
        dP = sum over pieces of Y_c y_c^T;  dS = P (dP - D)
        for each piece:  B_c += dS x_c               (dQ, or dK)

``pieces`` has the products.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, assignment"

from collections import namedtuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from attenio.kernels.hopper.pieces import (
    PASSING,
    PIECE,
    ROWS,
    SUMS,
    added_to,
    cut_parts,
    issue,
    product_of_rows,
    ring_of_slots,
    store,
    times,
    zero_sums,
)

# Arguments whose value or alignment kernels are not compiled for.
_ANY_NUMBER = ["queries", "keys", "query_rows", "key_rows", "group", "below", "above"]
_ANY_PLACE = ["Largest", "Total", "Delta", "Out"]

# TMA descriptors of parts: of what stays (X and Y) and of what passes.
Matrices = namedtuple("Matrices", "X Y x y")
# Tiles that pass a block: so many, ``of_head`` of each head; rows at which what stays and what passes begins, and rows
# from one head to the next, all in the matrices of parts.
Tiles = namedtuple("Tiles", "count of_head kept passing head_rows")
# A call: lengths, the band, query heads of a KV head, the factor of scores and that of gradients.
Call = namedtuple("Call", "queries keys below above group scale factor")
# What is read of rows, and what is written.
Rows = namedtuple("Rows", "Largest Total Delta Out")
# Compile-time constants: whether dS is multiplied (for dQ and dK) or P (for O and dV), widths, and columns of pieces.
Form = namedtuple("Form", "BY_DS D WIDTH D_PADDED W_PADDED")


@gluon.jit
def _producer(matrices, ring, tiles, form):
    """Load pieces in the order in which consumers take them."""
    D_PADDED: gl.constexpr = form.D_PADDED
    W_PADDED: gl.constexpr = form.W_PADDED
    slot, phase = 0, 1
    for step in range(tiles.count):
        at = tiles.passing + step // tiles.of_head * tiles.head_rows + step % tiles.of_head * PASSING
        for piece in gl.static_range(D_PADDED // PIECE):
            slot, phase = issue(slot, phase, tiles.kept, at, piece * PIECE, D_PADDED, matrices.X, matrices.x, ring)
        if form.BY_DS:
            for piece in gl.static_range(W_PADDED // PIECE):
                slot, phase = issue(slot, phase, tiles.kept, at, piece * PIECE, W_PADDED, matrices.Y, matrices.y, ring)
            for piece in gl.static_range(D_PADDED // PIECE):
                slot, phase = issue(slot, phase, tiles.kept, at, piece * PIECE, D_PADDED, None, matrices.x, ring)
        else:
            for piece in gl.static_range(W_PADDED // PIECE):
                slot, phase = issue(slot, phase, tiles.kept, at, piece * PIECE, W_PADDED, None, matrices.y, ring)


@gluon.jit
def _scores(step, slot, phase, ring, call, form, ME: gl.constexpr):
    """Scores of a tile that passes, its rows counted from 0, and the next slot."""
    # Zeros, but not to the compiler: else it keeps the address of every piece and column in registers.
    slot += step >> 30
    columns = (step >> 30) + gl.arange(0, PASSING, gl.SliceLayout(0, SUMS))
    scores, slot, phase = product_of_rows(form.D_PADDED, slot, phase, ring, ME)
    return scores * call.scale, columns, slot, phase


@gluon.jit
def _queries(ring, tiles, first_row, first, head, rows, call, form, ME: gl.constexpr):
    """A consumer with 64 queries: O, m and l of them, or their gradient."""
    first_row += ME * ROWS
    positions = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, SUMS))
    inside = positions < call.queries
    at = gl.cast(head, gl.int64) * call.queries + positions
    largest = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, SUMS))
    total = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, SUMS))
    share, delta = total, total
    if form.BY_DS:
        of_rows = tiles.kept + positions - (first_row - ME * ROWS)
        largest, share = gl.load(rows.Largest + of_rows), gl.load(rows.Total + of_rows)
        delta = gl.load(rows.Delta + of_rows)
    sums = zero_sums(form.D_PADDED if form.BY_DS else form.W_PADDED)
    slot, phase = 0, 0
    for step in range(tiles.count):
        scores, columns, slot, phase = _scores(step, slot, phase, ring, call, form, ME)
        key = first + step * PASSING
        before = key < first_row + ROWS - 1 + call.below
        if before | (key + PASSING - 1 > first_row + call.above) | (key + PASSING > call.keys):
            here, mine = key + columns[None, :], positions[:, None]
            seen = (here >= mine + call.below) & (here <= mine + call.above) & (here < call.keys)
            scores = gl.where(seen, scores, float("-inf"))
        if form.BY_DS:
            weights = gl.exp2(scores - largest[:, None]) * share[:, None]
            dp, slot, phase = product_of_rows(form.W_PADDED, slot, phase, ring, ME)
            sums, slot, phase = added_to(cut_parts(weights * (dp - delta[:, None])), sums, slot, phase, ring)
        else:
            larger = gl.maximum(largest, gl.max(scores, 1))
            anchor = gl.where(larger == float("-inf"), 0.0, larger)
            weights = gl.exp2(scores - anchor[:, None])
            fading = gl.exp2(largest - anchor)
            total = total * fading + gl.sum(weights, 1)
            largest = larger
            sums = times(sums, fading[:, None])
            sums, slot, phase = added_to(cut_parts(weights), sums, slot, phase, ring)
    if form.BY_DS:
        store(rows.Out, times(sums, call.factor), at, inside, form.D)
    else:
        divided = times(sums, (1.0 / gl.where(total == 0.0, 1.0, total))[:, None])
        store(rows.Out, divided, at, inside, form.WIDTH)
        gl.store(rows.Largest + at, largest, mask=inside)
        gl.store(rows.Total + at, total, mask=inside)


@gluon.jit
def _keys(ring, tiles, first_key, first, head, rows, call, form, ME: gl.constexpr):
    """A consumer with 64 keys: their gradient, or that of their values."""
    first_key += ME * ROWS
    keys = first_key + gl.arange(0, ROWS, gl.SliceLayout(1, SUMS))
    row, at = first, tiles.passing
    sums = zero_sums(form.D_PADDED if form.BY_DS else form.W_PADDED)
    slot, phase = 0, 0
    for step in range(tiles.count):
        scores, columns, slot, phase = _scores(step, slot, phase, ring, call, form, ME)
        before = first_key < row + PASSING - 1 + call.below
        if before | (first_key + ROWS - 1 > row + call.above) | (row + PASSING > call.queries):
            here, mine = keys[:, None], row + columns[None, :]
            seen = (here >= mine + call.below) & (here <= mine + call.above) & (mine < call.queries)
            scores = gl.where(seen, scores, float("-inf"))
        weights = gl.exp2(scores - gl.load(rows.Largest + at + columns)[None, :])
        weights = weights * gl.load(rows.Total + at + columns)[None, :]
        if form.BY_DS:
            dp, slot, phase = product_of_rows(form.W_PADDED, slot, phase, ring, ME)
            weights = weights * (dp - gl.load(rows.Delta + at + columns)[None, :])
        sums, slot, phase = added_to(cut_parts(weights), sums, slot, phase, ring)
        row, at = row + PASSING, at + PASSING
        if row == first + tiles.of_head * PASSING:
            row, at = first, at + tiles.head_rows - tiles.of_head * PASSING
    written = keys < call.keys
    at = gl.cast(head, gl.int64) * call.keys + keys
    if form.BY_DS:
        store(rows.Out, times(sums, call.factor), at, written, form.D)
    else:
        store(rows.Out, sums, at, written, form.WIDTH)


@gluon.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_PLACE)
def query_parts_kernel(
    X, Y, x, y, Largest, Total, Delta, Out, queries, keys, query_rows, key_rows, group, below, above, scale, factor,
    D: gl.constexpr, WIDTH: gl.constexpr, D_PADDED: gl.constexpr, W_PADDED: gl.constexpr, SOFTMAX: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """O, m and l of 128 queries where SOFTMAX, else their gradient; matrices are Q, dO (Q again), K and V."""
    form: gl.constexpr = Form(not SOFTMAX, D, WIDTH, D_PADDED, W_PADDED)
    blocks = (queries + 2 * ROWS - 1) // (2 * ROWS)
    block, head = blocks - 1 - gl.program_id(0) % blocks, gl.program_id(0) // blocks
    first_row = block * (2 * ROWS)
    first = gl.maximum(first_row + below, 0) // PASSING * PASSING
    stop = gl.minimum(gl.minimum(first_row + 2 * ROWS, queries) + above, keys)
    count = gl.maximum(stop - first + PASSING - 1, 0) // PASSING
    tiles = Tiles(count, count, head * query_rows + first_row, head // group * key_rows + first, 0)
    call, ring = Call(queries, keys, below, above, group, scale, factor), ring_of_slots()
    rows = Rows(Largest, Total, Delta, Out)
    gl.warp_specialize([
        (_producer, (Matrices(X, Y, x, y), ring, tiles, form)),
        (_queries, (ring, tiles, first_row, first, head, rows, call, form, 0)),
        (_queries, (ring, tiles, first_row, first, head, rows, call, form, 1)),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip


@gluon.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_PLACE)
def key_parts_kernel(
    X, Y, x, y, Largest, Total, Delta, Out, queries, keys, query_rows, key_rows, group, below, above, scale, factor,
    D: gl.constexpr, WIDTH: gl.constexpr, D_PADDED: gl.constexpr, W_PADDED: gl.constexpr, OF_KEYS: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """The gradient of 128 keys where OF_KEYS, else that of their values; matrices are K, V, Q and dO."""
    form: gl.constexpr = Form(OF_KEYS, D, WIDTH, D_PADDED, W_PADDED)
    blocks = (keys + 2 * ROWS - 1) // (2 * ROWS)
    block, head = gl.program_id(0) % blocks, gl.program_id(0) // blocks
    first_key = block * (2 * ROWS)
    first = gl.maximum(first_key - above, 0) // PASSING * PASSING
    stop = gl.minimum(gl.minimum(first_key + 2 * ROWS, keys) - below, queries)
    of_head = gl.maximum(stop - first + PASSING - 1, 0) // PASSING
    tiles = Tiles(
        of_head * group, of_head, head * key_rows + first_key, head * group * query_rows + first, query_rows
    )  # fmt: skip
    call, ring = Call(queries, keys, below, above, group, scale, factor), ring_of_slots()
    rows = Rows(Largest, Total, Delta, Out)
    gl.warp_specialize([
        (_producer, (Matrices(X, Y, x, y), ring, tiles, form)),
        (_keys, (ring, tiles, first_key, first, head, rows, call, form, 0)),
        (_keys, (ring, tiles, first_key, first, head, rows, call, form, 1)),
    ], [4, 4], [REGISTERS, REGISTERS])  # fmt: skip
