// The dataflow `split_keys` on Hopper where values are the first 512 columns of keys, in CUDA C++: two consumers that do
// the same. Consumer c holds columns 256 c .. of O, and computes the scores of tiles c, c + 2, ..
//
//   for each (sequence, KV head), each run of keys, each tile of 64 rows (queries x heads of the group):
//       producer:    load Q; for each tile j of 64 keys: the half of its values that the consumer of its scores holds,
//                    the other half, the last 64 columns; halves go to the next of UNITS places
//       consumer c:  for j = c, c + 2, ..:
//           wait for O += P_{j-2} V_{j-2};  issue S = Q K_j^T
//           wait for P_{j-1} of the other consumer;  rescale O;  issue O += P_{j-1} V_{j-1}
//           softmax step of S -> P_j, while O is computed;  P_j and its anchors to shared memory
//           rescale O;  issue O += P_j V_j, which runs beside the softmax step of the other consumer
//       write O / l, m, l of the run;  another kernel joins the runs
//
// A latent is loaded once for both products, and by a cluster once for two row tiles: each block loads half of it for
// both. Constants (CLUSTER, UNITS, AHEAD: tiles that are brought to L2 in advance, RANGED: rows see different keys,
// WIDE_RUNS: O is written in fp32, SHARED_BYTES) and the products scores_product(), held_scores_product(),
// own_outputs_product() and their_outputs_product() are written in front of this text by `source.py`.

// The last 64 columns of both halves of the queries, the own first, and those that are no values.
struct Held {
    u32 own[16], other[16], rope[16];
};

// 64 columns of queries as wgmma takes them from registers.
__device__ __forceinline__ void hold(u32 (&to)[16], const Work &work, const Run &run, int column) {
    const int thread = threadIdx.x % WARPGROUP, row = run.row + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int at = min(row + i % 2 * 8, work.row_count - 1), from = column + i / 4 * 16 + i / 2 % 2 * 8 + thread % 4 * 2;
        const long long place = static_cast<long long>(run.batch_head) * work.row_count + at;
        asm volatile("ld.global.b32 %0, [%1];" : "=r"(to[i]) : "l"(work.Queries + place * LATENT + from));
    }
}

__device__ __forceinline__ u64 matrix_of_rows(u32 address) { return descriptor(address, 0, 1024, 128); }
__device__ __forceinline__ u64 values_in(u32 address) { return descriptor(address, BOX, 1024, 128); }

// Issue S = Q K^T of half of the values' columns, or add to it.
template <bool FIRST>
__device__ __forceinline__ void half_of_scores(float (&s)[KEYS / 2], u64 q, const u32 *held_columns, u64 k) {
#pragma unroll
    for (int step = 0; step < 4 * Q_HALF; step++) {
        const u64 rows = q + columns_at<ROWS, 64>(step), keys = k + columns_at<KEYS, 64>(step);
        if (FIRST && step == 0)
            first_scores_product(s, rows, keys);
        else
            scores_product(s, rows, keys);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        held_scores_product(s, held_columns[4 * i], held_columns[4 * i + 1], held_columns[4 * i + 2],
                            held_columns[4 * i + 3], k + columns_at<KEYS, 64>(4 * Q_HALF + i));
}

__device__ __forceinline__ void rope_of_scores(float (&s)[KEYS / 2], const u32 *held_columns, u64 k) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        held_scores_product(s, held_columns[4 * i], held_columns[4 * i + 1], held_columns[4 * i + 2],
                            held_columns[4 * i + 3], k + 2 * i);
}

// Named barriers 1 and 2: P of a consumer is there.
__device__ __forceinline__ void tell(int me) { asm volatile("bar.arrive %0, 256;" ::"r"(1 + me) : "memory"); }
__device__ __forceinline__ void listen(int to) { asm volatile("bar.sync %0, 256;" ::"r"(1 + to) : "memory"); }

// Issue O += P V with P in shared memory, or in registers.
__device__ __forceinline__ void issue_theirs(float (&o)[HALF / 2], u64 p, u64 v) {
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++) their_outputs_product(o, p + 2 * step, v + (step * 16 * 128 >> 4));
    products_commit();
}
__device__ __forceinline__ void issue_own(float (&o)[HALF / 2], const u32 (&p)[KEYS / 4], u64 v) {
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
        own_outputs_product(o, p[4 * step], p[4 * step + 1], p[4 * step + 2], p[4 * step + 3], v + (step * 16 * 128 >> 4));
    products_commit();
}

// Where halves of tiles lie, and anchors: unit 2 j is of the half that the consumer of scores j holds.
struct Places {
    u32 shared;
    int me;
    __device__ __forceinline__ u32 unit(u32 number) const { return shared + K_AT + number % UNITS * UNIT; }
    __device__ __forceinline__ void wait_unit(u32 number) const {
        barrier_wait(shared + FULL + 8 * (number % UNITS), number / UNITS & 1);
    }
    __device__ __forceinline__ void free_unit(u32 number) const {
        if (recomputed(threadIdx.x) % 32 == 0) free_everywhere(shared + FREE + 8 * (number % UNITS));
    }
    __device__ __forceinline__ u32 anchors(int of) const { return shared + ANCHORS_AT + of * ROWS * 4; }
};

// Tile j, whose scores this consumer computes. Before the first of all tiles there is one whose weights are zero.
__device__ __forceinline__ void own_tile(float (&s)[KEYS / 2], float (&o)[HALF / 2], u32 (&p)[KEYS / 4], Rows &rows,
                                         const Held &queries, const Places &at, u32 tile, int key, bool whole,
                                         float scale_log2) {
    float factor[2];
    const int other = at.me ^ 1;
    const u64 q_own = matrix_of_rows(at.shared + Q_AT + at.me * Q_HALF * BOX);
    const u64 q_other = matrix_of_rows(at.shared + Q_AT + other * Q_HALF * BOX);
    products_wait<0>(o);  // O += P_{j-2} V_{j-2}
    held(p);
    if (tile >= 2) at.free_unit(2 * tile - 4);
    at.wait_unit(2 * tile);
    products_fence();
    half_of_scores<true>(s, q_own, queries.own, matrix_of_rows(at.unit(2 * tile)));
    at.wait_unit(2 * tile + 1);
    half_of_scores<false>(s, q_other, queries.other, matrix_of_rows(at.unit(2 * tile + 1)));
    barrier_wait(at.shared + ROPE_FULL + 8 * at.me, tile / 2 & 1);
    rope_of_scores(s, queries.rope, matrix_of_rows(at.shared + ROPE_AT));
    products_commit();
    listen(other);
    take_anchors(at.anchors(other), rows, factor);
    rescale(o, factor);
    products_fence();
    issue_theirs(o, matrix_of_rows(at.shared + P_AT), values_in(at.unit(tile == 0 ? 0 : 2 * tile - 1)));
    products_wait<1>(s);
    if (recomputed(threadIdx.x) % 32 == 0) free_everywhere(at.shared + ROPE_FREE);
    softmax_step(s, p, factor, rows, whole, key, scale_log2);
    products_wait<0>(o);  // before P is overwritten, which it reads
    if (tile > 0) at.free_unit(2 * tile - 1);
    hand_over(at.shared + P_AT, at.anchors(at.me), p, rows);
    tell(at.me);
    rescale(o, factor);
    products_fence();
    issue_own(o, p, values_in(at.unit(2 * tile)));
}

// Write 256 columns of rows: in 16 bits four threads exchange theirs for 8 neighbours each.
__device__ __forceinline__ void write_rows(const float (&o)[HALF / 2], const float (&inverse)[2], int row, long long out_row,
                                           int column, const Work &work) {
    const int lane = threadIdx.x % 4;
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const int at = row + 8 * of;
        if (!WIDE_RUNS) {
            u16 *to = static_cast<u16 *>(work.Output) + (out_row + at) * WIDTH + column;
#pragma unroll
            for (int chunk = 0; chunk < HALF / 8; chunk += 4) {
                u32 words[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int first = (chunk + i) * 4 + 2 * of;
                    words[i] = packed(o[first] * inverse[of], o[first + 1] * inverse[of]);
                }
                exchange(words, lane);
                if (at < work.row_count)
                    *reinterpret_cast<uint4 *>(to + (chunk + lane) * 8) = make_uint4(words[0], words[1], words[2], words[3]);
            }
        } else {
            float *to = static_cast<float *>(work.Output) + (out_row + at) * WIDTH + column + lane * 2;
            if (at < work.row_count) {
#pragma unroll
                for (int chunk = 0; chunk < HALF / 8; chunk++)
                    *reinterpret_cast<float2 *>(to + chunk * 8) =
                        make_float2(o[chunk * 4 + 2 * of] * inverse[of], o[chunk * 4 + 2 * of + 1] * inverse[of]);
            }
        }
    }
}

__device__ __forceinline__ void consume(u32 shared, const Work &work, const Run &run, int me) {
    const int thread = threadIdx.x % WARPGROUP, lane = threadIdx.x % 32;
    const Places at = {shared, me};
    const int row = run.row + thread / 32 * 16 + lane / 4;
    Held queries;
    hold(queries.own, work, run, me * HALF + 64 * Q_HALF);
    hold(queries.other, work, run, (me ^ 1) * HALF + 64 * Q_HALF);
    hold(queries.rope, work, run, WIDTH);
    Rows rows;
    int whole_first = 0, whole_stop = run.stop;
#pragma unroll
    for (int of = 0; of < 2; of++) {
        rows.first[of] = 0;
        rows.stop[of] = run.stop;
        if (RANGED) {
            const int near = (row + 8 * of) % work.queries;
            rows.first[of] = near + work.below;
            rows.stop[of] = min(near + work.above + 1, run.stop);
        }
        rows.largest[of] = -INFINITY_F;
        rows.total[of] = 0.0f;
    }
    if (RANGED) {
        whole_first = work.queries - 1 + work.below;
        whole_stop = min(work.above + 1, run.stop);
    }
    float s[KEYS / 2], o[HALF / 2], factor[2];
    u32 p[KEYS / 4];
#pragma unroll
    for (int i = 0; i < HALF / 2; i++) o[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) p[i] = 0;
    barrier_wait(shared + Q_FULL, 0);
    if (me == 1) {
        hand_over(shared + P_AT, at.anchors(1), p, rows);
        tell(1);
    }
    for (int tile = me, key = run.start + me * KEYS; tile < run.tiles; tile += 2, key += 2 * KEYS)
        own_tile(s, o, p, rows, queries, at, tile, key, key >= whole_first && key + KEYS <= whole_stop, work.scale_log2);
    products_wait<0>(o);
    held(p);
    if ((run.tiles - 1) % 2 != me) {
        listen(me ^ 1);
        take_anchors(at.anchors(me ^ 1), rows, factor);
        rescale(o, factor);
        products_fence();
        issue_theirs(o, matrix_of_rows(shared + P_AT), values_in(at.unit(2 * run.tiles - 1)));
        products_wait<0>(o);
    }
    if (CLUSTER > 1) cluster_arrive_relaxed();  // nothing of the other block is touched any more
    float inverse[2];
    const int within = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int of = 0; of < 2; of++) {
        rows.total[of] += __shfl_xor_sync(0xffffffff, rows.total[of], 1);
        rows.total[of] += __shfl_xor_sync(0xffffffff, rows.total[of], 2);
        if (lane % 4 == 0) write_number(shared + TOTALS_AT + 4 * (me * ROWS + within + 8 * of), rows.total[of]);
    }
    asm volatile("bar.sync 3, 256;" ::: "memory");
    const long long out_row = (static_cast<long long>(run.batch_head) * work.splits + run.split) * work.row_count;
#pragma unroll
    for (int of = 0; of < 2; of++) {
        const float total = rows.total[of] + read_number(shared + TOTALS_AT + 4 * ((me ^ 1) * ROWS + within + 8 * of));
        inverse[of] = 1.0f / (total == 0.0f ? 1.0f : total);
        if (me == 0 && lane % 4 == 0 && row + 8 * of < work.row_count) {
            work.Largest[out_row + row + 8 * of] = rows.largest[of];
            work.Total[out_row + row + 8 * of] = total;
        }
    }
    write_rows(o, inverse, row, out_row, me * HALF, work);
}

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
#if CLUSTERED
__cluster_dims__(2, 1, 1)
#endif
split_latents_kernel(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                     const __grid_constant__ Work work) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const u32 shared = shared_address(memory), rank = block_in_cluster();
    if (threadIdx.x == 0) {
        barrier_init(shared + Q_FULL, 1);
        for (int i = 0; i < UNITS; i++) {
            barrier_init(shared + FULL + 8 * i, 1);
            barrier_init(shared + FREE + 8 * i, 4 * CLUSTER);
        }
        for (int i = 0; i < 2; i++) barrier_init(shared + ROPE_FULL + 8 * i, 1);
        barrier_init(shared + ROPE_FREE, 4 * CLUSTER);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    if (threadIdx.x == CONSUMERS * WARPGROUP) {
        prefetch_map(&q);
        prefetch_map(&k);
    }
    const Run run = run_of(work);
    __syncwarp();
    if (CLUSTER > 1) {
        cluster_arrive_relaxed();
        cluster_wait();
    } else {
        __syncthreads();
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0);  // the same in all threads of a warp
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (threadIdx.x % WARPGROUP == 0) produce(shared, &q, &k, run, rank, work);
        __syncwarp();
        if (CLUSTER > 1) {
            cluster_arrive_relaxed();
            cluster_wait();
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
        consume(shared, work, run, warpgroup);
        if (CLUSTER > 1) cluster_wait();
    }
}
