// Of `key_stationary.cu`: a step of a consumer, which adds a tile of rows to the gradients and finds P and dP of the next.

// With a warpgroup that computes dQ: dV and half of dK are issued as dS comes, and then the scores of the next tile.
template <bool MASKS, class Me>
__device__ __forceinline__ void step_beside_dq(Me me, Tile &tile, Gradients &sums, int row, const Own &own, u32 memory,
                                               const Work &work) {
    const u32 shared = recomputed(memory);
    const u32 next = (tile.number + 1) % STAGES, phase = (tile.number + 1) / STAGES & 1;
    if constexpr (HOLDS_BOTH) {
        barrier_wait(shared + Q_FULL + 8 * next, phase);
        issue_scores(me, tile, shared, next);
        products_commit();
        add_values(me, tile, sums, shared);
        issue_rest_of_keys(tile, sums, shared);
        barrier_wait(shared + DO_FULL + 8 * next, phase);
        issue_dp(me, tile, shared, next);
        products_commit();
        products_wait<1>(tile.s);
    } else {
        add_values(me, tile, sums, shared);
        barrier_wait(shared + Q_FULL + 8 * next, phase);
        issue_scores(me, tile, shared, next);
        products_commit();
        issue_rest_of_keys(tile, sums, shared);
        products_commit();
        products_wait<1>(tile.s);
    }
    held(sums.dv);
    held(tile.p);
    find_weights<MASKS>(tile.s, tile.p, row, own, work);
    products_wait<0>(sums.dk);
    held(tile.ds);
    if (is_first_lane()) barrier_arrive(shared + ROWS_FREE + 8 * (tile.number % STAGES));
    if constexpr (HOLDS_BOTH) {
        held(tile.dp());
    } else {
        barrier_wait(shared + DO_FULL + 8 * next, phase);
        issue_dp(me, tile, shared, next);
        products_commit();
        products_wait<0>(tile.dp());
    }
    tile.number++;
}

// Share dS of a tile of rows, compute dQ of the tile before in the registers that dP leaves, and add it while dV is
// computed. So consumers do not wait for each other's dS. The first tile of a block has none before it.
template <bool FIRST, class Me>
__device__ __forceinline__ void share_and_add_dq(Me me, Tile &tile, Gradients &sums, u32 shared, const Work &work) {
    const u32 stage = tile.number % STAGES, slot = tile.number % SLOTS;
    const u32 ds_at = shared + DS_AT + (slot * CONSUMERS + me) * DS_BYTES;
    barrier_wait(shared + DS_FREE + 8 * slot, tile.number / SLOTS & 1 ^ 1);
    share_ds(tile.dp(), tile.p, tile.ds, ds_at, 0);
    share_ds(tile.dp(), tile.p, tile.ds, ds_at, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (is_first_lane()) barrier_arrive(shared + DS_FULL + 8 * slot);
    if constexpr (!FIRST) issue_dq(me, tile.s, tile.block, tile.number - 1, shared);
    products_fence();
    const u64 d_o = by_columns<ROWS>(shared + DO_AT + stage * ROW_BYTES);
    issue_gradient(sums.dv, tile.p, d_o, 0);
    issue_gradient(sums.dv, tile.p, d_o, 1);
    products_commit();
    if constexpr (!FIRST) {
        products_wait<1>(tile.s);
        add_dq(me, tile.s, tile.number - 1, shared, work);
    }
}

__device__ __forceinline__ void issue_keys(Tile &tile, Gradients &sums, u32 shared) {
    products_fence();
    const u64 q = by_columns<ROWS>(shared + Q_AT + tile.number % STAGES * ROW_BYTES);
    issue_gradient(sums.dk, tile.ds, q, 0);
    issue_gradient(sums.dk, tile.ds, q, 1);
    products_commit();
}

template <bool MASKS, bool FIRST, class Me>
__device__ __forceinline__ void step_with_dq(Me me, Tile &tile, Gradients &sums, int row, const Own &own, u32 memory,
                                             const Work &work) {
    const u32 shared = recomputed(memory);
    const u32 next = (tile.number + 1) % STAGES, phase = (tile.number + 1) / STAGES & 1;
    share_and_add_dq<FIRST>(me, tile, sums, shared, work);
    barrier_wait(shared + Q_FULL + 8 * next, phase);
    issue_scores(me, tile, shared, next);
    products_commit();
    if constexpr (HOLDS_BOTH) {
        barrier_wait(shared + DO_FULL + 8 * next, phase);
        issue_dp(me, tile, shared, next);
        products_commit();
    }
    issue_keys(tile, sums, shared);
    if constexpr (WHOLE_HEADS) load_sums(me, shared, me, present_place(shared, tile.number), work);
    products_wait<HOLDS_BOTH ? 2 : 1>(tile.s);
    held(sums.dv);
    held(tile.p);
    find_weights<MASKS>(tile.s, tile.p, row, own, work);
    products_wait<0>(sums.dk);
    held(tile.ds);
    if (is_first_lane()) barrier_arrive(shared + ROWS_FREE + 8 * (tile.number % STAGES));
    if constexpr (HOLDS_BOTH) {
        held(tile.dp());
    } else {
        barrier_wait(shared + DO_FULL + 8 * next, phase);
        issue_dp(me, tile, shared, next);
        products_commit();
        products_wait<0>(tile.dp());
    }
    tile.number++;
}

// The last tile of a block, which may be the first.
template <bool FIRST, class Me>
__device__ __forceinline__ void last_step_with_dq(Me me, Tile &tile, Gradients &sums, u32 shared, const Work &work) {
    share_and_add_dq<FIRST>(me, tile, sums, shared, work);
    issue_keys(tile, sums, shared);
    if constexpr (WHOLE_HEADS) load_sums(me, shared, me, present_place(shared, tile.number), work);
    issue_dq(me, tile.s, tile.block, tile.number, shared);
    products_wait<0>(tile.s);
    held(sums.dk);
    held(sums.dv);
    held(tile.ds);
    held(tile.p);
    add_dq(me, tile.s, tile.number, shared, work);
}

template <bool MASKS, class Me>
__device__ __forceinline__ void row_step(Me me, Tile &tile, Gradients &sums, int row, const Own &own, u32 memory,
                                         const Work &work) {
    if constexpr (SHARES_DQ)
        step_with_dq<MASKS, false>(me, tile, sums, row, own, memory, work);
    else
        step_beside_dq<MASKS>(me, tile, sums, row, own, memory, work);
}
