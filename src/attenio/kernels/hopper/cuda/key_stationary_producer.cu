// Of `key_stationary.cu`: the producer warpgroup loads keys, values and rows of the blocks that it takes.

__device__ __forceinline__ void load_offsets(u32 target, const u16 *source, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(target), "l"(source), "n"(OFFSET_BYTES), "r"(barrier)
                 : "memory");
}

// All panels of so many rows of a matrix.
template <int COUNT>
__device__ __forceinline__ void load_rows(u32 target, const TensorMap *map, u32 barrier, int row, int head, int batch) {
#pragma unroll
    for (int i = 0; i < PANELS; i++)
        load_panel(target + i * COUNT * PANEL * 2, map, barrier, i * PANEL, row, head, batch);
}

__device__ __forceinline__ void produce(u32 shared, const TensorMap *q, const TensorMap *k, const TensorMap *v,
                                        const TensorMap *d_o, const Work &work) {
    u32 tile = 0, blocks = 0, loads = 0;
    const int tiles_of_head = WHOLE_HEADS ? (work.keys + KEYS - 1) / KEYS : 1;
    int index = blockIdx.x * tiles_of_head;
    while (true) {
        const u32 buffer = blocks % K_BUFFERS, k_full = shared + K_FULL + 8 * buffer;
        barrier_wait(shared + K_FREE + 8 * buffer, blocks / K_BUFFERS & 1 ^ 1);
        const bool is_last = index >= work.blocks;
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared + INDEX_AT + INDEX_BYTES * buffer), "r"(is_last ? -1 : index)
                     : "memory");
        if (is_last) {
            barrier_arrive(k_full);
            break;
        }
        const Block block = block_of(index, work);
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared + INDEX_AT + INDEX_BYTES * buffer + 4), "r"(block.tile)
                     : "memory");
        if constexpr (PACKED) leave_block(shared + INDEX_AT + INDEX_BYTES * buffer, block, work);
        const int batch = block.batch_head / static_cast<int>(recomputed(work.kv_heads)), key = block.tile * KEYS;
        const int own = (block.batch_head - batch * work.kv_heads) / static_cast<int>(recomputed(work.group_parts));
        barrier_expect(k_full, KEY_BYTES);
        load_rows<KEYS>(shared + K_AT + buffer * KEY_BYTES, k, k_full, key, own, batch);
        barrier_wait(shared + V_FREE, blocks & 1 ^ 1);
        barrier_expect(shared + V_FULL, KEY_BYTES);
        load_rows<KEYS>(shared + V_AT, v, shared + V_FULL, key, own, batch);
        blocks++;
        for (int head = 0; head < work.group; head++) {
#pragma unroll 1
            for (int step = 0; step < block.tiles; step++) {
                const int row = block.row(step), stage = tile % STAGES;
                const int of_all = block.batch_head * work.group + head;
                const int of_queries = of_all - batch * work.kv_heads * work.group;
                const long long number = static_cast<long long>(of_all) * work.padded + row;
                const u32 q_full = shared + Q_FULL + 8 * stage, do_full = shared + DO_FULL + 8 * stage;
                barrier_wait(shared + ROWS_FREE + 8 * stage, tile / STAGES & 1 ^ 1);
                if constexpr (SHARES_DQ && WHOLE_HEADS) {
                    const Place place = place_of(block, head, step, work);
                    asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(shared + PLACES_AT + 16 * (tile % PLACES)),
                                 "r"(place.sums), "r"(place.head), "r"(row),
                                 "r"(place.is_first | place.is_last << 1 | place.begins << 2 | (loads & 1) << 3)
                                 : "memory");
                    loads += place.loads();
                } else if constexpr (SHARES_DQ) {
                    const int place = (of_all - work.first_head * work.group) * work.padded + row;
                    asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared + PLACES_AT + 4 * (tile % PLACES)), "r"(place)
                                 : "memory");
                }
                barrier_expect(q_full, ROW_BYTES + OFFSET_BYTES);
                load_rows<ROWS>(shared + Q_AT + stage * ROW_BYTES, q, q_full, row, of_queries, batch);
                load_offsets(shared + OFFSETS_AT + stage * OFFSET_BYTES, work.Offsets + number * OFFSETS, q_full);
                barrier_expect(do_full, ROW_BYTES);
                load_rows<ROWS>(shared + DO_AT + stage * ROW_BYTES, d_o, do_full, row, of_queries, batch);
                tile++;
            }
        }
        if (WHOLE_HEADS && block.tile + 1 < tiles_of_head) {
            index++;
            continue;
        }
        asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(index) : "l"(work.Counters) : "memory");
        index = (index + work.programs) * tiles_of_head;
    }
    // The last program to end leaves both counters at 0.
    u32 before;
    asm volatile("atom.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(work.Counters + 1), "r"(work.programs - 1)
                 : "memory");
    if (before == work.programs - 1) asm volatile("st.global.u32 [%0], 0;" ::"l"(work.Counters) : "memory");
}
