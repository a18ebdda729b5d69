// Latents: softmax steps of a consumer of `split_latents.cu`, and what it hands to the other.

// NaN if one of them is: a row with such a score has no weight that is a number.
__device__ __forceinline__ float larger_of(float x, float y) {
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

// Of a thread: two rows, 8 apart, and of every 8 columns two.
struct Rows {
    int first[2], stop[2];       // keys that they see
    float largest[2], total[2];  // the anchor of the tile added last, by whichever consumer; weights of own tiles
};

__device__ __forceinline__ void rescale(float (&o)[HALF / 2], const float (&factor)[2]) {
    if (__any_sync(0xffffffff, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
        for (int i = 0; i < HALF / 2; i++) o[i] *= factor[i / 2 % 2];
    }
}

// Weights of a tile, and the factors by which all before it is rescaled.
__device__ __forceinline__ void softmax_step(float (&s)[KEYS / 2], u32 (&p)[KEYS / 4], float (&factor)[2], Rows &rows,
                                             bool whole, int key, float scale_log2) {
    if (!whole) {
        const int column = key + threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            const int of = i / 2 % 2, at = column + i / 4 * 8 + i % 2;
            if (at >= rows.stop[of] || (RANGED && at < rows.first[of])) s[i] = -INFINITY_F;
        }
    }
    constexpr int CHAINS = 2;  // of each row: a comparison waits for the one before it
    float tops[2][CHAINS], anchor[2];
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
        const int of = i / 2 % 2, chain = (i / 4 * 2 + i % 2) % CHAINS;
        tops[of][chain] = i < 4 * CHAINS / 2 ? s[i] : larger_of(tops[of][chain], s[i]);
    }
#pragma unroll
    for (int of = 0; of < 2; of++) {
        float top = larger_of(tops[of][0], tops[of][1]);
        top = larger_of(top, __shfl_xor_sync(0xffffffff, top, 1));
        top = larger_of(top, __shfl_xor_sync(0xffffffff, top, 2)) * scale_log2;
        const float larger = top <= rows.largest[of] + SLACK ? rows.largest[of] : top;
        anchor[of] = larger == -INFINITY_F ? 0.0f : larger;  // a row that has seen nothing yet
        factor[of] = exp2_of(rows.largest[of] - anchor[of]);
        rows.largest[of] = larger;
    }
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) {
        const int of = i % 2;
        const float low = exp2_of(fmaf(s[2 * i], scale_log2, -anchor[of]));
        const float high = exp2_of(fmaf(s[2 * i + 1], scale_log2, -anchor[of]));
        sums[of][0] += low;
        sums[of][1] += high;
        p[i] = packed(low, high);
    }
#pragma unroll
    for (int of = 0; of < 2; of++) rows.total[of] = fmaf(rows.total[of], factor[of], sums[of][0] + sums[of][1]);
}

__device__ __forceinline__ float read_number(u32 address) {
    float number;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(number) : "r"(address) : "memory");
    return number;
}
__device__ __forceinline__ void write_number(u32 address, float number) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(number) : "memory");
}

// The anchors of the other consumer's tile, and the factors by which all before it is rescaled.
__device__ __forceinline__ void take_anchors(u32 anchors, Rows &rows, float (&factor)[2]) {
    const int thread = recomputed(threadIdx.x) % WARPGROUP, row = thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const float larger = read_number(anchors + 4 * row + 32 * of);
        factor[of] = rows.largest[of] == larger ? 1.0f : exp2_of(rows.largest[of] - larger);  // it never falls
        rows.largest[of] = larger;
        rows.total[of] *= factor[of];
    }
}

// Give P and the anchors to the other consumer.
__device__ __forceinline__ void hand_over(u32 p_place, u32 anchors, const u32 (&p)[KEYS / 4], const Rows &rows) {
    const int thread = recomputed(threadIdx.x) % WARPGROUP, lane = thread % 32, row = thread / 32 * 16 + lane % 16;
    const u32 to = p_place + row * 128 + (lane / 16 ^ row % 8) * 16;
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to ^ step * 32),
                     "r"(p[4 * step]), "r"(p[4 * step + 1]), "r"(p[4 * step + 2]), "r"(p[4 * step + 3])
                     : "memory");
    if (lane % 4 == 0) {
        const u32 first = anchors + 4 * (thread / 32 * 16 + lane / 4);
        write_number(first, rows.largest[0]);
        write_number(first + 32, rows.largest[1]);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
