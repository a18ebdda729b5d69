// Of `key_stationary.cu`: products and additions of dQ, and the warpgroup that has nothing else to do.

// Matrices in shared memory that products take by rows, and by columns; and dS, which has one panel of 128 bytes.
__device__ __forceinline__ u64 by_rows(u32 address) { return descriptor(address, 0, 8 * PANEL * 2, PANEL * 2); }
template <int COUNT>
__device__ __forceinline__ u64 by_columns(u32 address) {
    return descriptor(address, COUNT * PANEL * 2, 8 * PANEL * 2, PANEL * 2);
}
__device__ __forceinline__ u64 ds_at(u32 address) { return descriptor(address, 0, 8 * ROWS * 2, ROWS * 2); }

template <class Me>
__device__ __forceinline__ void dq_threads_meet(Me me) {
    asm volatile("bar.sync %0, %1;" ::"r"(DQ_BARRIER + me), "n"(WARPGROUP) : "memory");
}

// Issue dS K of columns that begin at ``k_at``.
__device__ __forceinline__ void issue_dq_products(float (&dq)[DQ_COLUMNS / 2], u32 shared_ds, u32 k_at) {
    const u64 k = by_columns<KEYS>(k_at), ds = ds_at(shared_ds);
    products_fence();
    first_query_product(dq, ds, k);
#pragma unroll
    for (int key = 16; key < KEYS; key += 16)
        query_product(dq, ds + (key * ROWS * 2 >> 4), k + (key * PANEL * 2 >> 4));
}

// A gradient in the type of its tensor: all columns of one row, then those of the other.
template <int SUMS>
__device__ __forceinline__ void round_gradient(const float (&of)[SUMS], float scale, u32 (&to)[SUMS / 2]) {
#pragma unroll
    for (int i = 0; i < SUMS / 2; i++) {
        const int first = i % (SUMS / 4) * 4 + i / (SUMS / 4) * 2;
        to[i] = packed(of[first] * scale, of[first + 1] * scale);
    }
}

// Write 64 rows of a gradient: four threads have 32 columns of a row between them, and exchange them for 8 neighbours.
template <int COUNT>
__device__ __forceinline__ void write_gradient(const u32 (&of)[COUNT], u16 *to, int first_row, int rows, int width,
                                               int first_column = 0) {
    constexpr int CHUNKS = COUNT / 2;
    const int lane = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int at = first_row + 8 * half;
        u16 *row = to + static_cast<long long>(at) * width;
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk += 4) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) words[i] = chunk + i < CHUNKS ? of[half * CHUNKS + chunk + i] : 0;
            exchange(words, lane);
            const int column = first_column + (chunk + lane) * 8;
            if (at < rows && column < width)
                *reinterpret_cast<uint4 *>(row + column) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

// Add a tile of dQ to its accumulators through shared memory: there and in memory it lies as registers hold it, 16 bytes
// of a thread side by side.
template <class Me>
__device__ __forceinline__ void add_tile(Me me, const float (&dq)[DQ_COLUMNS / 2], u32 staged, float *to) {
    const int thread = threadIdx.x % WARPGROUP;
    if (thread == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEAVING) : "memory");
    dq_threads_meet(me);
    const u32 own = recomputed(staged + thread * 16);
#pragma unroll
    for (int i = 0; i < DQ_COLUMNS / 8; i++)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(own + i * WARPGROUP * 16), "f"(dq[4 * i]),
                     "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                     : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    dq_threads_meet(me);
    if (thread == 0)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                     "cp.async.bulk.commit_group;" ::"l"(to), "r"(staged), "n"(DQ_BYTES)
                     : "memory");
}

// Of whole heads: until shared memory is read, and at the begin of a tile of keys until what was added is there.
__device__ __forceinline__ void wait_for_sums(const Place &place) {
    if (place.begins)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    else
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Of whole heads: begin to load the sums that the last part of dQ is added to, where the tile goes through shared memory.
template <class Me>
__device__ __forceinline__ void load_sums(Me me, u32 shared, int staged, const Place &place, const Work &work) {
    if (!place.loads()) return;
    dq_threads_meet(me);  // all have read what was loaded before
    if (threadIdx.x % WARPGROUP) return;
    const u32 barrier = shared + SUMS_FULL + 8 * staged;
    const float *from = work.QueryGradients + static_cast<long long>(place.sums) * STORED + me * ROWS * DQ_COLUMNS;
    wait_for_sums(place);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier_expect(barrier, DQ_BYTES);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared + DQ_AT + staged * DQ_BYTES), "l"(from), "n"(DQ_BYTES), "r"(barrier)
                 : "memory");
}

// Of whole heads: store a tile of dQ, add it to what is stored, or write it with that.
template <class Me>
__device__ __forceinline__ void sum_tile(Me me, float (&dq)[DQ_COLUMNS / 2], u32 shared, int staged, const Place &place,
                                         int first_column, const Work &work) {
    const int thread = threadIdx.x % WARPGROUP;
    const u32 from = shared + DQ_AT + staged * DQ_BYTES, own = recomputed(from + thread * 16);
    if (place.is_last) {
        if (!place.is_first) {
            barrier_wait(shared + SUMS_FULL + 8 * staged, place.phase);
#pragma unroll
            for (int i = 0; i < DQ_COLUMNS / 8; i++) {
                float sums[4];
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
                             : "r"(own + i * WARPGROUP * 16)
                             : "memory");
#pragma unroll
                for (int j = 0; j < 4; j++) dq[4 * i + j] += sums[j];
            }
        }
        u32 rounded[DQ_COLUMNS / 4];
        round_gradient(dq, work.scale * SHIFTED_BACK, rounded);
        u16 *to = static_cast<u16 *>(work.RoundedQueryGradients) + static_cast<long long>(place.head) * work.queries * work.width;
        write_gradient(rounded, to, place.row + thread / 32 * 16 + thread % 32 / 4, work.queries, work.width, first_column);
        return;
    }
    if (thread == 0) wait_for_sums(place);
    dq_threads_meet(me);
#pragma unroll
    for (int i = 0; i < DQ_COLUMNS / 8; i++)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(own + i * WARPGROUP * 16), "f"(dq[4 * i]),
                     "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                     : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    dq_threads_meet(me);
    if (thread) return;
    float *to = work.QueryGradients + static_cast<long long>(place.sums) * STORED + me * ROWS * DQ_COLUMNS;
    if (place.is_first)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "n"(DQ_BYTES)
                     : "memory");
    else
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                     "n"(DQ_BYTES)
                     : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// As the producer left it for consumers that compute dQ.
__device__ __forceinline__ Place present_place(u32 shared, u32 number) {
    Place place;
    u32 kind;
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(place.sums), "=r"(place.head), "=r"(place.row), "=r"(kind)
                 : "r"(shared + PLACES_AT + 16 * (number % PLACES))
                 : "memory");
    place.is_first = kind & 1, place.is_last = kind >> 1 & 1, place.begins = kind >> 2 & 1, place.phase = kind >> 3;
    return place;
}

// dQ of what the consumers share, added to the accumulators.
__device__ __forceinline__ void add_query_gradients(u32 memory, const Work &work) {
    const u32 shared = memory;
    const bool arrives = threadIdx.x % 32 == 0;
    u32 tile = 0, blocks = 0, phases = 0;
    for (int index; (index = next_block(shared, blocks)) >= 0; blocks++) {
        const Block block = block_of(index, work);
        for (int head = 0; head < work.group; head++) {
            const int of_launch = (block.batch_head - work.first_head) * work.group + head;
#pragma unroll 1
            for (int step = 0; step < block.tiles; step++) {
                Place place;
                if constexpr (WHOLE_HEADS) {
                    place = place_of(block, head, step, work);
                    place.phase = phases >> tile % STAGED & 1;
                    phases ^= static_cast<u32>(place.loads()) << tile % STAGED;
                    load_sums(Consumer<0>{}, shared, tile % STAGED, place, work);
                }
                barrier_wait(shared + DS_FULL + 8 * (tile % SLOTS), tile / SLOTS & 1);
                u32 shared = recomputed(memory);
                float dq[DQ_COLUMNS / 2] = {};
                issue_dq_products(dq, shared + DS_AT + tile % SLOTS * CONSUMERS * DS_BYTES,
                                  shared + K_AT + blocks % K_BUFFERS * KEY_BYTES);
                products_commit();
                products_wait<0>(dq);
                if (arrives) barrier_arrive(shared + DS_FREE + 8 * (tile % SLOTS));
                if constexpr (WHOLE_HEADS)
                    sum_tile(Consumer<0>{}, dq, shared, tile % STAGED, place, 0, work);
                else
                    add_tile(Consumer<0>{}, dq, shared + DQ_AT + tile % STAGED * DQ_BYTES,
                                work.QueryGradients + (static_cast<long long>(of_launch) * work.padded + block.row(step)) * STORED);
                tile++;
            }
        }
        if (arrives) barrier_arrive(shared + K_FREE + 8 * (blocks % K_BUFFERS));
    }
    if (threadIdx.x % WARPGROUP == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
