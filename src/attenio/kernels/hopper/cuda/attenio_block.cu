// Of `attenio.cu`: sizes, places in shared memory, what a launch hands over, which keys rows see, and the producer.

constexpr int ROWS = 64;              // of a consumer warpgroup: those of one wgmma instruction
constexpr int ENTRY = 4;              // numbers of an entry of the list
constexpr int PRODUCER_REGISTERS = 24;
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float SLACK = 8.0f;         // an anchor follows the largest score when that is so many powers of two above

constexpr int D_PANEL = panel(STORED_D), V_PANEL = panel(STORED_V);
constexpr int Q_BYTES = ROWS * STORED_D * 2, K_BYTES = KEY_TILE * STORED_D * 2, V_BYTES = KEY_TILE * STORED_V * 2;
constexpr int TILE_ROWS = CLUSTER * CONSUMERS * ROWS;  // of an entry: blocks of a cluster share its key tiles
constexpr int ROUND = 1024;           // a panel begins where a pattern of the swizzle does
__host__ __device__ constexpr int rounded(int bytes) { return (bytes + ROUND - 1) / ROUND * ROUND; }
constexpr int Q_SLOT = rounded(Q_BYTES), K_SLOT = rounded(K_BYTES), V_SLOT = rounded(V_BYTES);
constexpr int Q_AT = 0;
constexpr int K_AT = Q_AT + Q_BUFFERS * CONSUMERS * Q_SLOT;
constexpr int V_AT = K_AT + STAGES * K_SLOT;
constexpr int BARRIERS_AT = V_AT + STAGES * V_SLOT;
// Barriers: Q full and free of every buffer and consumer, K and V full and free of every stage.
constexpr int Q_FULL = BARRIERS_AT, Q_FREE = Q_FULL + 8 * Q_BUFFERS * CONSUMERS;
constexpr int K_FULL = Q_FREE + 8 * Q_BUFFERS * CONSUMERS;
constexpr int K_FREE = K_FULL + 8 * STAGES, V_FULL = K_FREE + 8 * STAGES, V_FREE = V_FULL + 8 * STAGES;
// Of packed sequences: what the rows in each buffer of each consumer are, so many numbers.
constexpr int ENTRIES_AT = V_FREE + 8 * STAGES, NUMBERS = 8;

struct Work {
    float *Largest, *Total;  // null where nobody wants them
    void *Output;
    const int *Starts, *Entries;
    const float *Sinks;  // or null
    // Of packed sequences: the first key of each row and the one after the last, neither of which falls from one row to
    // the next, row tiles in the order in which they are begun, and how many are besides the first of each program and
    // programs that are done.
    const long long *First, *Stop;
    const int *Order;
    u32 *Counters;
    int heads, group, queries, keys, below, above, width;
    int missing;  // rows that the first tile has before the first row, so that the last one is whole
    // Of packed sequences; so many heads come together, and a step leads from one of the batch to the next.
    int row_tiles, batch_heads, together, row_step;
    float scale_log2;
};

// The first row of an entry's tile, which may not be there.
__device__ __forceinline__ int first_row(int code, const Work &work) {
    return code / 2 * TILE_ROWS - work.missing;
}
// Blocks of a cluster have one list, and parts of its row tiles.
__device__ __forceinline__ int program() { return blockIdx.x / CLUSTER; }
__device__ __forceinline__ int block_of_cluster() { return blockIdx.x % CLUSTER; }
__device__ __forceinline__ bool is_there(int row, const Work &work) {
    return static_cast<u32>(row) < static_cast<u32>(work.queries);
}

// Of packed sequences: the first key that a row sees, and the one after the last.
__device__ __forceinline__ int first_key(int row, int batch, const Work &work) {
    const int first = static_cast<int>(work.First[batch * work.row_step + row]);
    return max(max(first, row + work.below), 0);
}
__device__ __forceinline__ int stop_key(int row, int batch, const Work &work) {
    const int stop = static_cast<int>(work.Stop[batch * work.row_step + row]);
    return min(min(stop, row + work.above + 1), work.keys);
}
// Key tiles of packed sequences are counted from the first key that a row tile sees: it may be in the midst of others.
__device__ __forceinline__ int first_key_of_tile(int row, int batch, const Work &work) {
    return PACKED ? first_key(row, batch, work) : 0;
}

struct Range {
    int start, stop, whole_start, whole_stop;
};

// Key tiles that 64 rows may see, from this key on, and those that all of them see whole.
__device__ __forceinline__ Range tile_range(int row, int batch, int from, const Work &work) {
    const int last = min(row + ROWS, work.queries) - 1;
    if (PACKED) {
        if (row >= work.queries) return {0, 0, 0, 0};
        const int first = first_key(row, batch, work) - from, last_first = first_key(last, batch, work) - from;
        const int first_stop = stop_key(row, batch, work) - from, stop = stop_key(last, batch, work) - from;
        if (first >= stop) return {0, 0, 0, 0};
        return {first / KEY_TILE, (stop + KEY_TILE - 1) / KEY_TILE, (last_first + KEY_TILE - 1) / KEY_TILE,
                max(first_stop, 0) / KEY_TILE};
    }
    const int first = max(row + work.below, 0), last_first = max(last + work.below, 0);
    const int first_stop = min(row + work.above + 1, work.keys), stop = min(last + work.above + 1, work.keys);
    if (first >= stop || row >= work.queries) return {0, 0, 0, 0};
    return {first / KEY_TILE, (stop + KEY_TILE - 1) / KEY_TILE, (last_first + KEY_TILE - 1) / KEY_TILE,
            max(first_stop, 0) / KEY_TILE};
}

__device__ __forceinline__ void add_range(Range &all, const Range &mine) {
    if (mine.start < mine.stop) all.start = all.start < all.stop ? min(all.start, mine.start) : mine.start;
    all.stop = max(all.stop, mine.stop);
}

// Key tiles that some consumer sees: at least one, so that no loop is empty.
__device__ __forceinline__ Range union_range(int row, int batch, int from, const Work &work) {
    if (!MASKED) return {0, work.keys / KEY_TILE, 0, 0};
    if (PACKED) {  // neither end falls from row to row
        const int stop = stop_key(min(row + TILE_ROWS, work.queries) - 1, batch, work) - from;
        return {0, max((stop + KEY_TILE - 1) / KEY_TILE, 1), 0, 0};
    }
    Range all = tile_range(row, batch, from, work);
#pragma unroll
    for (int c = 1; c < CLUSTER * CONSUMERS; c++) add_range(all, tile_range(row + c * ROWS, batch, from, work));
    all.stop = max(all.stop, all.start + 1);
    return all;
}

// What a program computes next: a row tile of a batch x head, whose keys it walks in this direction.
struct Entry {
    int index, batch_head, code;
};

// The entry of an index; the one after the last is there, too. Programs have lists. Of packed sequences, whose lengths
// the host does not know, each takes the row tile that comes next when it needs one.
__device__ __forceinline__ Entry entry_at(int index, const Work &work) {
    if (PACKED) {
        if (index >= work.row_tiles * work.batch_heads) return {index, 0, 0};
        const int run = work.row_tiles * work.together, before = index / run * work.together;
        const int heads = min(work.together, work.batch_heads - before), place = index % run;
        return {index, before + place % heads, work.Order[place / heads] * 2};
    }
    return {index, work.Entries[ENTRY * index], work.Entries[ENTRY * index + 1]};
}
__device__ __forceinline__ int first_entry(const Work &work) { return PACKED ? program() : work.Starts[program()]; }
__device__ __forceinline__ int end_of_entries(const Work &work) {
    return PACKED ? work.row_tiles * work.batch_heads : work.Starts[program() + 1];
}
__device__ __forceinline__ int next_of(int index, const Work &work) {
    if (!PACKED) return index + 1;
    u32 more;
    asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(more) : "l"(work.Counters) : "memory");
    return more + gridDim.x;
}

__device__ __forceinline__ void write_number(u32 at, int number) {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(at), "r"(number) : "memory");
}
__device__ __forceinline__ int read_number(u32 at) {
    int number;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(number) : "r"(at) : "memory");
    return number;
}

// The producer tells a consumer of packed sequences what it computes next, in numbers that come with its queries.
__device__ __forceinline__ void tell(u32 shared, int place, const Entry &entry, int from, const Range &mine, int stop) {
    const u32 at = shared + ENTRIES_AT + 4 * NUMBERS * place;
    write_number(at, entry.batch_head), write_number(at + 4, entry.code);
    write_number(at + 8, mine.start), write_number(at + 12, mine.stop);
    write_number(at + 16, mine.whole_start), write_number(at + 20, mine.whole_stop);
    write_number(at + 24, from), write_number(at + 28, stop);
}
// After the last row tile: there is none.
__device__ __forceinline__ void tell_end(u32 shared, int place) {
    write_number(shared + ENTRIES_AT + 4 * NUMBERS * place, -1);
    barrier_arrive(shared + Q_FULL + 8 * place);
}

template <int ROW_COUNT, int WIDTH, int PANEL>
__device__ __forceinline__ void load_tile(u32 target, const TensorMap *map, u32 barrier, int row, int head, int batch) {
    barrier_expect(barrier, ROW_COUNT * WIDTH * 2);
#pragma unroll
    for (int column = 0; column < WIDTH; column += PANEL)
        load_panel(target + column * ROW_COUNT * 2, map, barrier, column, row, head, batch);
}

// A tile of keys or values. Each block of a cluster loads its share for all, and waits for the whole tile.
template <int WIDTH, int PANEL>
__device__ __forceinline__ void load_keys(u32 target, const TensorMap *map, u32 barrier, int key, int head, int batch) {
    if (CLUSTER == 1) return load_tile<KEY_TILE, WIDTH, PANEL>(target, map, barrier, key, head, batch);
    constexpr int SHARE = KEY_TILE / CLUSTER;
    const int first = recomputed(block_of_cluster()) * SHARE;
    barrier_expect(barrier, KEY_TILE * WIDTH * 2);
#pragma unroll 1
    for (int column = 0; column < WIDTH; column += PANEL)
        load_panel_for((1 << CLUSTER) - 1, target + (column * KEY_TILE + first * PANEL) * 2, map, barrier, column,
                       key + first, head, batch);
}

__device__ __forceinline__ void produce(u32 shared, const TensorMap *q, const TensorMap *k, const TensorMap *v,
                                        const Work &work) {
    Ring<STAGES> ring;
    Ring<Q_BUFFERS> queries;
    const int end = end_of_entries(work);
    Entry entry = entry_at(first_entry(work), work);
    while (entry.index < end) {
        const int batch = entry.batch_head / work.heads, head = entry.batch_head % work.heads;
        const int row = first_row(entry.code, work), backwards = entry.code % 2;
        const Entry present = entry;
        int next = PACKED ? 0 : next_of(entry.index, work);
        if (!PACKED) entry = entry_at(next, work);
        const int from = first_key_of_tile(row, batch, work);
        const Range range = union_range(row, batch, from, work);
        for (int step = 0; step < range.stop - range.start; step++) {
            // Who takes the next row tile as late as can be takes it when it is free.
            if (PACKED && step == range.stop - range.start - 1) next = next_of(entry.index, work);
            const int key = from + (backwards ? range.stop - 1 - step : range.start + step) * KEY_TILE;
            barrier_wait(shared + K_FREE + 8 * ring.stage, ring.phase ^ 1);
            load_keys<STORED_D, D_PANEL>(shared + K_AT + ring.stage * K_SLOT, k, shared + K_FULL + 8 * ring.stage, key,
                                         head / work.group, batch);
            if (step == 0) {
#pragma unroll(PACKED ? 1 : CONSUMERS)
                for (int c = 0; c < CONSUMERS; c++) {
                    const int place = queries.stage * CONSUMERS + c;
                    const int first = row + (block_of_cluster() * CONSUMERS + c) * ROWS;
                    barrier_wait(shared + Q_FREE + 8 * place, queries.phase ^ 1);
                    if (PACKED) tell(shared, place, present, from, tile_range(first, batch, from, work), range.stop);
                    load_tile<ROWS, STORED_D, D_PANEL>(shared + Q_AT + place * Q_SLOT, q, shared + Q_FULL + 8 * place,
                                                       first, head, batch);
                }
            }
            barrier_wait(shared + V_FREE + 8 * ring.stage, ring.phase ^ 1);
            load_keys<STORED_V, V_PANEL>(shared + V_AT + ring.stage * V_SLOT, v, shared + V_FULL + 8 * ring.stage, key,
                                         head / work.group, batch);
            ring.advance();
        }
        queries.advance();
        if (PACKED) entry = entry_at(next, work);
    }
    if (!PACKED) return;
    for (int c = 0; c < CONSUMERS; c++) {
        const int place = queries.stage * CONSUMERS + c;
        barrier_wait(shared + Q_FREE + 8 * place, queries.phase ^ 1);
        tell_end(shared, place);
    }
    // The last program to end leaves both counters at 0.
    u32 before;
    asm volatile("atom.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(work.Counters + 1), "r"(gridDim.x - 1)
                 : "memory");
    if (before == gridDim.x - 1) asm volatile("st.global.u32 [%0], 0;" ::"l"(work.Counters) : "memory");
}
