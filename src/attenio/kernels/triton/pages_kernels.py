"""Keys in pages on a GPU: the page table is read beside the keys, and rows are tokens times heads of a group.

    for each tile j of KEY_TILE keys between first and stop:
        pages of j, from the table, kept within those that are there
        S = Q K_j^T (keys of 8 bits are converted here, and S multiplied by the scales of their pages)
        P, max, sum, rescale = online softmax of S;  O = rescale O + P V_j

``paged_kernel``: a program has the rows of one request and one of the runs that its keys are split into; the last one
to arrive joins the results, so that there is one launch, and lengths and tables are read on the GPU alone.
``page_runs_kernel``: a program has one item of a list that was made in host memory, such as a run of pages for all
requests that share it; ``merge_pages_kernel`` joins what the items of a token gave.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from collections import namedtuple

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from attenio.kernels.triton.bits import halves, halves_of_pairs
from attenio.kernels.triton.page_results import joined, write_rows

# Queries, pages of keys and values (of 8 bits in pairs), table and scales, with strides; pages and places there are.
Pool = namedtuple(
    "Pool", "Q K V Table KScales VScales q_t q_h k_p k_n k_h v_p v_n v_h table_r kv_heads page_count places"
)
# What is done to scores: keys that a token sees on either side, the scale in log2, a cap in units of the scaled score.
Scores = namedtuple("Scores", "left right scale softcap HIDES CAPS")
# Keys of a page and of a tile, widths of heads and the powers of two that hold them, whether 8 bits are e4m3, the
# precision of products, and whether conversions are written in PTX.
Sizes = namedtuple("Sizes", "PAGE KEY_TILE D WIDTH D_PADDED W_PADDED FLOATS PRECISION PTX")


@triton.jit
def _capped(scores, most):
    """c tanh(s / c) of scores in log2, by the exponential of -2 |s / c|; next to zero by a polynomial."""
    x = scores / most
    square = x * x
    inner = 1.0 + square * (
        -0.3333333333333333 + square * (0.13333333333333333 + square * (-0.05396825396825397 + square * 0.021869488536))
    )
    small = tl.exp2(tl.abs(x) * -2.8853900817779268)
    outer = (1.0 - small) / (1.0 + small)
    return most * tl.where(tl.abs(x) < 0.25, x * inner, tl.where(x < 0.0, -outer, outer))


@triton.jit
def _pages_of(row, j, stop, bad, pool, sizes):
    """The pages of a tile of keys, and whether one of them was none of those that are there."""
    if sizes.PAGE % sizes.KEY_TILE == 0:
        page = tl.load(row + j // sizes.PAGE)
        bad = bad | ((page < 0) | (page >= pool.page_count)).to(tl.int32)
        page = tl.minimum(tl.maximum(page, 0), pool.page_count - 1)
    else:
        here = j + tl.arange(0, sizes.KEY_TILE)
        page = tl.load(row + here // sizes.PAGE, mask=here < stop, other=0)
        bad = bad | ((page < 0) | (page >= pool.page_count)).to(tl.int32)
        page = tl.minimum(tl.maximum(page, 0), pool.page_count - 1)
    return page.to(tl.int64), bad


@triton.jit
def _fold_pages(  # noqa: C901 - branches on constants
    pool, request, kv_head, tokens, heads, positions, inside, first, stop, scores_of, sizes
):
    """Sums, largest and total of rows over keys from ``first`` up to ``stop``.

    Values of 8 bits come as pairs of columns in 16 bits, which is how tensor cores' operands are loaded fast; sums of
    even and of odd columns are then taken apart.
    """
    ROWS: tl.constexpr = tokens.shape[0]
    PAIRS: tl.constexpr = 1 if pool.VScales is None else 2
    dims, columns = tl.arange(0, sizes.D_PADDED), tl.arange(0, sizes.W_PADDED // PAIRS)
    at_q = pool.Q + tokens[:, None].to(tl.int64) * pool.q_t + heads[:, None].to(tl.int64) * pool.q_h + dims[None, :]
    q = tl.load(at_q, mask=inside[:, None] & (dims < sizes.D)[None, :], other=0.0)
    factor = tl.full([ROWS], 1.0, tl.float32) * scores_of.scale
    if pool.KScales is not None:
        # Entries of 8 bits are exact in half precision; rows are brought into its range.
        reach = tl.max(tl.abs(q.to(tl.float32)), 1)
        reach = tl.where((reach > 0.0) & (reach < float("inf")), reach, 1.0)
        factor *= reach
        q = (q.to(tl.float32) / reach[:, None]).to(tl.float16)
        if pool.K.dtype.element_ty == tl.uint8 and sizes.FLOATS:
            factor *= 256.0
    sums = tl.zeros([ROWS, sizes.W_PADDED // PAIRS], tl.float32)
    odd = tl.zeros([ROWS, sizes.W_PADDED // PAIRS], tl.float32)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    if sizes.PAGE % sizes.KEY_TILE == 0:  # noqa: SIM108 - of two shapes
        bad = first * 0
    else:
        bad = tl.zeros([sizes.KEY_TILE], tl.int32)
    row = pool.Table + request.to(tl.int64) * pool.table_r
    K, V = pool.K + kv_head.to(tl.int64) * pool.k_h, pool.V + kv_head.to(tl.int64) * pool.v_h
    for j in range(first, stop, sizes.KEY_TILE):
        here = j + tl.arange(0, sizes.KEY_TILE)
        page, bad = _pages_of(row, j, stop, bad, pool, sizes)
        within = here % sizes.PAGE
        k_at, v_at = page * pool.k_p + within * pool.k_n, page * pool.v_p + within * pool.v_n
        if sizes.D_PADDED != sizes.D:
            k = tl.load(K + k_at[None, :] + dims[:, None], mask=(dims < sizes.D)[:, None], other=0.0)
        else:
            k = tl.load(K + k_at[None, :] + dims[:, None])
        if k.dtype == tl.uint8:
            k = halves(k, sizes.FLOATS, sizes.PTX)
        S = tl.dot(q, k.to(q.dtype), input_precision=sizes.PRECISION) * factor[:, None]
        if pool.KScales is not None:
            scale = tl.load(pool.KScales + page * pool.kv_heads + kv_head)
            if sizes.PAGE % sizes.KEY_TILE == 0:  # noqa: SIM108 - of two shapes
                S = S * scale
            else:
                S = S * scale[None, :]
        if scores_of.CAPS:
            S = _capped(S, scores_of.softcap)
        seen = (here < stop)[None, :]
        if scores_of.HIDES:
            seen = seen & (here[None, :] <= positions[:, None] + scores_of.right)
            seen = seen & (here[None, :] >= positions[:, None] - scores_of.left)
        S = tl.where(seen, S, float("-inf"))
        larger = tl.maximum(largest, tl.max(S, 1))
        anchor = tl.where(larger == float("-inf"), 0.0, larger)
        P = tl.exp2(S - anchor[:, None])
        fading = tl.exp2(largest - anchor)
        total = total * fading + tl.sum(P, 1)
        # Keys past the last may be anything, and nothing times NaN would be NaN.
        wanted = (here < stop)[:, None]
        if sizes.W_PADDED != sizes.WIDTH:
            wanted = wanted & (columns < sizes.WIDTH // PAIRS)[None, :]
        v = tl.load(V + v_at[:, None] + columns[None, :], mask=wanted, other=0)
        if pool.VScales is None:
            sums = tl.dot(P.to(v.dtype), v, sums * fading[:, None], input_precision=sizes.PRECISION)
        else:
            scale = tl.load(pool.VScales + page * pool.kv_heads + kv_head)
            if sizes.PAGE % sizes.KEY_TILE == 0:
                most = scale
            else:
                scale = tl.where(here < stop, scale, 0.0)
                most = tl.max(scale, 0)
                most = tl.where(most > 0.0, most, 1.0)
                P = P * (scale / most)[None, :]
            if sizes.FLOATS and not sizes.PTX:
                most = most * 256.0
            P = P.to(q.dtype)
            low, high = halves_of_pairs(v, sizes.FLOATS, sizes.PTX)
            sums = sums * fading[:, None] + tl.dot(P, low) * most
            odd = odd * fading[:, None] + tl.dot(P, high) * most
        largest = larger
    if PAIRS == 2:
        sums = tl.join(sums, odd).reshape(ROWS, sizes.W_PADDED)
    if sizes.PAGE % sizes.KEY_TILE == 0:  # noqa: SIM108 - of two shapes
        is_bad = bad
    else:
        is_bad = tl.max(bad, 0)
    total = tl.where(is_bad != 0, float("nan"), total)
    return sums, largest, total


@triton.jit
def _request_of(tile, Starts, requests, ROW_TILE: tl.constexpr, PACK: tl.constexpr):
    """The request whose rows have a tile: that of request i begins at starts[i] PACK / ROW_TILE + i."""
    low, high = requests * 0, requests
    while high - low > 1:
        middle = (low + high) // 2
        begins = tl.load(Starts + middle) * PACK // ROW_TILE + middle
        if begins <= tile:
            low = middle
        else:
            high = middle
    return low


# One compiled kernel whatever these numbers are: they change with requests and tokens.
_ANY_NUMBER = ["table_r", "requests", "tokens_count", "new", "page_count", "places", "splits", "left", "right"]


@triton.jit(do_not_specialize=_ANY_NUMBER)
def paged_kernel(
    Q, K, V, O, Lse, Sums, Statistics, Arrived, Table, Lengths, Starts, KScales, VScales, Sinks,
    q_t, q_h, k_p, k_n, k_h, v_p, v_n, v_h, o_t, o_h, table_r,
    requests, tokens_count, new, kv_heads, page_count, places, splits, left, right, scale, softcap,
    ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr, PAGE: tl.constexpr, PACK: tl.constexpr, JOINS: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    HIDES: tl.constexpr, CAPS: tl.constexpr, FLOATS: tl.constexpr, LOG2_E: tl.constexpr, PRECISION: tl.constexpr,
    PTX: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """Programs of the KV heads of one tile follow each other: their keys lie side by side in a page."""
    if OVERLAPS:  # what an earlier launch wrote is read from here on
        gdc_wait()
        gdc_launch_dependents()
    kv_head, place = tl.program_id(0) % kv_heads, tl.program_id(0) // kv_heads
    split, tile = place % splits, place // splits
    if Starts is None:
        tiles = tl.cdiv(new * PACK, ROW_TILE)
        request, tile_of_request, start, count = tile // tiles, tile % tiles, tile // tiles * new, new
    else:
        request = _request_of(tile, Starts, requests, ROW_TILE, PACK)
        start = tl.load(Starts + request)
        count = tl.load(Starts + request + 1) - start
        tile_of_request = tile - (start * PACK // ROW_TILE + request)
        # Impossible starts may not lead outside of the queries.
        start = tl.minimum(tl.maximum(start, 0), tokens_count)
        count = tl.minimum(tl.maximum(count, 0), tokens_count - start)
        count = tl.where((tile_of_request >= 0) & (tile_of_request * ROW_TILE < count * PACK), count, 0)
    given = tl.load(Lengths + request)
    length = tl.minimum(tl.maximum(given, 0), places * PAGE)
    rows = tile_of_request * ROW_TILE + tl.arange(0, ROW_TILE)
    inside = rows < count * PACK
    tokens, heads = start + rows // PACK, kv_head * PACK + rows % PACK
    positions = length - count + rows // PACK
    first, stop = 0, length
    if Starts is not None:  # a tile that no request has
        stop = tl.where(count > 0, length, 0)
    if HIDES:
        lowest = length - count + tile_of_request * ROW_TILE // PACK
        highest = length - count + tl.minimum(count, (tile_of_request * ROW_TILE + ROW_TILE - 1) // PACK + 1) - 1
        first = tl.maximum(0, lowest - left) // KEY_TILE * KEY_TILE
        stop = tl.maximum(tl.minimum(stop, highest + right + 1), 0)
    run = tl.cdiv(tl.cdiv(tl.maximum(stop - first, 0), KEY_TILE), splits) * KEY_TILE
    first = tl.multiple_of(first + split * run, KEY_TILE)
    stop = tl.minimum(stop, first + run)
    pool = Pool(
        Q, K, V, Table, KScales, VScales, q_t, q_h, k_p, k_n, k_h, v_p, v_n, v_h, table_r, kv_heads, page_count, places
    )
    sizes: tl.constexpr = Sizes(PAGE, KEY_TILE, D, WIDTH, D_PADDED, W_PADDED, FLOATS, PRECISION, PTX)
    sums, largest, total = _fold_pages(
        pool, request, kv_head, tokens, heads, positions, inside, first, stop,
        Scores(left, right, scale, softcap, HIDES, CAPS), sizes,
    )  # fmt: skip
    total = tl.where(given == length, total, float("nan"))
    heads_count = kv_heads * PACK
    if not JOINS:
        write_rows(
            O, Lse, Sinks, o_t, o_h, heads_count, sums, largest, total, tokens, heads, inside, WIDTH, W_PADDED, LOG2_E
        )  # fmt: skip
    else:
        columns = tl.arange(0, W_PADDED)
        tile_head = (tile * kv_heads + kv_head).to(tl.int64)
        local = tl.arange(0, ROW_TILE)
        Statistics += tile_head * splits * 2 * ROW_TILE
        Sums += tile_head * splits * ROW_TILE * WIDTH
        wanted = inside[:, None] & (columns < WIDTH)[None, :]
        tl.store(Statistics + 2 * (split * ROW_TILE + local), largest, mask=inside)
        tl.store(Statistics + 2 * (split * ROW_TILE + local) + 1, total, mask=inside)
        tl.store(Sums + (split * ROW_TILE + local)[:, None] * WIDTH + columns[None, :], sums, mask=wanted)
        tl.debug_barrier()
        if tl.atomic_add(Arrived + tile_head, 1, sem="acq_rel") == splits - 1:
            tl.store(Arrived + tile_head, 0)
            largest = tl.full([ROW_TILE], float("-inf"), tl.float32)
            sums = tl.zeros([ROW_TILE, W_PADDED], tl.float32)
            total = tl.zeros([ROW_TILE], tl.float32)
            for each in range(splits):  # one at a time: several were slower, for their registers
                written, there = each * ROW_TILE + local[None, :], inside[None, :]
                sums, largest, total = joined(sums, largest, total, Sums, Statistics, written, there, WIDTH, W_PADDED)
            write_rows(
                O, Lse, Sinks, o_t, o_h, heads_count, sums, largest, total, tokens, heads, inside,
                WIDTH, W_PADDED, LOG2_E,
            )  # fmt: skip


@triton.jit
def page_runs_kernel(
    Q, K, V, Sums, Statistics, Table, Items, Tokens, Positions, KScales, VScales,
    q_t, q_h, k_p, k_n, k_h, v_p, v_n, v_h, table_r, kv_heads, page_count, places, left, right, scale, softcap,
    ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr, PAGE: tl.constexpr, PACK: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    HIDES: tl.constexpr, CAPS: tl.constexpr, FLOATS: tl.constexpr, PRECISION: tl.constexpr, PTX: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    """Partial results of items (first of their tokens, how many, request, first key, stop key, first result)."""
    if OVERLAPS:
        gdc_wait()
        gdc_launch_dependents()
    kv_head, item = tl.program_id(0) % kv_heads, tl.program_id(0) // kv_heads
    Items += item * 6
    first_token, count, request = tl.load(Items), tl.load(Items + 1), tl.load(Items + 2)
    first, stop, slot = tl.load(Items + 3), tl.load(Items + 4), tl.load(Items + 5)
    rows = tl.arange(0, ROW_TILE)
    inside = rows < count * PACK
    tokens = tl.load(Tokens + first_token + rows // PACK, mask=inside, other=0)
    heads = kv_head * PACK + rows % PACK
    positions = rows
    if HIDES:
        positions = tl.load(Positions + tokens, mask=inside, other=0)
    pool = Pool(
        Q, K, V, Table, KScales, VScales, q_t, q_h, k_p, k_n, k_h, v_p, v_n, v_h, table_r, kv_heads, page_count, places
    )
    sizes: tl.constexpr = Sizes(PAGE, KEY_TILE, D, WIDTH, D_PADDED, W_PADDED, FLOATS, PRECISION, PTX)
    sums, largest, total = _fold_pages(
        pool, request, kv_head, tokens, heads, positions, inside, tl.multiple_of(first, PAGE), stop,
        Scores(left, right, scale, softcap, HIDES, CAPS), sizes,
    )  # fmt: skip
    columns = tl.arange(0, W_PADDED)
    at = (slot + rows // PACK).to(tl.int64) * kv_heads * PACK + heads
    tl.store(Statistics + 2 * at, largest, mask=inside)
    tl.store(Statistics + 2 * at + 1, total, mask=inside)
    tl.store(Sums + at[:, None] * WIDTH + columns[None, :], sums, mask=inside[:, None] & (columns < WIDTH)[None, :])
