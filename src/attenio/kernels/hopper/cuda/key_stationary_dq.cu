// Of `key_stationary.cu`: products and additions of dQ, and the warpgroup that has nothing else to do.

// Matrices in shared memory that products take by rows, and by columns; and dS, which has one panel of 128 bytes.
__device__ __forceinline__ u64 by_rows(u32 address) { return descriptor(address, 0, 8 * PANEL * 2, PANEL * 2); }
template <int COUNT>
__device__ __forceinline__ u64 by_columns(u32 address) {
    return descriptor(address, COUNT * PANEL * 2, 8 * PANEL * 2, PANEL * 2);
}
__device__ __forceinline__ u64 ds_at(u32 address) { return descriptor(address, 0, 8 * ROWS * 2, ROWS * 2); }

template <int ME>
__device__ __forceinline__ void dq_threads_meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(DQ_BARRIER + ME), "n"(WARPGROUP) : "memory");
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

// Add a tile of dQ to its accumulators through shared memory: there and in memory it lies as registers hold it, 16 bytes
// of a thread side by side.
template <int ME>
__device__ __forceinline__ void add_tile(const float (&dq)[DQ_COLUMNS / 2], u32 staged, float *to) {
    const int thread = threadIdx.x % WARPGROUP;
    if (thread == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEAVING) : "memory");
    dq_threads_meet<ME>();
    const u32 own = recomputed(staged + thread * 16);
#pragma unroll
    for (int i = 0; i < DQ_COLUMNS / 8; i++)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(own + i * WARPGROUP * 16), "f"(dq[4 * i]),
                     "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                     : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    dq_threads_meet<ME>();
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
#pragma unroll 1
            for (int step = 0; step < block.tiles; step++) {
                barrier_wait(shared + DS_FULL + 8 * (tile % SLOTS), tile / SLOTS & 1);
                u32 shared = recomputed(memory);
                float dq[DQ_COLUMNS / 2] = {};
                issue_dq_products(dq, shared + DS_AT + tile % SLOTS * CONSUMERS * DS_BYTES,
                                  shared + K_AT + blocks % K_BUFFERS * KEY_BYTES);
                products_commit();
                products_wait<0>(dq);
                if (arrives) barrier_arrive(shared + DS_FREE + 8 * (tile % SLOTS));
                add_tile<0>(dq, shared + DQ_AT + tile % STAGED * DQ_BYTES,
                            work.QueryGradients + (static_cast<long long>(of_launch) * work.padded + block.row(step)) * STORED);
                tile++;
            }
        }
        if (arrives) barrier_arrive(shared + K_FREE + 8 * (blocks % K_BUFFERS));
    }
    if (threadIdx.x % WARPGROUP == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
