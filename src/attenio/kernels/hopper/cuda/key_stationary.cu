// The dataflow `key_stationary` on Hopper in CUDA C++, for heads up to 64 wide that meet few rows: blocks follow each other
// in a program, so that keys of the next are loaded and its products begin while gradients of one are written.
//
//   for each (batch x KV head, tile of 128 keys) of the program, one after the other:
//       producer:    load K and V; for each tile of rows that sees them: load Q_i, dO_i, lse_i and delta_i
//       consumer g:  keys 64 g .. 64 g + 63 of the tile; P and dP of the first rows are computed, then for each tile i
//           issue S^T = K_g Q_{i+1}^T;  dS^T = P^T (dP^T - delta), shared, by halves;  issue dV_g += P^T dO_i and
//           dK_g += dS^T Q_i;  issue dP^T = V_g dO_{i+1}^T;  P^T = exp2(S^T - lse) of the next rows
//       dQ warpgroup: dQ_i = dS K; add it to the accumulators in memory, out of registers
//
// Shared memory is what these products wait for: an instruction of 64 x 64 x 16 with both operands there reads as much as
// it has in the time of the product. So V is held in registers (measured: 12 to 19 percent faster; K instead of it 5 to 10,
// and there is no room for both), and dQ does not pass through shared memory.
//
// The constant MASKED and the products are written in front of this text by `source.py`.

constexpr int D = 64, ROWS = 64, KEYS = 128, OWN_KEYS = 64, CONSUMERS = 2;
constexpr int STAGES = 4, SLOTS = 4, K_BUFFERS = 2;
// Registers of a thread: 128 at the start, of four warpgroups.
constexpr int REGISTERS = 208, DQ_REGISTERS = 72, PRODUCER_REGISTERS = 24;
constexpr int DQ_WARPGROUP = CONSUMERS, PRODUCER = CONSUMERS + 1;
// P is held times 2 to this, in fp16, which has three bits more than bf16 and is subnormal below 2^-14.
constexpr float SHIFT = 14.0f, SHIFTED_BACK = 1.0f / 16384.0f;
constexpr int APART = 16;             // how many row tiles apart blocks begin that add to the same rows of dQ
constexpr int ROW_BYTES = ROWS * D * 2, KEY_BYTES = KEYS * D * 2, DS_BYTES = OWN_KEYS * ROWS * 2;
constexpr int Q_AT = 0, DO_AT = Q_AT + STAGES * ROW_BYTES, K_AT = DO_AT + STAGES * ROW_BYTES;
constexpr int V_AT = K_AT + K_BUFFERS * KEY_BYTES, DS_AT = V_AT + KEY_BYTES;
constexpr int LSE_AT = DS_AT + SLOTS * CONSUMERS * DS_BYTES, DELTA_AT = LSE_AT + STAGES * ROWS * 4;
constexpr int BARRIERS_AT = DELTA_AT + STAGES * ROWS * 4;
// Barriers: Q with lse, dO with delta, and both free, of every stage; keys and values full and free; dS full and free.
constexpr int Q_FULL = BARRIERS_AT, DO_FULL = Q_FULL + 8 * STAGES, ROWS_FREE = DO_FULL + 8 * STAGES;
constexpr int K_FULL = ROWS_FREE + 8 * STAGES, K_FREE = K_FULL + 8 * K_BUFFERS, V_FULL = K_FREE + 8 * K_BUFFERS;
constexpr int V_FREE = V_FULL + 8, DS_FULL = V_FREE + 8, DS_FREE = DS_FULL + 8 * SLOTS;

struct Work {
    float *QueryGradients;  // accumulators
    void *KeyGradients, *ValueGradients;
    const float *Lse, *Delta;
    int places, pairs, first_head, together, kv_heads, group_parts, group, queries, keys, above, padded, width, v_width;
    float scale_log2, scale;
};

// A tile of keys of a batch x KV head, and the row tiles that see one of them: `first_row`, so many, begun at `offset`.
struct Block {
    int batch_head, tile, first_row, tiles, offset;
    __device__ __forceinline__ int row(int step) const {
        int place = step + offset;
        if (place >= tiles) place -= tiles;
        return first_row + place * ROWS;
    }
};

// The blocks of a program, one after the other. They count through so many heads `together`: the first tiles of all of
// them, then the second ones. In `pairs` the first tile of a head comes with the last, the second with the one before
// it: of causal heads all pairs take as long, and each program has as many.
struct Blocks {
    int index, of_pair;
    __device__ __forceinline__ explicit Blocks(int first) : index(first), of_pair(0) {}
    __device__ __forceinline__ void advance(const Work &work) {
        of_pair ^= work.pairs;
        if (!of_pair) index += gridDim.x;
    }
    __device__ __forceinline__ bool is_there(const Work &work) const { return index < work.places; }
};

__device__ __forceinline__ Block block_of(const Blocks &at, const Work &work) {
    const int tiles = (work.keys + KEYS - 1) / KEYS, places = work.pairs ? (tiles + 1) / 2 : tiles;
    const int before = at.index / (work.together * places) * work.together;
    const int heads = max(min(work.together, work.places / places - before), 1);
    const int place = at.index - before * places, of_head = place / heads;
    const int batch_head = work.first_head + before + place % heads, tile = at.of_pair ? tiles - 1 - of_head : of_head;
    // Later rows see it all; there is a tile of rows also for keys that none sees.
    const int first = MASKED ? min(max(tile * KEYS - work.above, 0), work.queries - 1) / ROWS * ROWS : 0;
    const int count = (work.queries - first + ROWS - 1) / ROWS;
    return {batch_head, tile, first, count, MASKED ? 0 : tile % APART < count ? tile % APART : 0};
}

// The tile in the middle of a head has no other beside it.
__device__ __forceinline__ bool is_double(const Blocks &at, const Block &block, const Work &work) {
    return at.of_pair && 2 * block.tile + 1 == (work.keys + KEYS - 1) / KEYS;
}

__device__ __forceinline__ void load_numbers(u32 target, const float *source, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
                 "l"(source), "n"(ROWS * 4), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void produce(u32 shared, const TensorMap *q, const TensorMap *k, const TensorMap *v,
                                        const TensorMap *d_o, const Work &work) {
    u32 tile = 0;
    Ring<K_BUFFERS> keys;
    u32 v_phase = 0;
    for (Blocks at(blockIdx.x); at.is_there(work); at.advance(work)) {
        const Block block = block_of(at, work);
        if (is_double(at, block, work)) continue;
        const int batch = block.batch_head / work.kv_heads, kv_head = block.batch_head % work.kv_heads;
        const int key = block.tile * KEYS, own = kv_head / work.group_parts;
        barrier_wait(shared + K_FREE + 8 * keys.stage, keys.phase ^ 1);
        barrier_expect(shared + K_FULL + 8 * keys.stage, KEY_BYTES);
        load_panel(shared + K_AT + keys.stage * KEY_BYTES, k, shared + K_FULL + 8 * keys.stage, 0, key, own, batch);
        keys.advance();
        barrier_wait(shared + V_FREE, v_phase ^ 1);
        v_phase ^= 1;
        barrier_expect(shared + V_FULL, KEY_BYTES);
        load_panel(shared + V_AT, v, shared + V_FULL, 0, key, own, batch);
        for (int head = 0; head < work.group; head++) {
            const int of_queries = kv_head * work.group + head;
            const long long numbers = static_cast<long long>(block.batch_head * work.group + head) * work.padded;
#pragma unroll 1
            for (int step = 0; step < block.tiles; step++) {
                const int row = block.row(step), stage = tile % STAGES;
                const u32 q_full = shared + Q_FULL + 8 * stage, do_full = shared + DO_FULL + 8 * stage;
                barrier_wait(shared + ROWS_FREE + 8 * stage, tile / STAGES & 1 ^ 1);
                barrier_expect(q_full, ROW_BYTES + ROWS * 4);
                load_panel(shared + Q_AT + stage * ROW_BYTES, q, q_full, 0, row, of_queries, batch);
                load_numbers(shared + LSE_AT + stage * ROWS * 4, work.Lse + numbers + row, q_full);
                barrier_expect(do_full, ROW_BYTES + ROWS * 4);
                load_panel(shared + DO_AT + stage * ROW_BYTES, d_o, do_full, 0, row, of_queries, batch);
                load_numbers(shared + DELTA_AT + stage * ROWS * 4, work.Delta + numbers + row, do_full);
                tile++;
            }
        }
    }
}

// Rows of 128 bytes, swizzled; products take them by rows or by columns.
__device__ __forceinline__ u64 matrix_at(u32 address) { return descriptor(address, 0, 8 * 128, 128); }

// dQ of what the consumers share, added to the accumulators: 16 bytes of a thread side by side, as registers hold them.
__device__ __forceinline__ void add_query_gradients(u32 memory, const Work &work) {
    const u32 shared = memory;
    const int thread = threadIdx.x % WARPGROUP;
    const bool arrives = threadIdx.x % 32 == 0;
    u32 tile = 0;
    Ring<K_BUFFERS> keys;
    for (Blocks at(blockIdx.x); at.is_there(work); at.advance(work)) {
        const Block block = block_of(at, work);
        if (is_double(at, block, work)) continue;
        barrier_wait(shared + K_FULL + 8 * keys.stage, keys.phase);
        for (int head = 0; head < work.group; head++) {
            const int of_launch = (block.batch_head - work.first_head) * work.group + head;
            for (int step = 0; step < block.tiles; step++) {
                float *to = work.QueryGradients + (static_cast<long long>(of_launch) * work.padded + block.row(step)) * D +
                            thread * 4;
                barrier_wait(shared + DS_FULL + 8 * (tile % SLOTS), tile / SLOTS & 1);
                u32 shared = recomputed(memory);
                const u64 k = matrix_at(shared + K_AT + keys.stage * KEY_BYTES);
                const u64 ds = matrix_at(shared + DS_AT + tile % SLOTS * CONSUMERS * DS_BYTES);
                float dq[D / 2] = {};
                products_fence();
                first_query_product(dq, ds, k);
#pragma unroll
                for (int key = 16; key < KEYS; key += 16)
                    query_product(dq, ds + (key * ROWS * 2 >> 4), k + (key * D * 2 >> 4));
                products_commit();
                products_wait<0>(dq);
                if (arrives) barrier_arrive(shared + DS_FREE + 8 * (tile % SLOTS));
#pragma unroll
                for (int i = 0; i < D / 8; i++)
                    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + i * 4 * WARPGROUP),
                                 "f"(dq[4 * i]), "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                                 : "memory");
                tile++;
            }
        }
        if (arrives) barrier_arrive(shared + K_FREE + 8 * keys.stage);
        keys.advance();
    }
}

// 64 rows of a matrix, as wgmma takes them out of registers.
__device__ __forceinline__ void load_fragments(u32 (&to)[D / 4], u32 from) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % WARPGROUP / 32 * 16 + lane % 16;
#pragma unroll
    for (int step = 0; step < D / 16; step++) {
        const u32 at = from + row * D * 2 + ((2 * step + lane / 16) ^ row % 8) * 16;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[4 * step]), "=r"(to[4 * step + 1]), "=r"(to[4 * step + 2]), "=r"(to[4 * step + 3])
                     : "r"(at)
                     : "memory");
    }
}

// Issue dV += P^T dO, or dK += dS^T Q, over one half of the rows.
__device__ __forceinline__ void issue_gradient(float (&to)[D / 2], const u32 (&of)[ROWS / 4], u64 rows, int half) {
#pragma unroll
    for (int step = half * ROWS / 32; step < (half + 1) * ROWS / 32; step++)
        gradient_product(to, of[4 * step], of[4 * step + 1], of[4 * step + 2], of[4 * step + 3],
                         rows + (step * 16 * D * 2 >> 4));
}

__device__ __forceinline__ float2 numbers_at(u32 address) {
    float2 both;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(both.x), "=f"(both.y) : "r"(address) : "memory");
    return both;
}

// A consumer's place in its block.
struct Place {
    int first_key;  // the first of this thread's two
    u32 shared;
    bool arrives;
};

// P of scores of a tile of rows, times 2^SHIFT, in fp16.
template <bool MASKS>
__device__ __forceinline__ void find_weights(float (&s)[ROWS / 2], u32 (&p)[ROWS / 4], int row, int stage,
                                             const Place &place, const Work &work) {
    const int lane = threadIdx.x % 4 * 2;
    int first[2];  // of the rows that see each of the two keys
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const int key = place.first_key + 8 * of;
        first[of] = key < work.keys ? key - work.above - row - lane : 1 << 30;
    }
    const u32 lse_at = place.shared + LSE_AT + (stage * ROWS + lane) * 4;
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++) {
        const float2 lse = numbers_at(lse_at + 32 * j);
        const float back[2] = {SHIFT - lse.x, SHIFT - lse.y};
#pragma unroll
        for (int of = 0; of < 2; of++) {
            float weights[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float score = s[4 * j + 2 * of + e];
                const int at = 8 * j + e;
                if (MASKS && at < first[of]) score = -INFINITY_F;
                weights[e] = exp2_of(fmaf(score, work.scale_log2, back[e]));
            }
            p[2 * j + of] = saturated_fp16(weights[0], weights[1]);
        }
    }
}

// dS of half of a tile of rows, shared with the warpgroup that computes dQ; P becomes what dV takes.
__device__ __forceinline__ void share_ds(const float (&dp)[ROWS / 2], u32 (&p)[ROWS / 4], u32 (&ds)[ROWS / 4], int stage,
                                         u32 shared, u32 slot, int half) {
    const int lane = threadIdx.x % 32, key = threadIdx.x % WARPGROUP / 32 * 16 + lane % 16;
    const u32 delta_at = shared + DELTA_AT + (stage * ROWS + lane % 4 * 2) * 4;
#pragma unroll
    for (int j = half * ROWS / 16; j < (half + 1) * ROWS / 16; j++) {
        const float2 delta = numbers_at(delta_at + 32 * j);
        const float back[2] = {-SHIFTED_BACK * delta.x, -SHIFTED_BACK * delta.y};
#pragma unroll
        for (int of = 0; of < 2; of++) {
            float weights[2];
            of_fp16(p[2 * j + of], weights[0], weights[1]);
            ds[2 * j + of] = packed(weights[0] * fmaf(dp[4 * j + 2 * of], SHIFTED_BACK, back[0]),
                                    weights[1] * fmaf(dp[4 * j + 2 * of + 1], SHIFTED_BACK, back[1]));
            p[2 * j + of] = packed(weights[0], weights[1]);
        }
        if (j % 2) {
            const u32 at = slot + key * ROWS * 2 + ((j - 1 + lane / 16) ^ key % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(ds[2 * j - 2]),
                         "r"(ds[2 * j - 1]), "r"(ds[2 * j]), "r"(ds[2 * j + 1])
                         : "memory");
        }
    }
}

// Write 64 rows of a gradient: four threads have 32 columns of a row between them, and exchange them for 8 neighbours.
__device__ __forceinline__ void write_gradient(const float (&of)[D / 2], float scale, u16 *to, int first_key, int keys,
                                               int width) {
    const int lane = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int at = first_key + 8 * half;
        u16 *row = to + static_cast<long long>(at) * width;
#pragma unroll
        for (int chunk = 0; chunk < D / 8; chunk += 4) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int first = (chunk + i) * 4 + 2 * half;
                words[i] = packed(of[first] * scale, of[first + 1] * scale);
            }
            exchange(words, lane);
            const int column = (chunk + lane) * 8;
            if (at < keys && column < width)
                *reinterpret_cast<uint4 *>(row + column) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

struct Gradients {
    float dk[D / 2], dv[D / 2];
};

// What a consumer has of its keys, and of the tile of rows that it is at.
struct Tile {
    float s[ROWS / 2], dp[ROWS / 2];
    u32 p[ROWS / 4], ds[ROWS / 4], v[D / 4];
    u32 k_at;    // in shared memory
    u32 number;  // of the tile of rows, which says its stage and slot
};

__device__ __forceinline__ void issue_scores(Tile &tile, u32 shared, int stage) {
    const u64 k = matrix_at(recomputed(tile.k_at)), q = matrix_at(shared + Q_AT + stage * ROW_BYTES);
    products_fence();
    first_scores_product(tile.s, k, q);
#pragma unroll
    for (int step = 1; step < D / 16; step++)
        scores_product(tile.s, k + columns_at<KEYS, D>(step), q + columns_at<ROWS, D>(step));
}

__device__ __forceinline__ void issue_dp(Tile &tile, u32 shared, int stage) {
    const u64 d_o = matrix_at(shared + DO_AT + stage * ROW_BYTES);
    products_fence();
    first_dp_product(tile.dp, tile.v[0], tile.v[1], tile.v[2], tile.v[3], d_o);
#pragma unroll
    for (int step = 1; step < D / 16; step++)
        dp_product(tile.dp, tile.v[4 * step], tile.v[4 * step + 1], tile.v[4 * step + 2], tile.v[4 * step + 3],
                   d_o + columns_at<ROWS, D>(step));
}

// Share dS of a tile of rows whose P and dP are there, and issue dV and half of dK.
template <int ME>
__device__ __forceinline__ void add_values(Tile &tile, Gradients &sums, const Place &place) {
    const u32 shared = recomputed(place.shared), stage = tile.number % STAGES, slot = tile.number % SLOTS;
    const u32 ds_at = shared + DS_AT + (slot * CONSUMERS + ME) * DS_BYTES;
    const u64 q = matrix_at(shared + Q_AT + stage * ROW_BYTES), d_o = matrix_at(shared + DO_AT + stage * ROW_BYTES);
    barrier_wait(shared + DS_FREE + 8 * slot, tile.number / SLOTS & 1 ^ 1);
    share_ds(tile.dp, tile.p, tile.ds, stage, shared, ds_at, 0);
    products_fence();
    issue_gradient(sums.dv, tile.p, d_o, 0);
    issue_gradient(sums.dk, tile.ds, q, 0);
    products_commit();
    share_ds(tile.dp, tile.p, tile.ds, stage, shared, ds_at, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (place.arrives) barrier_arrive(shared + DS_FULL + 8 * slot);
    products_fence();
    issue_gradient(sums.dv, tile.p, d_o, 1);
    products_commit();
}

__device__ __forceinline__ void issue_rest_of_keys(Tile &tile, Gradients &sums, u32 shared) {
    products_fence();
    issue_gradient(sums.dk, tile.ds, matrix_at(shared + Q_AT + tile.number % STAGES * ROW_BYTES), 1);
}

// Add a tile of rows to the gradients, and compute P and dP of the next one, whose first row is `row`.
template <int ME, bool MASKS>
__device__ __forceinline__ void row_step(Tile &tile, Gradients &sums, int row, const Place &place, const Work &work) {
    const u32 shared = recomputed(place.shared);
    const u32 next = (tile.number + 1) % STAGES, phase = (tile.number + 1) / STAGES & 1;
    barrier_wait(shared + Q_FULL + 8 * next, phase);
    issue_scores(tile, shared, next);
    products_commit();
    add_values<ME>(tile, sums, place);
    issue_rest_of_keys(tile, sums, shared);
    barrier_wait(shared + DO_FULL + 8 * next, phase);
    issue_dp(tile, shared, next);
    products_commit();
    products_wait<1>(tile.s);
    held(sums.dv);
    held(tile.p);
    find_weights<MASKS>(tile.s, tile.p, row, next, place, work);
    products_wait<0>(sums.dk);
    held(tile.dp);
    held(tile.ds);
    if (place.arrives) barrier_arrive(shared + ROWS_FREE + 8 * (tile.number % STAGES));
    tile.number++;
}

// All tiles of rows of a block.
template <int ME>
__device__ __forceinline__ void add_rows(Tile &tile, Gradients &sums, const Block &block, int own_key, const Place &place,
                                         const Work &work) {
    const u32 shared = place.shared;
    int masked = 0;  // row tiles that not all of these keys are seen by, which come first
    if (MASKED) {
        const int first = own_key + OWN_KEYS <= work.keys ? own_key + OWN_KEYS - 1 - work.above : 1 << 29;
        masked = min(max((first - block.first_row + ROWS - 1) / ROWS, 0), block.tiles);
    }
    const u32 stage = tile.number % STAGES, phase = tile.number / STAGES & 1;
    barrier_wait(shared + Q_FULL + 8 * stage, phase);
    issue_scores(tile, shared, stage);
    products_commit();
    barrier_wait(shared + DO_FULL + 8 * stage, phase);
    issue_dp(tile, shared, stage);
    products_commit();
    products_wait<1>(tile.s);
    find_weights<MASKED>(tile.s, tile.p, block.row(0), stage, place, work);
    products_wait<0>(tile.dp);
    for (int head = 0; head < work.group; head++) {
        int step = head == 0;
        if (MASKED) {
            for (; step < masked; step++) row_step<ME, true>(tile, sums, block.row(step), place, work);
        }
        for (; step < block.tiles; step++) row_step<ME, false>(tile, sums, block.row(step), place, work);
    }
    add_values<ME>(tile, sums, place);
    issue_rest_of_keys(tile, sums, shared);
    products_commit();
    products_wait<0>(sums.dk);
    held(sums.dv);
    held(tile.ds);
    held(tile.p);
    if (place.arrives) barrier_arrive(shared + ROWS_FREE + 8 * (tile.number % STAGES));
    tile.number++;
}

template <int ME>
__device__ __forceinline__ void consume(u32 shared, const Work &work) {
    const int lane = threadIdx.x % 32;
    Place place = {0, shared, lane == 0};
    Ring<K_BUFFERS> keys;
    u32 v_phase = 0;
    Tile tile;
    tile.number = 0;
    Gradients sums;
    for (Blocks at(blockIdx.x); at.is_there(work); at.advance(work)) {
        const Block block = block_of(at, work);
        if (is_double(at, block, work)) continue;
        const int own_key = block.tile * KEYS + ME * OWN_KEYS;
        place.first_key = own_key + threadIdx.x % WARPGROUP / 32 * 16 + lane / 4;
        tile.k_at = shared + K_AT + keys.stage * KEY_BYTES + ME * OWN_KEYS * D * 2;
#pragma unroll
        for (int i = 0; i < D / 2; i++) sums.dk[i] = sums.dv[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++) tile.s[i] = tile.dp[i] = 0.0f;
        barrier_wait(shared + K_FULL + 8 * keys.stage, keys.phase);
        barrier_wait(shared + V_FULL, v_phase);
        v_phase ^= 1;
        load_fragments(tile.v, shared + V_AT + ME * OWN_KEYS * D * 2);
        if (place.arrives) barrier_arrive(shared + V_FREE);
        add_rows<ME>(tile, sums, block, own_key, place, work);
        if (place.arrives) barrier_arrive(shared + K_FREE + 8 * keys.stage);
        keys.advance();
        const long long first = static_cast<long long>(block.batch_head) * work.keys;
        write_gradient(sums.dv, SHIFTED_BACK, static_cast<u16 *>(work.ValueGradients) + first * work.v_width,
                       place.first_key, work.keys, work.v_width);
        write_gradient(sums.dk, work.scale, static_cast<u16 *>(work.KeyGradients) + first * work.width, place.first_key,
                       work.keys, work.width);
    }
}

extern "C" __global__ void __launch_bounds__((CONSUMERS + 2) * WARPGROUP, 1)
key_stationary_kernel(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                      const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap d_o,
                      const __grid_constant__ Work work) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const u32 shared = shared_address(memory);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(shared + Q_FULL + 8 * stage, 1);
            barrier_init(shared + DO_FULL + 8 * stage, 1);
            barrier_init(shared + ROWS_FREE + 8 * stage, 4 * CONSUMERS);
        }
        for (int buffer = 0; buffer < K_BUFFERS; buffer++) {
            barrier_init(shared + K_FULL + 8 * buffer, 1);
            barrier_init(shared + K_FREE + 8 * buffer, 4 * CONSUMERS + 4);
        }
        barrier_init(shared + V_FULL, 1);
        barrier_init(shared + V_FREE, 4 * CONSUMERS);
        for (int slot = 0; slot < SLOTS; slot++) {
            barrier_init(shared + DS_FULL + 8 * slot, 4 * CONSUMERS);
            barrier_init(shared + DS_FREE + 8 * slot, 4);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0);  // the same in all threads of a warp
    if (warpgroup == PRODUCER) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (threadIdx.x % WARPGROUP == 0) produce(shared, &q, &k, &v, &d_o, work);
    } else if (warpgroup == DQ_WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(DQ_REGISTERS));
        add_query_gradients(shared, work);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
        if (warpgroup == 0)
            consume<0>(shared, work);
        else
            consume<1>(shared, work);
    }
}
