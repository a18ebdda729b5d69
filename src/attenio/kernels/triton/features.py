"""Approximate attention of degree 2: a polynomial of the score for its exponential, by features that no memory sees.

    p(s) = c_0 + c_1 s + c_2 s^2,  s = q . k:   sum_j p(s_ij) V_j = c_0 N + c_1 q_i N1 + c_2 sum_a q_ia (q_i M_a)
    N = sum_j V_j,  N1 = K^T V,  M_a = sum_j k_ja K_j^T V_j;   denominator: m, D1 = sum_j K_j, D2 = K^T K

    quadratic_kernel  for each chunk, each pair A <= B of groups of 16 coordinates:  M_AB += (K_A x K_B)^T V
    linear_kernel     for each chunk:  N1, D2, N, D1
    prefix_kernel     sums of M over the chunks before each, or over all of them, weighted
    linear_prefix_kernel  the same of N1, D2, N, D1
    query_kernel      for each coordinate a:  O_i += q_ia (Q_i M_a);  causal: also p(Q_i K_j^T) V_j inside the chunk

Only one of the two orders of a pair of groups is summed. Products run on bf16 in tensor cores with sums in fp32, and
every number is given to them as the sum of two of bf16, 16 bits: rounding features to bf16 alone would cost more than
the polynomial. ``TensorCoreSums`` counts what that leaves.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

# The interpreter does not multiply numbers of bf16; as fp32 their products are the same.
_INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


@triton.jit
def dot(a, b, sums):
    """sums + a b for a and b of bf16."""
    if _INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), sums, input_precision="ieee")
    return tl.dot(a, b, sums)


@triton.jit
def halves(x):
    """fp32 as the sum of two numbers of bf16."""
    high = x.to(tl.bfloat16)
    return high, (x - high.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def store_halves(High, Low, at, x):
    """Write fp32 as the sum of two numbers of bf16."""
    high, low = halves(x)
    tl.store(High + at, high)
    tl.store(Low + at, low)


@triton.jit
def groups_of(pair, GROUPS: tl.constexpr):
    """The groups A <= B of a pair."""
    second = 0
    for g in tl.static_range(1, GROUPS):
        second += (pair >= g * (g + 1) // 2).to(tl.int32)
    return pair - second * (second + 1) // 2, second


@triton.jit
def centred(X, Centre, rows, columns, stride_n, stride_d, stop, D: tl.constexpr):
    """Rows less the centre, where there is one, in fp32; zeros outside."""
    inside = (rows < stop)[:, None] & (columns < D)[None, :]
    x = tl.load(X + rows[:, None].to(tl.int64) * stride_n + columns[None, :] * stride_d, mask=inside, other=0.0)
    x = x.to(tl.float32)
    if Centre is not None:
        middle = tl.load(Centre + columns, mask=columns < D, other=0.0)
        x = tl.where(inside, x - middle[None, :], 0.0)
    return x


@triton.jit
def product(a, b, sums, A_EXACT: tl.constexpr, B_EXACT: tl.constexpr):
    """sums + a b for a and b in two halves each; of what is exact in bf16 only the first counts."""
    a_high, a_low = a
    b_high, b_low = b
    if not B_EXACT:
        sums = dot(a_high, b_low, sums)
    if not A_EXACT:
        sums = dot(a_low, b_high, sums)
    return dot(a_high, b_high, sums)


@triton.jit
def quadratic_kernel(
    K, V, Centre, State, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, kv_heads, keys, chunks, pairs,
    CHUNK: tl.constexpr, KEY_TILE: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr, PARTS: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, W_PADDED: tl.constexpr, K_EXACT: tl.constexpr, V_EXACT: tl.constexpr,
):  # fmt: skip
    """State (heads, chunks, pairs, GROUP * GROUP, W_PADDED): (K_A x K_B)^T V of each chunk; pairs run side by side.

    A program has one of PARTS parts of the features of a pair. Rows of K_A^T are repeated by a product with zeros and
    ones: features then are in the registers where the next product wants them.
    """
    piece, rest = tl.program_id(0) % (pairs * PARTS), tl.program_id(0) // (pairs * PARTS)
    chunk, head = rest % chunks, (rest // chunks).to(tl.int64)
    pair = piece // PARTS
    size: tl.constexpr = GROUP * GROUP // PARTS
    first, second = groups_of(pair, GROUPS)
    K += head // kv_heads * k_b + head % kv_heads * k_h
    V += head // kv_heads * v_b + head % kv_heads * v_h
    if Centre is not None:
        Centre += head * D
    along, columns = tl.arange(0, GROUP), tl.arange(0, W_PADDED)
    features = piece % PARTS * size + tl.arange(0, size)
    repeat_a = (features[:, None] // GROUP == along[None, :]).to(tl.float32).to(tl.bfloat16)
    repeat_b = (features[:, None] % GROUP == along[None, :]).to(tl.float32).to(tl.bfloat16)
    stop = tl.minimum(keys, (chunk + 1) * CHUNK)
    sums = tl.zeros([size, W_PADDED], tl.float32)
    for j in range(chunk * CHUNK, stop, KEY_TILE):
        here = j + tl.arange(0, KEY_TILE)
        nothing = tl.zeros([size, KEY_TILE], tl.float32)
        a = selected(repeat_a, K, Centre, here, first * GROUP + along, k_n, k_d, stop, nothing, D, K_EXACT)
        b = selected(repeat_b, K, Centre, here, second * GROUP + along, k_n, k_d, stop, nothing, D, K_EXACT)
        v = centred(V, None, here, columns, v_n, v_d, stop, WIDTH)
        sums += product(halves(a * b), halves(v), tl.zeros([size, W_PADDED], tl.float32), False, V_EXACT)
    at = State + ((head * chunks + chunk) * pairs + pair) * (GROUP * GROUP * W_PADDED)
    tl.store(at + features[:, None] * W_PADDED + columns[None, :], sums)


@triton.jit
def selected(repeat, X, Centre, rows, columns, stride_n, stride_d, stop, nothing, D: tl.constexpr, EXACT: tl.constexpr):
    """Columns of rows, each as often as ``repeat`` says, transposed: (repeats, rows)."""
    x = tl.trans(centred(X, Centre, rows, columns, stride_n, stride_d, stop, D))
    return product((repeat, repeat), halves(x), nothing, True, EXACT)


@triton.jit
def linear_kernel(
    K, V, Centre, Products, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, kv_heads, keys, chunks,
    CHUNK: tl.constexpr, KEY_TILE: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    V_EXACT: tl.constexpr, K_EXACT: tl.constexpr,
):  # fmt: skip
    """Products (heads, chunks, D_PADDED + 1, W_PADDED + D_PADDED): K^T V beside K^T K, below them sums of V and K."""
    chunk, head = tl.program_id(0) % chunks, (tl.program_id(0) // chunks).to(tl.int64)
    K += head // kv_heads * k_b + head % kv_heads * k_h
    V += head // kv_heads * v_b + head % kv_heads * v_h
    if Centre is not None:
        Centre += head * D
    dims, columns = tl.arange(0, D_PADDED), tl.arange(0, W_PADDED)
    stop = tl.minimum(keys, (chunk + 1) * CHUNK)
    by_values = tl.zeros([D_PADDED, W_PADDED], tl.float32)
    by_keys = tl.zeros([D_PADDED, D_PADDED], tl.float32)
    of_values = tl.zeros([W_PADDED], tl.float32)
    of_keys = tl.zeros([D_PADDED], tl.float32)
    for j in range(chunk * CHUNK, stop, KEY_TILE):
        here = j + tl.arange(0, KEY_TILE)
        k = centred(K, Centre, here, dims, k_n, k_d, stop, D)
        v = centred(V, None, here, columns, v_n, v_d, stop, WIDTH)
        nothing = tl.zeros([D_PADDED, W_PADDED], tl.float32)
        by_values += product(halves(tl.trans(k)), halves(v), nothing, K_EXACT, V_EXACT)
        nothing = tl.zeros([D_PADDED, D_PADDED], tl.float32)
        by_keys += product(halves(tl.trans(k)), halves(k), nothing, K_EXACT, K_EXACT)
        of_values += tl.sum(v, 0)
        of_keys += tl.sum(k, 0)
    wide: tl.constexpr = W_PADDED + D_PADDED
    Products += (head * chunks + chunk) * (D_PADDED + 1) * wide
    tl.store(Products + dims[:, None] * wide + columns[None, :], by_values)
    tl.store(Products + dims[:, None] * wide + W_PADDED + dims[None, :], by_keys)
    tl.store(Products + D_PADDED * wide + columns, of_values)
    tl.store(Products + D_PADDED * wide + W_PADDED + dims, of_keys)


@triton.jit
def prefix_kernel(
    State, High, Low, chunks, pairs, states, weight,
    GROUP: tl.constexpr, GROUPS: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr, FEATURES: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """High + Low (heads, states, D_PADDED + 1, D_PADDED, W_PADDED): weighted M before each chunk, or after the last.

    Of two groups in one half of the coordinates the query's product reads both orders: the other one is zero.
    """
    size: tl.constexpr = GROUP * GROUP
    tiles: tl.constexpr = size // FEATURES
    tile, rest = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    pair, head = rest % pairs, (rest // pairs).to(tl.int64)
    first, second = groups_of(pair, GROUPS)
    factor = tl.where(first == second, weight, 2 * weight)
    columns, features = tl.arange(0, W_PADDED), tile * FEATURES + tl.arange(0, FEATURES)
    From = State + ((head * chunks * pairs + pair) * size + features[:, None]) * W_PADDED + columns[None, :]
    whole: tl.constexpr = (D_PADDED + 1) * W_PADDED * D_PADDED
    a, b = first * GROUP + features // GROUP, second * GROUP + features % GROUP
    to = head * states * whole + (a * D_PADDED + b)[:, None] * W_PADDED + columns[None, :]
    a, b = second * GROUP + features // GROUP, first * GROUP + features % GROUP
    other = head * states * whole + (a * D_PADDED + b)[:, None] * W_PADDED + columns[None, :]
    half: tl.constexpr = GROUPS // 2
    mirrored = (first != second) & (first // half == second // half)
    nothing = tl.zeros([FEATURES, W_PADDED], tl.bfloat16)
    sums = tl.zeros([FEATURES, W_PADDED], tl.float32)
    for _ in range(chunks):
        if CAUSAL:
            store_halves(High, Low, to, sums * factor)
            if mirrored:
                tl.store(High + other, nothing)
                tl.store(Low + other, nothing)
            High += whole
            Low += whole
        sums += tl.load(From)
        From += pairs * size * W_PADDED
    store_halves(High, Low, to, sums * factor)
    if mirrored:
        tl.store(High + other, nothing)
        tl.store(Low + other, nothing)


@triton.jit
def linear_prefix_kernel(
    Products, High, Low, KeysHigh, KeysLow, Sums, chunks, states, c0, c1, c2,
    D_PADDED: tl.constexpr, W_PADDED: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The last matrix of High + Low, KeysHigh + KeysLow and Sums: weighted N1, D2, N and D1, a row for each program."""
    row, head = tl.program_id(0) % (D_PADDED + 1), (tl.program_id(0) // (D_PADDED + 1)).to(tl.int64)
    dims, columns = tl.arange(0, D_PADDED), tl.arange(0, W_PADDED)
    wide: tl.constexpr = W_PADDED + D_PADDED
    whole: tl.constexpr = (D_PADDED + 1) * W_PADDED * D_PADDED
    Products += (head * chunks * (D_PADDED + 1) + row) * wide
    to = head * states * whole + (D_PADDED * D_PADDED + row) * W_PADDED + columns
    to_keys = (head * states * D_PADDED + row) * D_PADDED + dims
    Sums += head * states * wide
    of_values, of_keys = tl.zeros([W_PADDED], tl.float32), tl.zeros([D_PADDED], tl.float32)
    for step in range(chunks + 1):
        if CAUSAL or step == chunks:
            if row < D_PADDED:
                store_halves(High, Low, to, of_values * c1)
                store_halves(KeysHigh, KeysLow, to_keys, of_keys * c2)
            else:
                tl.store(Sums + columns, of_values * c0)
                tl.store(Sums + W_PADDED + dims, of_keys * c1)
            to += whole
            to_keys += D_PADDED * D_PADDED
            Sums += wide
        if step < chunks:
            of_values += tl.load(Products + columns)
            of_keys += tl.load(Products + W_PADDED + dims)
            Products += (D_PADDED + 1) * wide


@triton.jit
def by_state(q, High, Low, sums, Q_EXACT: tl.constexpr):
    """sums + q (High + Low)."""
    return product(q, (tl.load(High), tl.load(Low)), sums, Q_EXACT, False)


@triton.jit
def query_kernel(
    Q, K, V, Centre, O, Below, High, Low, KeysHigh, KeysLow, Sums,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n,
    kv_heads, group, queries, keys, states, c0, c1, c2,
    CHUNK: tl.constexpr, ROW_TILE: tl.constexpr, KEY_TILE: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, D_PADDED: tl.constexpr, W_PADDED: tl.constexpr,
    Q_EXACT: tl.constexpr, K_EXACT: tl.constexpr, V_EXACT: tl.constexpr, QUADRATIC: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """O and its denominators, ROW_TILE queries of one head at a time; c1 and c2 hold the scale."""
    tiles = tl.cdiv(queries, ROW_TILE)
    tile, head = tiles - 1 - tl.program_id(0) % tiles, tl.program_id(0) // tiles
    heads = kv_heads * group
    batch, kv_head = (head // heads).to(tl.int64), (head % heads // group).to(tl.int64)
    Q += batch * q_b + (head % heads).to(tl.int64) * q_h
    rows = tile * ROW_TILE + tl.arange(0, ROW_TILE)
    dims, columns = tl.arange(0, D_PADDED), tl.arange(0, W_PADDED)
    half: tl.constexpr = D_PADDED // 2
    later = half + tl.arange(0, half)
    q = centred(Q, None, rows, dims, q_n, q_d, queries, D)
    q_halves = halves(q)
    state = tile * ROW_TILE // CHUNK if CAUSAL else 0
    seen = state * CHUNK if CAUSAL else keys  # keys that the state stands for
    place = (batch * kv_heads + kv_head) * states + state
    whole: tl.constexpr = (D_PADDED + 1) * W_PADDED * D_PADDED
    High += place * whole
    Low += place * whole
    KeysHigh += place * D_PADDED * D_PADDED
    KeysLow += place * D_PADDED * D_PADDED
    Sums += place * (W_PADDED + D_PADDED)
    inside = rows < queries
    sums = tl.zeros([ROW_TILE, W_PADDED], tl.float32)
    total = tl.zeros([ROW_TILE], tl.float32)
    nothing = tl.zeros([ROW_TILE, W_PADDED], tl.float32)
    if (not CAUSAL) or state > 0:
        key_sums = tl.load(Sums + W_PADDED + dims)[None, :]
        if QUADRATIC:
            for a in range(half):
                at = a * (W_PADDED * D_PADDED) + dims[:, None] * W_PADDED + columns[None, :]
                part = by_state(q_halves, High + at, Low + at, nothing, Q_EXACT)
                factor = tl.load(Q + rows.to(tl.int64) * q_n + a * q_d, mask=inside & (a < D), other=0.0)
                sums += factor.to(tl.float32)[:, None] * part
            later_halves = halves(centred(Q, None, rows, later, q_n, q_d, queries, D))
            for a in range(half, D):
                at = a * (W_PADDED * D_PADDED) + later[:, None] * W_PADDED + columns[None, :]
                part = by_state(later_halves, High + at, Low + at, nothing, Q_EXACT)
                factor = tl.load(Q + rows.to(tl.int64) * q_n + a * q_d, mask=inside, other=0.0)
                sums += factor.to(tl.float32)[:, None] * part
            at = dims[:, None] * D_PADDED + dims[None, :]
            wide = tl.zeros([ROW_TILE, D_PADDED], tl.float32)
            key_sums += by_state(q_halves, KeysHigh + at, KeysLow + at, wide, Q_EXACT)
        at = D_PADDED * (W_PADDED * D_PADDED) + dims[:, None] * W_PADDED + columns[None, :]
        sums = by_state(q_halves, High + at, Low + at, sums, Q_EXACT) + tl.load(Sums + columns)[None, :]
        total += c0 * seen + tl.sum(q * key_sums, 1)
    if CAUSAL:
        K += batch * k_b + kv_head * k_h
        V += batch * v_b + kv_head * v_h
        if Centre is not None:
            Centre += (batch * kv_heads + kv_head) * D
        stop = tl.minimum((tile + 1) * ROW_TILE, keys)
        for j in range(seen, stop, KEY_TILE):
            here = j + tl.arange(0, KEY_TILE)
            k = tl.trans(centred(K, Centre, here, dims, k_n, k_d, stop, D))
            scores = product(q_halves, halves(k), tl.zeros([ROW_TILE, KEY_TILE], tl.float32), Q_EXACT, K_EXACT)
            weights = (scores * c2 + c1) * scores + c0
            weights = tl.where(here[None, :] <= rows[:, None], weights, 0.0)
            total += tl.sum(weights, 1)
            v = centred(V, None, here, columns, v_n, v_d, stop, WIDTH)
            sums += product(halves(weights), halves(v), nothing, False, V_EXACT)
    sums = sums / tl.where(inside, total, 1.0)[:, None]
    O += batch * o_b + (head % heads).to(tl.int64) * o_h
    at = O + rows[:, None].to(tl.int64) * o_n + columns[None, :]
    tl.store(at, sums.to(O.dtype.element_ty), mask=inside[:, None] & (columns < WIDTH)[None, :])
    tl.store(Below + head.to(tl.int64) * queries + rows, total, mask=inside)
