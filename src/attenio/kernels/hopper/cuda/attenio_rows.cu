// Of `attenio.cu`: the rows of a thread, the weights of their scores, and how outputs are rescaled and written.

// NaN if one of them is: a row with such a score has no weight that is a number.
__device__ __forceinline__ float larger_of(float x, float y) {
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

// Of a thread: two rows, 8 apart, and of every 8 columns two.
struct Rows {
    int first;  // the first of them
    int first_key[2], stop_key[2];  // of packed sequences: those that they see, counted as their key tiles are
    float largest[2], total[2], factor[2], anchor[2];
};

// What a row does not see of a key tile: nothing, all of it, or what is before its first key and from its stop on.
enum class Hides { NOTHING, ROWS, KEYS };
constexpr int CHAINS = 4;  // of each row: a comparison waits for the one before it

// Hide scores, and find the largest of those that are left.
template <Hides HIDES>
__device__ __forceinline__ void find_tops(float (&s)[KEY_TILE / 2], float (&tops)[2][CHAINS], const int (&first)[2],
                                          const int (&stop)[2]) {
#pragma unroll
    for (int i = 0; i < KEY_TILE / 2; i++) {
        const int of = i / 2 % 2, at = i / 4 * 8 + i % 2, chain = (i / 4 * 2 + i % 2) % CHAINS;  // known to the compiler
        if (HIDES == Hides::KEYS && (at >= stop[of] || (BELOW && at < first[of]))) s[i] = -INFINITY_F;
        if (HIDES == Hides::ROWS && first[of] >= stop[of]) s[i] = -INFINITY_F;
        tops[of][chain] = i < 4 * CHAINS / 2 ? s[i] : larger_of(tops[of][chain], s[i]);
    }
}

// Whether some row of a warp sees a part of a key tile; if not, `stop` comes before `first` where a row sees none of it.
__device__ __forceinline__ bool sees_a_part(const Rows &rows, int tile, int (&first)[2], int (&stop)[2]) {
    bool part = false;
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const int from = rows.first_key[of] - tile * KEY_TILE, to = rows.stop_key[of] - tile * KEY_TILE;
        const bool none = from >= min(to, KEY_TILE) || to <= 0;
        part |= !none && (from > 0 || to < KEY_TILE);
        if (none) stop[of] = first[of];
    }
    return __any_sync(0xffffffff, part);
}

// The largest score of a row in a key tile, the anchor of its weights, and by what those before are rescaled.
template <bool MASKS>
__device__ __forceinline__ void find_anchors(float (&s)[KEY_TILE / 2], Rows &rows, int tile, const Work &work) {
    const int column = tile * KEY_TILE + threadIdx.x % 4 * 2;
    int first[2], stop[2];
#pragma unroll
    for (int of = 0; of < 2; of++) {
        first[of] = (PACKED ? rows.first_key[of] : rows.first + 8 * of + work.below) - column;
        stop[of] = (PACKED ? rows.stop_key[of] : min(rows.first + 8 * of + work.above + 1, work.keys)) - column;
    }
    float tops[2][CHAINS];
    // Rows where one packed sequence ends and another begins pass tiles that some of them see whole and others not at all.
    if (MASKS && PACKED && !sees_a_part(rows, tile, first, stop))
        find_tops<Hides::ROWS>(s, tops, first, stop);
    else
        find_tops<MASKS ? Hides::KEYS : Hides::NOTHING>(s, tops, first, stop);
#pragma unroll
    for (int of = 0; of < 2; of++) {
        float top = larger_of(larger_of(tops[of][0], tops[of][1]), larger_of(tops[of][2], tops[of][3]));
        top = larger_of(top, __shfl_xor_sync(0xffffffff, top, 1));
        top = larger_of(top, __shfl_xor_sync(0xffffffff, top, 2)) * work.scale_log2;
        const float larger = top <= rows.largest[of] + SLACK ? rows.largest[of] : top;
        rows.anchor[of] = MASKED && larger == -INFINITY_F ? 0.0f : larger;  // a row that has seen nothing yet
        rows.factor[of] = exp2_of(rows.largest[of] - rows.anchor[of]);
        rows.largest[of] = larger;
    }
}

// Weights of a key tile, their sums, and P in 16 bits, as wgmma reads it from registers.
__device__ __forceinline__ void weigh(const float (&s)[KEY_TILE / 2], u32 (&p)[KEY_TILE / 4], Rows &rows,
                                      float scale_log2) {
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < KEY_TILE / 4; i++) {
        const int of = i % 2;
        const float low = exp2_of(fmaf(s[2 * i], scale_log2, -rows.anchor[of]));
        const float high = exp2_of(fmaf(s[2 * i + 1], scale_log2, -rows.anchor[of]));
        sums[of][0] += low;
        sums[of][1] += high;
        p[i] = packed(low, high);
    }
#pragma unroll
    for (int of = 0; of < 2; of++) rows.total[of] = fmaf(rows.total[of], rows.factor[of], sums[of][0] + sums[of][1]);
}

__device__ __forceinline__ void rescale(float (&o)[V / 2], const Rows &rows) {
    if (__any_sync(0xffffffff, rows.factor[0] != 1.0f || rows.factor[1] != 1.0f)) {
#pragma unroll
        for (int i = 0; i < V / 2; i++) o[i] *= rows.factor[i / 2 % 2];
    }
}

// Write rows of O: four threads have 32 columns of a row between them, and exchange them for 8 neighbours each.
__device__ __forceinline__ void write_rows(const float (&o)[V / 2], const Rows &rows, int row, long long out_row,
                                           const Work &work) {
    const int lane = threadIdx.x % 4;
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const float inverse = 1.0f / (rows.total[of] == 0.0f ? 1.0f : rows.total[of]);
        const int at = row + 8 * of;
        u16 *to = static_cast<u16 *>(work.Output) + (out_row + at) * work.width;
#pragma unroll
        for (int chunk = 0; chunk < V / 8; chunk += 4) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int first = (chunk + i) * 4 + 2 * of;
                words[i] = chunk + i < V / 8 ? packed(o[first] * inverse, o[first + 1] * inverse) : 0;
            }
            exchange(words, lane);
            const int column = (chunk + lane) * 8;
            if (is_there(at, work) && column < work.width)
                *reinterpret_cast<uint4 *>(to + column) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

// Which keys of packed sequences this thread's two rows see.
__device__ __forceinline__ void find_keys(Rows &rows, int batch, int from, const Work &work) {
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const int row = min(rows.first + 8 * of, work.queries - 1);
        rows.first_key[of] = first_key(row, batch, work) - from, rows.stop_key[of] = stop_key(row, batch, work) - from;
    }
}
