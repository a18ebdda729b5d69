// The dataflow `key_stationary` on Hopper in CUDA C++, for heads up to 96 wide: blocks follow each other in a program, so
// that keys of the next are loaded and its products begin while gradients of one are written. A program that is done
// with a block takes the next of the launch, the longest first.
//
//   for each (batch x KV head, tile of 128 keys) that the program takes:
//       producer:    load K and V; for each tile of rows that sees them: load Q_i, dO_i, lse_i and delta_i
//       consumer g:  keys 64 g .. 64 g + 63 of the tile; P and dP of the first rows are computed, then for each tile i
//           dS^T = P^T (dP^T - delta), shared, by halves;  issue dV_g += P^T dO_i and dK_g += dS^T Q_i;  issue
//           S^T = K_g Q_{i+1}^T and dP^T = V_g dO_{i+1}^T;  P^T = exp2(S^T - lse) of the next rows
//       dQ warpgroup: dQ_i = dS K; TMA adds it to the accumulators in memory
//
// Shared memory is what these products wait for: an instruction of 64 x 64 x 16 with both operands there reads as much as
// it has in the time of the product. So V of 64 columns is held in registers (measured: 12 to 19 percent faster; K
// instead of it 5 to 10, and there is no room for both), dQ is one product of all columns, which reads dS once, and a
// thread reads lse and delta of its rows four at a time. With 64 columns there are also registers for S of the next rows
// beside dP of these, and S is issued before dS is computed; with 96 S comes after, into the registers of dP.
//
// The constants D and MASKED and the products are written in front of this text by `source.py`.

constexpr int ROWS = 64, KEYS = 128, OWN_KEYS = 64, CONSUMERS = 2;
constexpr int STAGES = 4, SLOTS = D == 64 ? 4 : 2, K_BUFFERS = 2, STAGED = D == 64 ? 2 : 1;
constexpr int PANEL = panel(D), PANELS = D / PANEL;
// Whether registers hold V, and S of the next rows beside dP of these.
constexpr bool HOLDS_V = D == 64, HOLDS_BOTH = D == 64;
// Registers of a thread: 128 at the start, of four warpgroups.
constexpr int REGISTERS = D == 64 ? 208 : 200, DQ_REGISTERS = D == 64 ? 64 : 80, PRODUCER_REGISTERS = 32;
constexpr int DQ_WARPGROUP = CONSUMERS, PRODUCER = CONSUMERS + 1, DQ_BARRIER = 1;
// P is held times 2 to this, in fp16, which has three bits more than bf16 and is subnormal below 2^-14.
constexpr float SHIFT = 14.0f, SHIFTED_BACK = 1.0f / 16384.0f;
constexpr int APART = 16;             // how many row tiles apart blocks begin that add to the same rows of dQ
constexpr int ROW_BYTES = ROWS * D * 2, KEY_BYTES = KEYS * D * 2;
constexpr int DS_BYTES = OWN_KEYS * ROWS * 2, DQ_BYTES = ROWS * D * 4;
constexpr int Q_AT = 0, DO_AT = Q_AT + STAGES * ROW_BYTES, K_AT = DO_AT + STAGES * ROW_BYTES;
constexpr int V_AT = K_AT + K_BUFFERS * KEY_BYTES, DS_AT = V_AT + KEY_BYTES;
constexpr int DQ_AT = DS_AT + SLOTS * CONSUMERS * DS_BYTES, LSE_AT = DQ_AT + STAGED * DQ_BYTES;
constexpr int DELTA_AT = LSE_AT + STAGES * ROWS * 4, INDEX_AT = DELTA_AT + STAGES * ROWS * 4;
constexpr int BARRIERS_AT = INDEX_AT + 4 * K_BUFFERS;
// The number of the block of each buffer of keys. Barriers: Q with lse, dO with delta, and both free, of every stage; keys and values full and free; dS full and free.
constexpr int Q_FULL = BARRIERS_AT, DO_FULL = Q_FULL + 8 * STAGES, ROWS_FREE = DO_FULL + 8 * STAGES;
constexpr int K_FULL = ROWS_FREE + 8 * STAGES, K_FREE = K_FULL + 8 * K_BUFFERS, V_FULL = K_FREE + 8 * K_BUFFERS;
constexpr int V_FREE = V_FULL + 8, DS_FULL = V_FREE + 8, DS_FREE = DS_FULL + 8 * SLOTS;

struct Work {
    float *QueryGradients;  // accumulators
    void *KeyGradients, *ValueGradients;
    const float *Lse, *Delta;
    unsigned int *Counters;  // blocks that are begun besides the first of each program, and programs that are done
    int blocks, programs, first_head, together, kv_heads, group_parts, group;
    int queries, keys, above, padded, width, v_width;
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

// Blocks count through so many heads `together`: the first tiles of all of them, then the second ones. Of causal heads
// the first tiles are the longest.
__device__ __forceinline__ Block block_of(int index, const Work &work) {
    const int tiles = (recomputed(work.keys) + KEYS - 1) / KEYS;
    const int before = index / (work.together * tiles) * work.together;
    const int heads = max(min(work.together, work.blocks / tiles - before), 1);
    const int place = index - before * tiles, tile = place / heads;
    const int batch_head = work.first_head + before + place % heads;
    // Later rows see it all; there is a tile of rows also for keys that none sees.
    const int first = MASKED ? min(max(tile * KEYS - work.above, 0), work.queries - 1) / ROWS * ROWS : 0;
    const int count = (work.queries - first + ROWS - 1) / ROWS;
    return {batch_head, tile, first, count, MASKED ? 0 : tile % APART < count ? tile % APART : 0};
}

// The number of the block whose keys are in a buffer.
__device__ __forceinline__ int present_block(u32 shared, u32 block) {
    int index;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(index) : "r"(shared + INDEX_AT + 4 * (block % K_BUFFERS)) : "memory");
    return index;
}

// The same once they are there, or -1 after the last.
__device__ __forceinline__ int next_block(u32 shared, u32 block) {
    barrier_wait(shared + K_FULL + 8 * (block % K_BUFFERS), block / K_BUFFERS & 1);
    return present_block(shared, block);
}

__device__ __forceinline__ void load_numbers(u32 target, const float *source, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(target), "l"(source), "n"(ROWS * 4), "r"(barrier)
                 : "memory");
}

// All panels of so many rows of a matrix.
template <int COUNT>
__device__ __forceinline__ void load_rows(u32 target, const TensorMap *map, u32 barrier, int row, int head, int batch) {
#pragma unroll
    for (int i = 0; i < PANELS; i++)
        load_panel(target + i * COUNT * PANEL * 2, map, barrier, i * PANEL, row, head, batch);
}

__device__ __forceinline__ void produce(u32 shared, const TensorMap *q, const TensorMap *k, const TensorMap *v,
                                        const TensorMap *d_o, const Work &work) {
    u32 tile = 0, blocks = 0;
    int index = blockIdx.x;
    while (true) {
        const u32 buffer = blocks % K_BUFFERS, k_full = shared + K_FULL + 8 * buffer;
        barrier_wait(shared + K_FREE + 8 * buffer, blocks / K_BUFFERS & 1 ^ 1);
        const bool is_last = index >= work.blocks;
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared + INDEX_AT + 4 * buffer), "r"(is_last ? -1 : index)
                     : "memory");
        if (is_last) {
            barrier_arrive(k_full);
            break;
        }
        const Block block = block_of(index, work);
        const int batch = block.batch_head / static_cast<int>(recomputed(work.kv_heads)), key = block.tile * KEYS;
        const int own = (block.batch_head - batch * work.kv_heads) / static_cast<int>(recomputed(work.group_parts));
        barrier_expect(k_full, KEY_BYTES);
        load_rows<KEYS>(shared + K_AT + buffer * KEY_BYTES, k, k_full, key, own, batch);
        barrier_wait(shared + V_FREE, blocks & 1 ^ 1);
        barrier_expect(shared + V_FULL, KEY_BYTES);
        load_rows<KEYS>(shared + V_AT, v, shared + V_FULL, key, own, batch);
        blocks++;
        for (int head = 0; head < work.group; head++) {
#pragma unroll 1
            for (int step = 0; step < block.tiles; step++) {
                const int row = block.row(step), stage = tile % STAGES;
                const int of_all = block.batch_head * work.group + head;
                const int of_queries = of_all - batch * work.kv_heads * work.group;
                const long long number = static_cast<long long>(of_all) * work.padded + row;
                const u32 q_full = shared + Q_FULL + 8 * stage, do_full = shared + DO_FULL + 8 * stage;
                barrier_wait(shared + ROWS_FREE + 8 * stage, tile / STAGES & 1 ^ 1);
                barrier_expect(q_full, ROW_BYTES + ROWS * 4);
                load_rows<ROWS>(shared + Q_AT + stage * ROW_BYTES, q, q_full, row, of_queries, batch);
                load_numbers(shared + LSE_AT + stage * ROWS * 4, work.Lse + number, q_full);
                barrier_expect(do_full, ROW_BYTES + ROWS * 4);
                load_rows<ROWS>(shared + DO_AT + stage * ROW_BYTES, d_o, do_full, row, of_queries, batch);
                load_numbers(shared + DELTA_AT + stage * ROWS * 4, work.Delta + number, do_full);
                tile++;
            }
        }
        asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(index) : "l"(work.Counters) : "memory");
        index += work.programs;
    }
    // The last program to end leaves both counters at 0.
    u32 before;
    asm volatile("atom.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(work.Counters + 1), "r"(work.programs - 1)
                 : "memory");
    if (before == work.programs - 1) asm volatile("st.global.u32 [%0], 0;" ::"l"(work.Counters) : "memory");
}

// Matrices in shared memory that products take by rows, and by columns; and dS, which has one panel of 128 bytes.
__device__ __forceinline__ u64 by_rows(u32 address) { return descriptor(address, 0, 8 * PANEL * 2, PANEL * 2); }
template <int COUNT>
__device__ __forceinline__ u64 by_columns(u32 address) {
    return descriptor(address, COUNT * PANEL * 2, 8 * PANEL * 2, PANEL * 2);
}
__device__ __forceinline__ u64 ds_at(u32 address) { return descriptor(address, 0, 8 * ROWS * 2, ROWS * 2); }

__device__ __forceinline__ void dq_threads_meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(DQ_BARRIER), "n"(WARPGROUP) : "memory");
}

// Add a tile of dQ to its accumulators through shared memory: there and in memory it lies as registers hold it, 16 bytes
// of a thread side by side.
__device__ __forceinline__ void add_tile(const float (&dq)[D / 2], u32 staged, float *to) {
    const int thread = threadIdx.x % WARPGROUP;
    if (thread == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(STAGED - 1) : "memory");
    dq_threads_meet();
#pragma unroll
    for (int i = 0; i < D / 8; i++)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(staged + (i * WARPGROUP + thread) * 16),
                     "f"(dq[4 * i]), "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                     : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    dq_threads_meet();
    if (thread == 0)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                     "cp.async.bulk.commit_group;" ::"l"(to), "r"(staged), "n"(DQ_BYTES)
                     : "memory");
}

// dQ of what the consumers share, added to the accumulators.
__device__ __forceinline__ void add_query_gradients(u32 memory, const Work &work) {
    const u32 shared = memory;
    const bool arrives = threadIdx.x % 32 == 0;
    u32 tile = 0, blocks = 0;
    for (int index; (index = next_block(shared, blocks)) >= 0; blocks++) {
        const Block block = block_of(index, work);
        for (int head = 0; head < work.group; head++) {
            const int of_launch = (block.batch_head - work.first_head) * work.group + head;
            for (int step = 0; step < block.tiles; step++) {
                barrier_wait(shared + DS_FULL + 8 * (tile % SLOTS), tile / SLOTS & 1);
                u32 shared = recomputed(memory);
                const u64 k = by_columns<KEYS>(shared + K_AT + blocks % K_BUFFERS * KEY_BYTES);
                const u64 ds = ds_at(shared + DS_AT + tile % SLOTS * CONSUMERS * DS_BYTES);
                float dq[D / 2] = {};
                products_fence();
                first_query_product(dq, ds, k);
#pragma unroll
                for (int key = 16; key < KEYS; key += 16)
                    query_product(dq, ds + (key * ROWS * 2 >> 4), k + (key * PANEL * 2 >> 4));
                products_commit();
                products_wait<0>(dq);
                if (arrives) barrier_arrive(shared + DS_FREE + 8 * (tile % SLOTS));
                add_tile(dq, shared + DQ_AT + tile % STAGED * DQ_BYTES,
                         work.QueryGradients + (static_cast<long long>(of_launch) * work.padded + block.row(step)) * D);
                tile++;
            }
        }
        if (arrives) barrier_arrive(shared + K_FREE + 8 * (blocks % K_BUFFERS));
    }
    if (threadIdx.x % WARPGROUP == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// 64 rows of a matrix, as wgmma takes them out of registers.
template <int COUNT>
__device__ __forceinline__ void load_fragments(u32 (&to)[COUNT], u32 from) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % WARPGROUP / 32 * 16 + lane % 16;
#pragma unroll
    for (int step = 0; step < COUNT / 4; step++) {
        const u32 at = from + row * 128 + ((2 * step + lane / 16) ^ row % 8) * 16;
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
                         rows + (step * 16 * PANEL * 2 >> 4));
}

// Numbers of two neighbouring pairs of a thread's rows, which lie side by side.
__device__ __forceinline__ void read_numbers(float (&to)[4], u32 address) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ bool is_first_lane() { return threadIdx.x % 32 == 0; }

// The first of a thread's two keys.
template <int ME>
__device__ __forceinline__ int first_key(const Block &block) {
    return block.tile * KEYS + ME * OWN_KEYS + threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4;
}

// P of scores of a tile of rows, times 2^SHIFT, in fp16.
template <bool MASKS>
__device__ __forceinline__ void find_weights(float (&s)[ROWS / 2], u32 (&p)[ROWS / 4], int row, int stage,
                                             int own_key, u32 shared, const Work &work) {
    const int lane = threadIdx.x % 4 * 2;
    int first[2];  // of the rows that see each of the two keys
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const int key = own_key + 8 * of;
        first[of] = key < work.keys ? key - work.above - row - lane : 1 << 30;
    }
    const u32 lse_at = shared + LSE_AT + (stage * ROWS + 2 * lane) * 4;
    float lse[4];
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++) {
        if (j % 2 == 0) read_numbers(lse, lse_at + 32 * j);
        const float back[2] = {SHIFT - lse[j % 2 * 2], SHIFT - lse[j % 2 * 2 + 1]};
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
    const u32 delta_at = shared + DELTA_AT + (stage * ROWS + lane % 4 * 4) * 4;
    float delta[4];
#pragma unroll
    for (int j = half * ROWS / 16; j < (half + 1) * ROWS / 16; j++) {
        if (j % 2 == 0) read_numbers(delta, delta_at + 32 * j);
        const float back[2] = {-SHIFTED_BACK * delta[j % 2 * 2], -SHIFTED_BACK * delta[j % 2 * 2 + 1]};
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

// S and dP of a tile of rows: in registers of their own, or one after the other in the same.
template <bool BOTH>
struct Scores {
    float s[ROWS / 2], other[ROWS / 2];
    __device__ __forceinline__ float (&dp())[ROWS / 2] { return other; }
};
template <>
struct Scores<false> {
    float s[ROWS / 2];
    __device__ __forceinline__ float (&dp())[ROWS / 2] { return s; }
};

// What a consumer has of its keys, and of the tile of rows that it is at.
struct Tile : Scores<HOLDS_BOTH> {
    u32 p[ROWS / 4], ds[ROWS / 4], v[HOLDS_V ? D / 4 : 1];
    u32 block;   // how many came before, which says the buffer of the keys
    u32 number;  // of the tile of rows, which says its stage and slot
};

template <int ME>
__device__ __forceinline__ void issue_scores(Tile &tile, u32 shared, int stage) {
    const u32 k_at = shared + K_AT + recomputed(tile.block) % K_BUFFERS * KEY_BYTES + ME * OWN_KEYS * PANEL * 2;
    const u64 k = by_rows(k_at), q = by_rows(shared + Q_AT + stage * ROW_BYTES);
    products_fence();
    first_scores_product(tile.s, k, q);
#pragma unroll
    for (int step = 1; step < D / 16; step++)
        scores_product(tile.s, k + columns_at<KEYS, PANEL>(step), q + columns_at<ROWS, PANEL>(step));
}

template <int ME>
__device__ __forceinline__ void issue_dp(Tile &tile, u32 shared, int stage) {
    const u64 d_o = by_rows(shared + DO_AT + stage * ROW_BYTES);
    products_fence();
    if constexpr (HOLDS_V) {
        first_held_product(tile.dp(), tile.v[0], tile.v[1], tile.v[2], tile.v[3], d_o);
#pragma unroll
        for (int step = 1; step < D / 16; step++)
            held_product(tile.dp(), tile.v[4 * step], tile.v[4 * step + 1], tile.v[4 * step + 2], tile.v[4 * step + 3],
                         d_o + columns_at<ROWS, PANEL>(step));
    } else {
        const u64 v = by_rows(shared + V_AT + ME * OWN_KEYS * PANEL * 2);
        first_scores_product(tile.dp(), v, d_o);
#pragma unroll
        for (int step = 1; step < D / 16; step++)
            scores_product(tile.dp(), v + columns_at<KEYS, PANEL>(step), d_o + columns_at<ROWS, PANEL>(step));
    }
}

// Share dS of a tile of rows whose P and dP are there, and issue dV and half of dK.
template <int ME>
__device__ __forceinline__ void add_values(Tile &tile, Gradients &sums, u32 memory) {
    const u32 shared = recomputed(memory), stage = tile.number % STAGES, slot = tile.number % SLOTS;
    const u32 ds_at = shared + DS_AT + (slot * CONSUMERS + ME) * DS_BYTES;
    const u64 q = by_columns<ROWS>(shared + Q_AT + stage * ROW_BYTES);
    const u64 d_o = by_columns<ROWS>(shared + DO_AT + stage * ROW_BYTES);
    barrier_wait(shared + DS_FREE + 8 * slot, tile.number / SLOTS & 1 ^ 1);
    share_ds(tile.dp(), tile.p, tile.ds, stage, shared, ds_at, 0);
    products_fence();
    issue_gradient(sums.dv, tile.p, d_o, 0);
    issue_gradient(sums.dk, tile.ds, q, 0);
    products_commit();
    share_ds(tile.dp(), tile.p, tile.ds, stage, shared, ds_at, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (is_first_lane()) barrier_arrive(shared + DS_FULL + 8 * slot);
    products_fence();
    issue_gradient(sums.dv, tile.p, d_o, 1);
    products_commit();
}

__device__ __forceinline__ void issue_rest_of_keys(Tile &tile, Gradients &sums, u32 shared) {
    products_fence();
    issue_gradient(sums.dk, tile.ds, by_columns<ROWS>(shared + Q_AT + tile.number % STAGES * ROW_BYTES), 1);
}

// Add a tile of rows to the gradients, and compute P and dP of the next one, whose first row is `row`.
template <int ME, bool MASKS>
__device__ __forceinline__ void row_step(Tile &tile, Gradients &sums, int row, int own_key, u32 memory,
                                         const Work &work) {
    const u32 shared = recomputed(memory);
    const u32 next = (tile.number + 1) % STAGES, phase = (tile.number + 1) / STAGES & 1;
    if constexpr (HOLDS_BOTH) {
        barrier_wait(shared + Q_FULL + 8 * next, phase);
        issue_scores<ME>(tile, shared, next);
        products_commit();
        add_values<ME>(tile, sums, shared);
        issue_rest_of_keys(tile, sums, shared);
        barrier_wait(shared + DO_FULL + 8 * next, phase);
        issue_dp<ME>(tile, shared, next);
        products_commit();
        products_wait<1>(tile.s);
    } else {
        add_values<ME>(tile, sums, shared);
        barrier_wait(shared + Q_FULL + 8 * next, phase);
        issue_scores<ME>(tile, shared, next);
        products_commit();
        issue_rest_of_keys(tile, sums, shared);
        products_commit();
        products_wait<1>(tile.s);
    }
    held(sums.dv);
    held(tile.p);
    find_weights<MASKS>(tile.s, tile.p, row, next, own_key, shared, work);
    products_wait<0>(sums.dk);
    held(tile.ds);
    if (is_first_lane()) barrier_arrive(shared + ROWS_FREE + 8 * (tile.number % STAGES));
    if constexpr (HOLDS_BOTH) {
        held(tile.dp());
    } else {
        barrier_wait(shared + DO_FULL + 8 * next, phase);
        issue_dp<ME>(tile, shared, next);
        products_commit();
        products_wait<0>(tile.dp());
    }
    tile.number++;
}

// All tiles of rows of a block.
template <int ME>
__device__ __forceinline__ void add_rows(Tile &tile, Gradients &sums, const Block &block, u32 shared,
                                         const Work &work) {
    const int key = first_key<ME>(block);
    int masked = 0;  // row tiles that not all of these keys are seen by, which come first
    if (MASKED) {
        const int own = block.tile * KEYS + ME * OWN_KEYS;
        const int first = own + OWN_KEYS <= work.keys ? own + OWN_KEYS - 1 - work.above : 1 << 29;
        masked = min(max((first - block.first_row + ROWS - 1) / ROWS, 0), block.tiles);
    }
    const u32 stage = tile.number % STAGES, phase = tile.number / STAGES & 1;
    barrier_wait(shared + Q_FULL + 8 * stage, phase);
    issue_scores<ME>(tile, shared, stage);
    products_commit();
    if constexpr (HOLDS_BOTH) {
        barrier_wait(shared + DO_FULL + 8 * stage, phase);
        issue_dp<ME>(tile, shared, stage);
        products_commit();
        products_wait<1>(tile.s);
        find_weights<MASKED>(tile.s, tile.p, block.row(0), stage, key, shared, work);
    } else {
        products_wait<0>(tile.s);
        find_weights<MASKED>(tile.s, tile.p, block.row(0), stage, key, shared, work);
        barrier_wait(shared + DO_FULL + 8 * stage, phase);
        issue_dp<ME>(tile, shared, stage);
        products_commit();
    }
    products_wait<0>(tile.dp());
    for (int head = 0; head < work.group; head++) {
        int step = head == 0;
        if (MASKED) {
            for (; step < masked; step++) row_step<ME, true>(tile, sums, block.row(step), key, shared, work);
        }
        for (; step < block.tiles; step++) row_step<ME, false>(tile, sums, block.row(step), key, shared, work);
    }
    if (!HOLDS_V && is_first_lane()) barrier_arrive(shared + V_FREE);
    add_values<ME>(tile, sums, shared);
    issue_rest_of_keys(tile, sums, shared);
    products_commit();
    products_wait<0>(sums.dk);
    held(sums.dv);
    held(tile.ds);
    held(tile.p);
    if (is_first_lane()) barrier_arrive(shared + ROWS_FREE + 8 * (tile.number % STAGES));
    tile.number++;
}

template <int ME>
__device__ __forceinline__ void consume(u32 shared, const Work &work) {
    Tile tile;
    Gradients sums;
    tile.number = tile.block = 0;
    for (int index; (index = next_block(shared, tile.block)) >= 0; tile.block++) {
#pragma unroll
        for (int i = 0; i < D / 2; i++) sums.dk[i] = sums.dv[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++) tile.s[i] = tile.dp()[i] = 0.0f;
        barrier_wait(shared + V_FULL, tile.block & 1);
        if constexpr (HOLDS_V) {
            load_fragments(tile.v, shared + V_AT + ME * OWN_KEYS * D * 2);
            if (is_first_lane()) barrier_arrive(shared + V_FREE);
        }
        add_rows<ME>(tile, sums, block_of(index, work), shared, work);
        // Read again, so that no register holds it in the loops.
        const Block done = block_of(present_block(shared, tile.block), work);
        __syncwarp();
        if (is_first_lane()) barrier_arrive(shared + K_FREE + 8 * (tile.block % K_BUFFERS));
        const int key = first_key<ME>(done);
        const long long first = static_cast<long long>(done.batch_head) * work.keys;
        write_gradient(sums.dv, SHIFTED_BACK, static_cast<u16 *>(work.ValueGradients) + first * work.v_width, key,
                       work.keys, work.v_width);
        write_gradient(sums.dk, work.scale, static_cast<u16 *>(work.KeyGradients) + first * work.width, key, work.keys,
                       work.width);
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
