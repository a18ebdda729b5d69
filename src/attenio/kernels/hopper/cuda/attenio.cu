// The dataflow `attenio` on Hopper in CUDA C++: key tiles of any multiple of 16 keys, which Gluon does not have.
//
//   for each (batch x head, row tile, direction) of the program's list:
//       producer:    load Q; for each key tile that the rows may see: load K_j, then V_j
//       consumer c:  rows 64 c .. 64 c + 63 of the tile
//           S = Q K_0^T;  P = softmax step
//           for j = 1 ..:  issue S' = Q K_j^T;  issue O += P V_{j-1};  largest scores of S' while O is computed;
//                          rescale O;  P = weights of S', while products of other consumers run
//           O += P V_last;  write O / l, and m, l if they are wanted
//
// Blocks of a cluster have neighbouring rows of a tile, and each loads its share of the keys for all: rows of keys that
// begin within sectors are read by up to twice as many requests, and so by half of these.
//
// Constants (CONSUMERS, BLOCKS that share an SM, CLUSTER of blocks that share key tiles, KEY_TILE, STAGES, Q_BUFFERS of
// each consumer, D, V, STORED_D, STORED_V, MASKED, BELOW, PACKED, REGISTERS) and the products scores_product() and
// outputs_product() are written in front of this text by `source.py`.
// D and V are columns that are computed with, multiples of 16, STORED_D and STORED_V those of whole panels in shared
// memory; those past a tensor's own are zeros that TMA fills in.

// Named barriers order the consumers: each issues its products when the one before it has. A single one has no turns.
__device__ __forceinline__ void take_turn(int me) {
    if (CONSUMERS > 1) asm volatile("bar.sync %0, 256;" ::"r"(1 + me) : "memory");
}
__device__ __forceinline__ void pass_turn(int me) {
    if (CONSUMERS > 1) asm volatile("bar.arrive %0, 256;" ::"r"(1 + (me + 1) % CONSUMERS) : "memory");
}

// Issue S = Q K^T.
__device__ __forceinline__ void issue_scores(float (&s)[KEY_TILE / 2], u64 q, u64 k) {
#pragma unroll
    for (int step = 0; step < D / 16; step++) {
        const u64 rows = q + columns_at<ROWS, D_PANEL>(step), keys = k + columns_at<KEY_TILE, D_PANEL>(step);
        if (step == 0)
            first_scores_product(s, rows, keys);
        else
            scores_product(s, rows, keys);
    }
    products_commit();
}

// Issue O += P V.
__device__ __forceinline__ void issue_outputs(float (&o)[V / 2], const u32 (&p)[KEY_TILE / 4], u64 v) {
#pragma unroll
    for (int step = 0; step < KEY_TILE / 16; step++)
        outputs_product(o, p[4 * step], p[4 * step + 1], p[4 * step + 2], p[4 * step + 3],
                        v + (step * 16 * V_PANEL * 2 >> 4));
    products_commit();
}

// All threads of all blocks of a cluster have come here.
__device__ __forceinline__ void meet_cluster() {
    __syncwarp();
    cluster_arrive();
    cluster_wait();
}

// A warp is done with a tile: blocks of a cluster load into each other's stages.
__device__ __forceinline__ void free_stage(u32 barrier) {
    const int lane = threadIdx.x % 32;
    if (CLUSTER == 1) {
        if (lane == 0) barrier_arrive(barrier);
    } else if (lane < CLUSTER) {
        barrier_arrive_in(barrier, lane);
    }
}

// Free key and value tiles that other consumers need and this one does not.
__device__ __forceinline__ void skip_tiles(int steps, Ring<STAGES> &ring, u32 shared, int me) {
    for (int i = 0; i < steps; i++) {
        take_turn(me);
        pass_turn(me);
        barrier_wait(shared + K_FULL + 8 * ring.stage, ring.phase);
        free_stage(shared + K_FREE + 8 * ring.stage);
        barrier_wait(shared + V_FULL + 8 * ring.stage, ring.phase);
        free_stage(shared + V_FREE + 8 * ring.stage);
        ring.advance();
    }
}

__device__ __forceinline__ u64 keys_at(u32 shared, int stage) {
    return descriptor(shared + K_AT + stage * K_SLOT, 0, 8 * D_PANEL * 2, D_PANEL * 2);
}

__device__ __forceinline__ u64 values_at(u32 shared, int stage) {
    return descriptor(shared + V_AT + stage * V_SLOT, KEY_TILE * V_PANEL * 2, 8 * V_PANEL * 2, V_PANEL * 2);
}

// Scores of the next key tile beside the output of this one.
template <bool MASKS>
__device__ __forceinline__ void key_step(float (&s)[KEY_TILE / 2], float (&o)[V / 2], u32 (&p)[KEY_TILE / 4],
                                         Rows &rows, Ring<STAGES> &ring, u32 shared, u64 q, int tile, int me,
                                         const Work &work) {
    Ring<STAGES> ahead = ring;
    ahead.advance();
    barrier_wait(shared + K_FULL + 8 * ahead.stage, ahead.phase);
    take_turn(me);
    products_fence();
    issue_scores(s, q, keys_at(shared, ahead.stage));
    barrier_wait(shared + V_FULL + 8 * ring.stage, ring.phase);
    products_fence();
    issue_outputs(o, p, values_at(shared, ring.stage));
    pass_turn(me);
    products_wait<1>(s);
    free_stage(shared + K_FREE + 8 * ahead.stage);
    find_anchors<MASKS>(s, rows, tile, work);
    products_wait<0>(o);  // before the exponentials: P is written as they come
    free_stage(shared + V_FREE + 8 * ring.stage);
    rescale(o, rows);
    weigh(s, p, rows, work.scale_log2);
    ring = ahead;
}

__device__ __forceinline__ void consume(u32 shared, const Work &work, int me) {
    const int thread = threadIdx.x % WARPGROUP, lane = threadIdx.x % 32;
    Ring<STAGES> ring;
    Ring<Q_BUFFERS> queries;
    float s[KEY_TILE / 2], o[V / 2];
    u32 p[KEY_TILE / 4];
    if (me == CONSUMERS - 1) pass_turn(me);
    // Of packed sequences the producer says when there are no more: the first index and the end are bounds only.
    const int end = end_of_entries(work) + PACKED;
    Entry entry = {first_entry(work), 0, 0};
    if (!PACKED) entry = entry_at(entry.index, work);
    while (entry.index < end) {
        const int place = queries.stage * CONSUMERS + me;
        const u32 told = shared + ENTRIES_AT + 4 * NUMBERS * place;
        if (PACKED) {
            barrier_wait(shared + Q_FULL + 8 * place, queries.phase);
            entry.batch_head = read_number(told);
            if (entry.batch_head < 0) break;
            entry.code = read_number(told + 4);
        }
        const int batch_head = entry.batch_head, code = entry.code;
        const int tile_row = first_row(code, work), row = tile_row + (block_of_cluster() * CONSUMERS + me) * ROWS;
        const bool backwards = code % 2;
        const int mine = row + thread / 32 * 16 + lane / 4;  // the first of this thread's two rows
        Range range = {0, work.keys / KEY_TILE, 0, work.keys / KEY_TILE};
        int unseen = 0;
        Rows rows = {mine};
        if (PACKED) find_keys(rows, batch_head / work.heads, read_number(told + 24), work);
        if (MASKED) {
            Range all;
            if (PACKED) {
                range = {read_number(told + 8), read_number(told + 12), read_number(told + 16), read_number(told + 20)};
                all = {0, read_number(told + 28), 0, 0};
            } else {
                all = union_range(tile_row, 0, 0, work);
                range = tile_range(row, 0, 0, work);
            }
            if (range.start >= range.stop) range = {all.start, all.start + 1, 0, 0};
            const int before = backwards ? all.stop - range.stop : range.start - all.start;
            unseen = all.stop - all.start - (range.stop - range.start) - before;
            skip_tiles(before, ring, shared, me);
        }
        const float sink = work.Sinks ? work.Sinks[batch_head % work.heads] * LOG2_E : -INFINITY_F;
#pragma unroll
        for (int of = 0; of < 2; of++) {
            rows.largest[of] = sink;
            rows.total[of] = work.Sinks && lane % 4 == 0 ? 1.0f : 0.0f;  // a first weight, whose value is zero
        }
#pragma unroll
        for (int i = 0; i < V / 2; i++) o[i] = 0.0f;
        int tile = backwards ? range.stop - 1 : range.start;
        const int onward = backwards ? -1 : 1, steps = range.stop - range.start - 1;

        const u64 q = descriptor(shared + Q_AT + place * Q_SLOT, 0, 8 * D_PANEL * 2, D_PANEL * 2);
        if (!PACKED) barrier_wait(shared + Q_FULL + 8 * place, queries.phase);
        queries.advance();
        barrier_wait(shared + K_FULL + 8 * ring.stage, ring.phase);
        take_turn(me);
        products_fence();
        issue_scores(s, q, keys_at(shared, ring.stage));
        pass_turn(me);
        products_wait<0>(s);
        free_stage(shared + K_FREE + 8 * ring.stage);
        find_anchors<MASKED>(s, rows, tile, work);
        weigh(s, p, rows, work.scale_log2);
        if (MASKED) {
            // Masked tiles at the first end, those that all rows see whole, masked tiles at the other end.
            const int whole_start = min(max(range.whole_start, range.start), range.stop);
            const int whole_stop = min(max(range.whole_stop, whole_start), range.stop);
            const int low = whole_start - range.start, high = range.stop - whole_stop;
            const int first = min(max((backwards ? high : low) - 1, 0), steps);
            const int last = min(backwards ? low : high, steps - first);
            for (int end = 0; end < 2; end++) {
                for (int i = 0; i < (end ? last : first); i++)
                    key_step<true>(s, o, p, rows, ring, shared, q, tile += onward, me, work);
                for (int i = 0; i < (end ? 0 : steps - first - last); i++)
                    key_step<false>(s, o, p, rows, ring, shared, q, tile += onward, me, work);
            }
        } else {
            for (int i = 0; i < steps; i++)
                key_step<false>(s, o, p, rows, ring, shared, q, tile, me, work);
        }
        if (lane == 0) barrier_arrive(shared + Q_FREE + 8 * place);
        barrier_wait(shared + V_FULL + 8 * ring.stage, ring.phase);
        products_fence();
        issue_outputs(o, p, values_at(shared, ring.stage));
        const long long out_row = static_cast<long long>(batch_head) * work.queries;
        if (PACKED)
            entry.index++;
        else
            entry = entry_at(next_of(entry.index, work), work);
        products_wait<0>(o);
        free_stage(shared + V_FREE + 8 * ring.stage);
        ring.advance();
        if (MASKED) skip_tiles(unseen, ring, shared, me);
#pragma unroll
        for (int of = 0; of < 2; of++) {
            rows.total[of] += __shfl_xor_sync(0xffffffff, rows.total[of], 1);
            rows.total[of] += __shfl_xor_sync(0xffffffff, rows.total[of], 2);
            if (lane % 4 == 0 && is_there(mine + 8 * of, work)) {
                if (work.Largest) work.Largest[out_row + mine + 8 * of] = rows.largest[of];
                if (work.Total) work.Total[out_row + mine + 8 * of] = rows.total[of];
            }
        }
        write_rows(o, rows, mine, out_row, work);
    }
    if (me == 0) take_turn(me);  // what the last one passed on
}

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, BLOCKS)
#if CLUSTERED
__cluster_dims__(CLUSTER, 1, 1)
#endif
attenio_kernel(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
               const __grid_constant__ TensorMap v, const __grid_constant__ Work work) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const u32 shared = shared_address(memory);
    if (threadIdx.x == 0) {
        prefetch_map(&q), prefetch_map(&k), prefetch_map(&v);
        for (int c = 0; c < Q_BUFFERS * CONSUMERS; c++) {
            barrier_init(shared + Q_FULL + 8 * c, 1);
            barrier_init(shared + Q_FREE + 8 * c, 4);
        }
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(shared + K_FULL + 8 * stage, 1);
            barrier_init(shared + V_FULL + 8 * stage, 1);
            barrier_init(shared + K_FREE + 8 * stage, 4 * CLUSTER * CONSUMERS);
            barrier_init(shared + V_FREE + 8 * stage, 4 * CLUSTER * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    if (CLUSTER == 1)
        __syncthreads();
    else
        meet_cluster();
    // The launch before has ended: the next one begins when all of this have, since blocks that take what room there is
    // would not be spread evenly (runs 56 and 57 of `studies/hopper/tuning.json`).
    asm volatile("griddepcontrol.wait;" ::: "memory");
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0);  // the same in all threads of a warp
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (threadIdx.x % WARPGROUP == 0) produce(shared, &q, &k, &v, work);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
        consume(shared, work, warpgroup);
    }
    if (CLUSTER > 1) meet_cluster();  // others still load into this block, and arrive at its barriers
}
