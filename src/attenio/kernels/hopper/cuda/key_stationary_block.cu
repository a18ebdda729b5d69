// Of `key_stationary.cu`: sizes, places in shared memory, what a launch hands over, and which block is which.

constexpr int ROWS = 64, KEYS = 128, OWN_KEYS = 64, CONSUMERS = 2;
// Products have D columns, a multiple of 16; shared memory and the accumulators of dQ have STORED, whole panels.
constexpr int STAGES = STORED <= 64 ? 4 : STORED == 96 ? 3 : 2, SLOTS = STAGES, K_BUFFERS = 2;
// Whether consumers compute dQ, half of the columns each, or a warpgroup of its own does.
constexpr bool SHARES_DQ = STORED == 128;
// Tiles of dQ that leave at once; each consumer that computes dQ has one.
constexpr int DQ_COLUMNS = SHARES_DQ ? STORED / CONSUMERS : D, STAGED = STORED == 96 ? 1 : 2;
constexpr int LEAVING = SHARES_DQ ? 0 : STAGED - 1;
constexpr int PANEL = panel(STORED), PANELS = STORED / PANEL;
// Whether registers hold V, and S of the next rows beside dP of these.
constexpr bool HOLDS_V = STORED <= 64, HOLDS_BOTH = STORED <= 64;
// Whether they hold P in fp32, and words of it.
constexpr bool WHOLE_WEIGHTS = STORED <= 96;
constexpr int P_WORDS = WHOLE_WEIGHTS ? ROWS / 2 : ROWS / 4;
// Registers of a thread: 128 at the start, of four warpgroups, or 168 of three.
constexpr int REGISTERS = SHARES_DQ ? 240 : STORED <= 64 ? 208 : 200, DQ_REGISTERS = STORED <= 64 ? 64 : 80;
constexpr int PRODUCER_REGISTERS = SHARES_DQ ? 24 : 32;
// Whether consumers run the same code, half as much of it: a block of few row tiles runs all of it, and waits for
// instructions where they are more than the cache of an SM has. Of long heads of 128 columns it costs 1 to 3 percent (run 54
// of `studies/hopper/tuning.json`). Packed sequences, of which there is a third loop, take it: NVRTC would need more than
// the 5 s that a first call may take.
constexpr bool SAME_CODE = !SHARES_DQ || WHOLE_HEADS || PACKED;
constexpr int DQ_WARPGROUP = CONSUMERS, PRODUCER = SHARES_DQ ? CONSUMERS : CONSUMERS + 1, DQ_BARRIER = 1;
// P is held times 2 to this, in fp16, which has three bits more than bf16 and is subnormal below 2^-14; dS and sums of
// products with either are that much larger too.
constexpr float SHIFT = 14.0f, SHIFTED_BACK = 1.0f / 16384.0f;
constexpr int APART = 16;             // how many row tiles apart blocks begin that add to the same rows of dQ
constexpr int OFFSETS = 8, OFFSET_BYTES = ROWS * OFFSETS * 2;  // numbers of a row: three of lse, three of delta, zeros
constexpr int ROW_BYTES = ROWS * STORED * 2, KEY_BYTES = KEYS * STORED * 2;
constexpr int DS_BYTES = OWN_KEYS * ROWS * 2, DQ_BYTES = ROWS * DQ_COLUMNS * 4;
constexpr int Q_AT = 0, DO_AT = Q_AT + STAGES * ROW_BYTES, K_AT = DO_AT + STAGES * ROW_BYTES;
constexpr int V_AT = K_AT + K_BUFFERS * KEY_BYTES, DS_AT = V_AT + KEY_BYTES;
// compute-sanitizer takes operands with strides of 0 for whole matrices of 2,048 bytes, so more than that follows them.
constexpr int MINUS_AT = DS_AT + SLOTS * CONSUMERS * DS_BYTES, OFFSETS_AT = MINUS_AT + 3 * 128;
constexpr int DQ_AT = OFFSETS_AT + STAGES * OFFSET_BYTES, INDEX_AT = DQ_AT + STAGED * DQ_BYTES;
// Numbers of the block whose keys are in a buffer: its index and tile; of packed sequences also the rest of it, where
// rows of its keys begin in memory, and the rows that see all keys of each consumer.
constexpr int NUMBERS = PACKED ? 12 : 2, INDEX_BYTES = 4 * NUMBERS;
constexpr int PLACES = 4, PLACE_BYTES = WHOLE_HEADS ? 16 : 4, PLACES_AT = INDEX_AT + INDEX_BYTES * K_BUFFERS;
constexpr int BARRIERS_AT = PLACES_AT + PLACE_BYTES * PLACES;
// Numbers of the block of each buffer of keys; which rows of dQ the last tiles are. Barriers: Q with
// offsets, dO, and both free, of every stage; keys and values full and free; dS full and free; sums of dQ loaded.
constexpr int Q_FULL = BARRIERS_AT, DO_FULL = Q_FULL + 8 * STAGES, ROWS_FREE = DO_FULL + 8 * STAGES;
constexpr int K_FULL = ROWS_FREE + 8 * STAGES, K_FREE = K_FULL + 8 * K_BUFFERS, V_FULL = K_FREE + 8 * K_BUFFERS;
constexpr int V_FREE = V_FULL + 8, DS_FULL = V_FREE + 8, DS_FREE = DS_FULL + 8 * SLOTS, SUMS_FULL = DS_FREE + 8 * SLOTS;
static_assert(SUMS_FULL + (WHOLE_HEADS ? 8 * STAGED : 0) == SHARED_BYTES, "the host gives as much");

// Which consumer a warpgroup is: known to the compiler, or with -1 when it runs.
template <int PLACE>
struct Consumer {
    int place;
    __device__ __forceinline__ constexpr operator int() const { return PLACE < 0 ? place : PLACE; }
};

struct Work {
    float *QueryGradients;  // accumulators; of whole heads those of every program
    void *RoundedQueryGradients, *KeyGradients, *ValueGradients;
    const u16 *Offsets;     // eight numbers of bf16 for each row
    unsigned int *Counters;  // blocks that are begun besides the first of each program, and programs that are done
    // Of packed sequences: the first row that sees each key and the one after the last, neither of which falls from one
    // key to the next, and tiles of keys in the order in which they are begun.
    const int *FirstRows, *StopRows, *Order;
    int blocks, programs, first_head, together, kv_heads, group_parts, group;
    int queries, keys, above, padded, width, v_width;
    float scale_log2, scale;
};

// A tile of keys of a batch x KV head, and the row tiles that see one of them: `first_row`, so many, begun at `offset`.
struct Block {
    int batch_head, tile, first_row, tiles, offset;
    __device__ __forceinline__ int row(int step) const {
        int place = step + offset;
        if (place >= tiles) place -= tiles;
        return first_row + place * ROWS;
    }
};

__device__ __forceinline__ int offset_of(int tile, int count) { return tile % APART < count ? tile % APART : 0; }

// Of packed sequences: where rows of all keys of a block's sequence begin in memory.
__device__ __forceinline__ int keys_before(const Block &block, const Work &work) {
    return PACKED ? block.batch_head / static_cast<int>(recomputed(work.kv_heads)) * work.keys : 0;
}

__device__ __forceinline__ Block block_of_tile(int batch_head, int tile, const Work &work) {
    if (PACKED) {
        const int before = keys_before({batch_head}, work);
        const int from = work.FirstRows[before + tile * KEYS];
        const int stop = work.StopRows[before + min(tile * KEYS + KEYS, work.keys) - 1];
        const int first = min(max(from, 0), work.queries - 1) / ROWS * ROWS;
        const int count = max((min(stop, work.queries) - first + ROWS - 1) / ROWS, 1);
        return {batch_head, tile, first, count, offset_of(tile, count)};
    }
    // Later rows see it all; there is a tile of rows also for keys that none sees.
    const int first = MASKED ? min(max(tile * KEYS - work.above, 0), work.queries - 1) / ROWS * ROWS : 0;
    const int count = (work.queries - first + ROWS - 1) / ROWS;
    return {batch_head, tile, first, count, MASKED ? 0 : offset_of(tile, count)};
}

// Blocks count through so many heads `together`: the first tiles of all of them, then the second ones. Of causal heads
// the first tiles are the longest.
__device__ __forceinline__ Block block_of(int index, const Work &work) {
    const int tiles = (recomputed(work.keys) + KEYS - 1) / KEYS;
    const int before = index / (work.together * tiles) * work.together;
    const int heads = max(min(work.together, work.blocks / tiles - before), 1);
    const int place = index - before * tiles;
    const int tile = PACKED ? work.Order[place / heads] : place / heads;
    return block_of_tile(work.first_head + before + place % heads, tile, work);
}

// Where dQ of a tile of rows goes, of a program that has all keys of its heads: the sum of the first tile of keys that
// rows see is stored in memory of the program's own, others are added to it, and with that of the last it is written in
// the type of the tensor. So sums stay in L2, and nobody clears or converts them.
struct Place {
    int sums, head, row;  // the row of the program's sums, the query head, and the row of it
    u32 is_first, is_last, begins, phase;  // `begins`: a tile of keys, before which all is added that was of the last one
    __device__ __forceinline__ bool loads() const { return is_last && !is_first; }
};

__device__ __forceinline__ Place place_of(const Block &block, int head, int step, const Work &work) {
    const int row = block.row(step);
    const int following = (block.tile + 1) * KEYS < work.keys ? block_of_tile(0, block.tile + 1, work).first_row : 1 << 30;
    return {(static_cast<int>(blockIdx.x) * work.group + head) * work.padded + row, block.batch_head * work.group + head,
            row, block.tile == 0, row < following, head + step == 0, 0};
}

// The number of the block whose keys are in a buffer, and its tile of keys.
__device__ __forceinline__ int present_block(u32 shared, u32 block) {
    int index;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(index) : "r"(shared + INDEX_AT + INDEX_BYTES * (block % K_BUFFERS)) : "memory");
    return index;
}

__device__ __forceinline__ int present_tile(u32 shared, u32 block) { return present_block(shared + 4, block); }

// The same once they are there, or -1 after the last.
__device__ __forceinline__ int next_block(u32 shared, u32 block) {
    barrier_wait(shared + K_FULL + 8 * (block % K_BUFFERS), block / K_BUFFERS & 1);
    return present_block(shared, block);
}

// Of packed sequences: the producer looks up what follows from their lengths, and leaves it for all.
__device__ __forceinline__ void leave_block(u32 to, const Block &block, const Work &work) {
    const int before = keys_before(block, work), key = block.tile * KEYS;
    asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(to + 8), "r"(block.batch_head), "r"(before) : "memory");
    asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(to + 16), "r"(block.first_row), "r"(block.tiles) : "memory");
#pragma unroll 1
    for (int own = 0; own < CONSUMERS; own++) {
        const int first = key + own * OWN_KEYS, last = first + OWN_KEYS - 1;
        const bool whole = last < work.keys;
        asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(to + 32 + 8 * own),
                     "r"(whole ? work.FirstRows[before + last] : 1 << 30), "r"(whole ? work.StopRows[before + first] : 0)
                     : "memory");
    }
}

__device__ __forceinline__ void two_numbers(u32 from, int &first, int &second) {
    asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(from) : "memory");
}

// The block whose keys are in a buffer, and where rows of its keys begin in memory.
__device__ __forceinline__ Block left_block(u32 shared, u32 number, int &before) {
    const u32 from = shared + INDEX_AT + INDEX_BYTES * (number % K_BUFFERS);
    Block block;
    int index;
    two_numbers(from, index, block.tile), two_numbers(from + 8, block.batch_head, before);
    two_numbers(from + 16, block.first_row, block.tiles);
    block.offset = offset_of(block.tile, block.tiles);
    return block;
}

// Whether a tile of rows sees all keys of a consumer.
__device__ __forceinline__ bool sees_all(int me, u32 shared, u32 number, int row) {
    int first, stop;
    two_numbers(shared + INDEX_AT + INDEX_BYTES * (number % K_BUFFERS) + 32 + 8 * me, first, stop);
    return row >= first && row + ROWS <= stop;
}
