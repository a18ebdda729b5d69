// Latents: what a block of `split_latents.cu` works on, its shared memory, what two blocks of a cluster share, and the
// producer.

constexpr int ROWS = 64, KEYS = 64, WIDTH = 512, HALF = 256, LATENT = 576, CONSUMERS = 2;
constexpr int PRODUCER_REGISTERS = 24, REGISTERS = 240;
// A row's anchor follows its largest score when that is so much larger: exponents stay small, and rescaling is rare.
constexpr float SLACK = 8.0f;
// 64 columns of 64 rows; half of a tile's values, which is loaded at once.
constexpr int BOX = 64 * 64 * 2, UNIT = 4 * BOX;
// Of the queries of each half three quarters are in shared memory, the rest and the last 64 columns in registers.
constexpr int Q_HALF = 3;
constexpr int Q_AT = 0;
constexpr int K_AT = Q_AT + 2 * Q_HALF * BOX;
constexpr int ROPE_AT = K_AT + UNITS * UNIT;
constexpr int P_AT = ROPE_AT + BOX;
constexpr int ANCHORS_AT = P_AT + BOX;  // two numbers of each row, and two more
constexpr int TOTALS_AT = ANCHORS_AT + 2 * ROWS * 4;
constexpr int Q_FULL = TOTALS_AT + 2 * ROWS * 4;
constexpr int FULL = Q_FULL + 8;
constexpr int FREE = FULL + 8 * UNITS;
// A consumer waits for every other tile: the last columns have a barrier of even and one of odd tiles.
constexpr int ROPE_FULL = FREE + 8 * UNITS, ROPE_FREE = ROPE_FULL + 8 * 2;
static_assert(ROPE_FREE + 8 <= SHARED_BYTES && SHARED_BYTES <= 232448, "shared memory");

struct Work {
    void *Output;
    float *Largest, *Total;
    const u16 *Queries, *Keys;
    long long batch_step, head_step;  // from the keys of a sequence or a head to the next, in elements
    int kv_heads, queries, row_count, first_key, stop_key, splits, row_tiles, below, above;
    float scale_log2;
};

struct Run {
    int batch, head, row, start, stop, tiles, split, batch_head;
};

// Where this block is: runs differ by one tile at most. Blocks of a cluster have other rows and the same keys.
__device__ __forceinline__ Run run_of(const Work &work) {
    const int program = blockIdx.x, row_tile = program % work.row_tiles, rest = program / work.row_tiles;
    const int split = rest % work.splits, batch_head = rest / work.splits;
    const int total = (work.stop_key - work.first_key + KEYS - 1) / KEYS;
    const int first = static_cast<int>(static_cast<long long>(split) * total / work.splits);
    const int last = static_cast<int>(static_cast<long long>(split + 1) * total / work.splits);
    return {batch_head / work.kv_heads, batch_head % work.kv_heads, row_tile * ROWS, work.first_key + first * KEYS,
            min(work.first_key + last * KEYS, work.stop_key), last - first, split, batch_head};
}

// Free something in all blocks of a cluster: each loads for all.
__device__ __forceinline__ void free_everywhere(u32 barrier) {
    if (CLUSTER == 1) {
        barrier_arrive(barrier);
    } else {
#pragma unroll
        for (int block = 0; block < CLUSTER; block++) barrier_arrive_in(barrier, block);
    }
}

constexpr u16 EVERY_BLOCK = (1 << CLUSTER) - 1;

__device__ __forceinline__ u32 block_in_cluster() {
    u32 rank = 0;
    if (CLUSTER > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Half of the values of a tile, to the next of the places; a block loads its share of the boxes.
__device__ __forceinline__ void load_unit(u32 shared, const TensorMap *k, const Run &run, u32 rank, u32 unit, int half,
                                          int key) {
    const u32 place = unit % UNITS, turn = unit / UNITS, full = shared + FULL + 8 * place;
    barrier_wait(shared + FREE + 8 * place, turn & 1 ^ 1);
    barrier_expect(full, UNIT);
    const u32 to = shared + K_AT + place * UNIT;
#pragma unroll
    for (int box = 0; box < 4; box++) {
        if (CLUSTER == 1)
            load_panel(to + box * BOX, k, full, half * HALF + box * 64, key, run.head, run.batch);
        else if (box / (4 / CLUSTER) == rank)
            load_panel_for(EVERY_BLOCK, to + box * BOX, k, full, half * HALF + box * 64, key, run.head, run.batch);
    }
}

// The last columns, which only scores need; blocks of a cluster load them in turns.
__device__ __forceinline__ void load_rope(u32 shared, const TensorMap *k, const Run &run, u32 rank, u32 tile, int key) {
    const u32 full = shared + ROPE_FULL + 8 * (tile % 2);
    barrier_wait(shared + ROPE_FREE, tile & 1 ^ 1);
    barrier_expect(full, BOX);
    if (CLUSTER == 1)
        load_panel(shared + ROPE_AT, k, full, WIDTH, key, run.head, run.batch);
    else if (tile % CLUSTER == rank)
        load_panel_for(EVERY_BLOCK, shared + ROPE_AT, k, full, WIDTH, key, run.head, run.batch);
}

// Bring a block's share of a tile to L2: its keys lie one after another.
__device__ __forceinline__ void prefetch(const Run &run, const Work &work, u32 rank, int tile) {
    constexpr int PART = KEYS * LATENT * 2 / CLUSTER;
    if (tile >= run.tiles || run.start + (tile + 1) * KEYS > run.stop) return;
    const u16 *keys = work.Keys + run.batch * work.batch_step + run.head * work.head_step;
    const long long key = run.start + tile * KEYS;
    const char *from = reinterpret_cast<const char *>(keys) + key * (LATENT * 2) + rank * PART;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(PART) : "memory");
}

__device__ __forceinline__ void produce(u32 shared, const TensorMap *q, const TensorMap *k, const Run &run, u32 rank,
                                        const Work &work) {
    const u32 q_full = shared + Q_FULL;
    for (int tile = 0; tile < run.tiles; tile++) {
        const int key = run.start + tile * KEYS, own = tile & 1;
        if (tile == 0) {
            barrier_expect(q_full, 2 * Q_HALF * BOX);
#pragma unroll
            for (int box = 0; box < Q_HALF; box++)
                load_panel(shared + Q_AT + box * BOX, q, q_full, box * 64, run.row, run.head, run.batch);
        }
        load_unit(shared, k, run, rank, 2 * tile, own, key);
        if (tile == 0) {
#pragma unroll
            for (int box = 0; box < Q_HALF; box++)
                load_panel(shared + Q_AT + (Q_HALF + box) * BOX, q, q_full, HALF + box * 64, run.row, run.head, run.batch);
        }
        load_unit(shared, k, run, rank, 2 * tile + 1, own ^ 1, key);
        load_rope(shared, k, run, rank, tile, key);  // in the place of the tile before
        if (AHEAD) prefetch(run, work, rank, tile + AHEAD);
    }
}
