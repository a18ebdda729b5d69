// Of `key_stationary.cu`: what a consumer does with one tile of rows.

// 64 rows of a matrix of one panel, as wgmma takes them out of registers.
template <int COUNT>
__device__ __forceinline__ void load_fragments(u32 (&to)[COUNT], u32 from) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % WARPGROUP / 32 * 16 + lane % 16;
    const int swizzle = PANEL == 64 ? row % 8 : row / 2 % 4;  // of 128 bytes, and of 64
#pragma unroll
    for (int step = 0; step < COUNT / 4; step++) {
        const u32 at = from + row * PANEL * 2 + ((2 * step + lane / 16) ^ swizzle) * 16;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[4 * step]), "=r"(to[4 * step + 1]), "=r"(to[4 * step + 2]), "=r"(to[4 * step + 3])
                     : "r"(at)
                     : "memory");
    }
}

// Issue dV += P^T dO, or dK += dS^T Q, over one half of the rows.
template <int COUNT>
__device__ __forceinline__ void issue_gradient(float (&to)[D / 2], const u32 (&of)[COUNT], u64 rows, int half) {
#pragma unroll
    for (int step = half * ROWS / 32; step < (half + 1) * ROWS / 32; step++)
        gradient_product(to, of[4 * step], of[4 * step + 1], of[4 * step + 2], of[4 * step + 3],
                         rows + (step * 16 * PANEL * 2 >> 4));
}

// A matrix of 16 columns without a swizzle: eight columns of eight rows lie side by side.
__device__ __forceinline__ u64 narrow(u32 address, int next_columns, int next_rows) {
    return static_cast<u64>(next_rows >> 4) << 32 | static_cast<u64>(next_columns >> 4) << 16 | (address & 0x3ffff) >> 4;
}

// The 16 columns more that K has for the offsets of rows, and V: -1 in three of them. All keys have the same eight rows.
__device__ __forceinline__ void write_minus_ones(u32 shared) {
    const int of = threadIdx.x / 64, column = threadIdx.x % 8;
    if (of < 3)
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(shared + MINUS_AT + threadIdx.x * 2),
                     "h"(static_cast<u16>(of < 2 && column >= 3 * of && column < 3 * of + 3 ? 0xbf80 : 0))
                     : "memory");
}

// Subtract lse (0) from scores, or delta (1) from dP. The eight numbers of a row are read twice, for eight columns of 0.
template <int OF>
__device__ __forceinline__ void issue_subtraction(float (&from)[ROWS / 2], u32 shared, int stage) {
    offset_product(from, narrow(shared + MINUS_AT + OF * 128, (2 - OF) * 128, 0),
                   narrow(shared + OFFSETS_AT + stage * OFFSET_BYTES, 0, 128));
}

__device__ __forceinline__ bool is_first_lane() { return threadIdx.x % 32 == 0; }

// The first of a thread's two keys, and where rows of all keys of its sequence begin in memory.
struct Own {
    int key, before;
};
template <class Me>
__device__ __forceinline__ Own own_keys(Me me, const Block &block, int before) {
    const int thread = threadIdx.x % WARPGROUP;
    return {block.tile * KEYS + me * OWN_KEYS + thread / 32 * 16 + thread % 32 / 4, before};
}

// P of scores of a tile of rows, times 2^SHIFT, in fp16; or in fp32, where there are registers for it.
template <bool MASKS>
__device__ __forceinline__ void find_weights(float (&s)[ROWS / 2], u32 (&p)[P_WORDS], int row, const Own &own,
                                             const Work &work) {
    const int lane = threadIdx.x % 4 * 2;
    int first[2], stop[2] = {};  // of the rows that see each of the two keys
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const int key = own.key + 8 * of;
        first[of] = 1 << 30;
        if (key >= work.keys) continue;
        if (MASKS && PACKED) {
            first[of] = work.FirstRows[own.before + key] - row - lane;
            stop[of] = work.StopRows[own.before + key] - row - lane;
        } else {
            first[of] = key - work.above - row - lane;
        }
    }
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++) {
#pragma unroll
        for (int of = 0; of < 2; of++) {
            float weights[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float score = s[4 * j + 2 * of + e];
                const int at = 8 * j + e;
                if (MASKS && (at < first[of] || (PACKED && at >= stop[of]))) score = -INFINITY_F;
                weights[e] = exp2_of(fmaf(score, work.scale_log2, SHIFT));
            }
            if constexpr (WHOLE_WEIGHTS) {
                p[4 * j + 2 * of] = __float_as_uint(weights[0]);
                p[4 * j + 2 * of + 1] = __float_as_uint(weights[1]);
            } else {
                p[2 * j + of] = saturated_fp16(weights[0], weights[1]);
            }
        }
    }
}

// dS times 2^SHIFT of half of a tile of rows, shared with the warpgroup that computes dQ; P becomes what dV takes.
__device__ __forceinline__ void share_ds(const float (&dp)[ROWS / 2], u32 (&p)[P_WORDS], u32 (&ds)[ROWS / 4], u32 slot,
                                         int half) {
    const int lane = threadIdx.x % 32, key = threadIdx.x % WARPGROUP / 32 * 16 + lane % 16;
    const u32 own = slot + key * ROWS * 2 + (lane / 16 ^ key % 8) * 16;  // of the first columns; slots: multiples of 1,024
#pragma unroll
    for (int j = half * ROWS / 16; j < (half + 1) * ROWS / 16; j++) {
#pragma unroll
        for (int of = 0; of < 2; of++) {
            float weights[2];
            if constexpr (WHOLE_WEIGHTS) {
                weights[0] = __uint_as_float(p[4 * j + 2 * of]);
                weights[1] = __uint_as_float(p[4 * j + 2 * of + 1]);
            } else {
                of_fp16(p[2 * j + of], weights[0], weights[1]);
            }
            ds[2 * j + of] = packed(weights[0] * dp[4 * j + 2 * of], weights[1] * dp[4 * j + 2 * of + 1]);
            p[2 * j + of] = packed(weights[0], weights[1]);
        }
        if (j % 2) {
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(own ^ (j - 1) * 16),
                         "r"(ds[2 * j - 2]), "r"(ds[2 * j - 1]), "r"(ds[2 * j]), "r"(ds[2 * j + 1])
                         : "memory");
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
    u32 p[P_WORDS], ds[ROWS / 4], v[HOLDS_V ? D / 4 : 1];
    u32 block;   // how many came before, which says the buffer of the keys
    u32 number;  // of the tile of rows, which says its stage and slot
};

template <class Me>
__device__ __forceinline__ void issue_scores(Me me, Tile &tile, u32 shared, int stage) {
    const u32 k_at = shared + K_AT + recomputed(tile.block) % K_BUFFERS * KEY_BYTES + me * OWN_KEYS * PANEL * 2;
    const u64 k = by_rows(k_at), q = by_rows(shared + Q_AT + stage * ROW_BYTES);
    products_fence();
    first_scores_product(tile.s, k, q);
#pragma unroll
    for (int step = 1; step < D / 16; step++)
        scores_product(tile.s, k + columns_at<KEYS, PANEL>(step), q + columns_at<ROWS, PANEL>(step));
    issue_subtraction<0>(tile.s, shared, stage);
}

template <class Me>
__device__ __forceinline__ void issue_dp(Me me, Tile &tile, u32 shared, int stage) {
    const u64 d_o = by_rows(shared + DO_AT + stage * ROW_BYTES);
    products_fence();
    if constexpr (HOLDS_V) {
        first_held_product(tile.dp(), tile.v[0], tile.v[1], tile.v[2], tile.v[3], d_o);
#pragma unroll
        for (int step = 1; step < D / 16; step++)
            held_product(tile.dp(), tile.v[4 * step], tile.v[4 * step + 1], tile.v[4 * step + 2], tile.v[4 * step + 3],
                         d_o + columns_at<ROWS, PANEL>(step));
    } else {
        const u64 v = by_rows(shared + V_AT + me * OWN_KEYS * PANEL * 2);
        first_scores_product(tile.dp(), v, d_o);
#pragma unroll
        for (int step = 1; step < D / 16; step++)
            scores_product(tile.dp(), v + columns_at<KEYS, PANEL>(step), d_o + columns_at<ROWS, PANEL>(step));
    }
    issue_subtraction<1>(tile.dp(), shared, stage);
}

// Share dS of a tile of rows whose P and dP are there, and issue dV and half of dK.
template <class Me>
__device__ __forceinline__ void add_values(Me me, Tile &tile, Gradients &sums, u32 memory) {
    const u32 shared = recomputed(memory), stage = tile.number % STAGES, slot = tile.number % SLOTS;
    const u32 ds_at = shared + DS_AT + (slot * CONSUMERS + me) * DS_BYTES;
    const u64 q = by_columns<ROWS>(shared + Q_AT + stage * ROW_BYTES);
    const u64 d_o = by_columns<ROWS>(shared + DO_AT + stage * ROW_BYTES);
    barrier_wait(shared + DS_FREE + 8 * slot, tile.number / SLOTS & 1 ^ 1);
    share_ds(tile.dp(), tile.p, tile.ds, ds_at, 0);
    products_fence();
    issue_gradient(sums.dv, tile.p, d_o, 0);
    issue_gradient(sums.dk, tile.ds, q, 0);
    products_commit();
    share_ds(tile.dp(), tile.p, tile.ds, ds_at, 1);
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

// Issue a consumer's half of the columns of dQ, of a tile of rows whose dS both have shared.
template <class Me>
__device__ __forceinline__ void issue_dq(Me me, float (&dq)[DQ_COLUMNS / 2], u32 buffer, u32 number, u32 shared) {
    const u32 k_at = shared + K_AT + recomputed(buffer) % K_BUFFERS * KEY_BYTES;
    barrier_wait(shared + DS_FULL + 8 * (number % SLOTS), number / SLOTS & 1);
    issue_dq_products(dq, shared + DS_AT + number % SLOTS * CONSUMERS * DS_BYTES, k_at + me * KEYS * PANEL * 2);
    products_commit();
}

// Add it to the accumulators, when it is computed.
template <class Me>
__device__ __forceinline__ void add_dq(Me me, float (&dq)[DQ_COLUMNS / 2], u32 number, u32 shared, const Work &work) {
    if (is_first_lane()) barrier_arrive(shared + DS_FREE + 8 * (number % SLOTS));
    if constexpr (WHOLE_HEADS) {
        sum_tile(me, dq, shared, me, present_place(shared, number), me * DQ_COLUMNS, work);
        return;
    }
    int place = 0;  // of the thread that has it written
    asm volatile("{\n.reg .pred first;\nsetp.eq.u32 first, %2, 0;\n@first ld.shared.s32 %0, [%1];\n}"
                 : "+r"(place)
                 : "r"(shared + PLACES_AT + 4 * (number % PLACES)), "r"(threadIdx.x % WARPGROUP)
                 : "memory");
    add_tile(me, dq, shared + DQ_AT + me * DQ_BYTES,
                 work.QueryGradients + static_cast<long long>(place) * STORED + me * ROWS * DQ_COLUMNS);
}
