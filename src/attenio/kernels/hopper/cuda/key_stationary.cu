// The dataflow `key_stationary` on Hopper in CUDA C++, for heads up to 128 wide: blocks follow each other in a program, so
// that keys of the next are loaded and its products begin while gradients of one are written. A program that is done
// with a block takes the next of the launch, the longest first.
//
//   for each (batch x KV head, tile of 128 keys) that the program takes:
//       producer:    load K and V; for each tile of rows that sees them: load Q_i, dO_i and the offsets of rows
//       consumer g:  keys 64 g .. 64 g + 63 of the tile; P and dP of the first rows are computed, then for each tile i
//           dS^T = P^T (dP^T - delta), shared;  issue dV_g += P^T dO_i and dK_g += dS^T Q_i;  issue
//           S^T = K_g Q_{i+1}^T and dP^T = V_g dO_{i+1}^T;  P^T = exp2(S^T - lse) of the next rows
//       dQ warpgroup: dQ_i = dS K; TMA adds it to the accumulators in memory. With 128 columns there are no registers for
//           it, and consumers compute half of the columns each, a tile of rows late: when dS is shared, in the registers
//           that dP leaves and S' takes next, while dV is computed. With registers of its own, which let S' be issued
//           first, a pass took 4 to 16 percent longer from 1K tokens on
//
// Shared memory is what these products wait for: an instruction of 64 x 64 x 16 with both operands there reads as much as
// it has in the time of the product. So V of 64 columns is held in registers (measured: 12 to 19 percent faster; K
// instead of it 5 to 10, and there is no room for both), and dQ of up to 96 columns is one product, which reads dS once.
// lse and delta are subtracted by the products: 16 columns more of K and Q, or of V and dO, of which a row has three
// numbers of bf16 that sum to lse over the scale and three that sum to delta, and a key has -1. Read by every thread they
// took 256 of some 3,200 accesses of a step with 128 columns; so they take 128. With 64 columns there are also registers
// for S of the next rows beside dP of these, and S is issued before dS is computed; else S comes after, into the
// registers of dP. Up to 96 columns there are registers for P in fp32, and it is not rounded to fp16 and back, which were
// 48 of 293 instructions of a step with 16 columns (measured: 6 to 10 percent faster up to 32 columns, 1 to 3 beyond).
//
// The constants D, STORED, MASKED, PACKED and SHARED_BYTES, the products, and `key_stationary_block.cu`, `_producer.cu`, `_dq.cu`,
// `_tile.cu` and `_step.cu` are written in front of this text by `source.py`.

// Row tiles of a block that not all keys of a consumer are seen by, which come first.
template <class Me>
__device__ __forceinline__ int masked_tiles(Me me, const Block &block, const Work &work) {
    const int own = block.tile * KEYS + me * OWN_KEYS;
    const int first = own + OWN_KEYS <= work.keys ? own + OWN_KEYS - 1 - work.above : 1 << 29;
    return min(max((first - block.first_row + ROWS - 1) / ROWS, 0), block.tiles);
}

// All tiles of rows of a block. Scores of the first have been issued.
template <class Me>
__device__ __forceinline__ void add_rows(Me me, Tile &tile, Gradients &sums, const Block &block, u32 shared,
                                         const Work &work) {
    const Own own = own_keys(me, block, keys_before(block, work));
    const int tiles = block.tiles;
    const u32 stage = tile.number % STAGES, phase = tile.number / STAGES & 1;
    if constexpr (HOLDS_BOTH) {
        barrier_wait(shared + DO_FULL + 8 * stage, phase);
        issue_dp(me, tile, shared, stage);
        products_commit();
        products_wait<1>(tile.s);
        find_weights<MASKED>(tile.s, tile.p, block.row(0), own, work);
    } else {
        products_wait<0>(tile.s);
        find_weights<MASKED>(tile.s, tile.p, block.row(0), own, work);
        barrier_wait(shared + DO_FULL + 8 * stage, phase);
        issue_dp(me, tile, shared, stage);
        products_commit();
    }
    products_wait<0>(tile.dp());
    const bool is_only = work.group * tiles == 1;
    int head = 0, step = 1;
    if (SHARES_DQ && !is_only) {
        if (step == tiles) head = 1, step = 0;
        step_with_dq<MASKED, true>(me, tile, sums, block.row(step++), own, shared, work);
    }
    for (; head < work.group; head++, step = 0) {
        if constexpr (PACKED) {
            for (; step < tiles; step++) {
                int before;
                const Block again = left_block(shared, tile.block, before);
                const int row = again.row(step);
                if (sees_all(me, shared, tile.block, row))
                    row_step<false>(me, tile, sums, 0, {}, shared, work);
                else
                    row_step<true>(me, tile, sums, row, own_keys(me, again, before), shared, work);
            }
        } else if constexpr (MASKED) {
            // With 128 columns read again, so that no register holds it in the loop after this one.
            const Block again = SHARES_DQ ? block_of_tile(0, present_tile(shared, tile.block), work) : block;
            const Own first = own_keys(me, again, 0);
            const int masked = masked_tiles(me, again, work);
            for (; step < masked; step++) row_step<true>(me, tile, sums, again.row(step), first, shared, work);
        }
        for (; step < tiles; step++) row_step<false>(me, tile, sums, 0, {}, shared, work);
    }
    if (!HOLDS_V && is_first_lane()) barrier_arrive(shared + V_FREE);
    if constexpr (SHARES_DQ) {
        if (is_only)
            last_step_with_dq<true>(me, tile, sums, shared, work);
        else
            last_step_with_dq<false>(me, tile, sums, shared, work);
    } else {
        add_values(me, tile, sums, shared);
        issue_rest_of_keys(tile, sums, shared);
        products_commit();
        products_wait<0>(sums.dk);
        held(sums.dv);
        held(tile.ds);
        held(tile.p);
    }
    if (is_first_lane()) barrier_arrive(shared + ROWS_FREE + 8 * (tile.number % STAGES));
    tile.number++;
}

// Gradients of a block that is done, which are written when the first scores of the next one have been issued.
struct Done {
    int index = -1;
    u32 dk[D / 4], dv[D / 4];
};

template <class Me>
__device__ __forceinline__ void write_gradients(Me me, const Done &done, const Work &work) {
    if (done.index < 0) return;
    const Block block = block_of(done.index, work);
    const int key = own_keys(me, block, 0).key;
    const long long first = static_cast<long long>(block.batch_head) * work.keys;
    write_gradient(done.dv, static_cast<u16 *>(work.ValueGradients) + first * work.v_width, key, work.keys, work.v_width);
    write_gradient(done.dk, static_cast<u16 *>(work.KeyGradients) + first * work.width, key, work.keys, work.width);
}

template <class Me>
__device__ __forceinline__ void consume(Me me, u32 shared, const Work &work) {
    Tile tile;
    Gradients sums;
    Done done;
    tile.number = tile.block = 0;
    for (int index; (index = next_block(shared, tile.block)) >= 0; tile.block++) {
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++) tile.s[i] = tile.dp()[i] = 0.0f;
        barrier_wait(shared + Q_FULL + 8 * (tile.number % STAGES), tile.number / STAGES & 1);
        issue_scores(me, tile, shared, tile.number % STAGES);
        products_commit();
        write_gradients(me, done, work);
#pragma unroll
        for (int i = 0; i < D / 2; i++) sums.dk[i] = sums.dv[i] = 0.0f;
        barrier_wait(shared + V_FULL, tile.block & 1);
        if constexpr (HOLDS_V) {
            load_fragments(tile.v, shared + V_AT + me * OWN_KEYS * PANEL * 2);
            __syncwarp();
            if (is_first_lane()) barrier_arrive(shared + V_FREE);
        }
        add_rows(me, tile, sums, block_of(index, work), shared, work);
        done.index = present_block(shared, tile.block);  // read again, so that no register holds it in the loops
        __syncwarp();
        if (is_first_lane()) barrier_arrive(shared + K_FREE + 8 * (tile.block % K_BUFFERS));
        round_gradient(sums.dk, work.scale * SHIFTED_BACK, done.dk);
        round_gradient(sums.dv, SHIFTED_BACK, done.dv);
    }
    write_gradients(me, done, work);
    if (SHARES_DQ && threadIdx.x % WARPGROUP == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__((PRODUCER + 1) * WARPGROUP, 1)
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
            barrier_init(shared + K_FREE + 8 * buffer, 4 * CONSUMERS + (SHARES_DQ ? 0 : 4));
        }
        barrier_init(shared + V_FULL, 1);
        barrier_init(shared + V_FREE, 4 * CONSUMERS);
        for (int slot = 0; slot < SLOTS; slot++) {
            barrier_init(shared + DS_FULL + 8 * slot, 4 * CONSUMERS);
            barrier_init(shared + DS_FREE + 8 * slot, SHARES_DQ ? 4 * CONSUMERS : 4);
        }
        for (int staged = 0; WHOLE_HEADS && staged < STAGED; staged++) barrier_init(shared + SUMS_FULL + 8 * staged, 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    write_minus_ones(shared);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0);  // the same in all threads of a warp
    if (warpgroup == PRODUCER) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (threadIdx.x % WARPGROUP == 0) produce(shared, &q, &k, &v, &d_o, work);
    } else if (!SHARES_DQ && warpgroup == DQ_WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(DQ_REGISTERS));
        if constexpr (!SHARES_DQ) add_query_gradients(shared, work);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
        if constexpr (SAME_CODE)
            consume(Consumer<-1>{warpgroup}, shared, work);
        else if (warpgroup == 0)
            consume(Consumer<0>{}, shared, work);
        else
            consume(Consumer<1>{}, shared, work);
    }
}
