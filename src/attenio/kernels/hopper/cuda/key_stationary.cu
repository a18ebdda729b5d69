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
// The constants D and MASKED, the products, and `key_stationary_block.cu`, `_producer.cu`, `_dq.cu` and `_tile.cu` are
// written in front of this text by `source.py`.

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
