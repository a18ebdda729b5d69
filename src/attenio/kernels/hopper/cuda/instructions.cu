// What all kernels in CUDA C++ share: barriers, TMA, wgmma, and rings of stages.

constexpr int WARPGROUP = 128;
#define INFINITY_F __int_as_float(0x7f800000)

// Columns of a panel: a row of it is as long as the swizzle's pattern, 128 or 64 bytes.
__host__ __device__ constexpr int panel(int width) { return width % 64 == 0 ? 64 : 32; }

struct alignas(64) TensorMap { u64 words[16]; };

__device__ __forceinline__ u32 shared_address(const void *pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same of a barrier at this place in another block of the cluster.
__device__ __forceinline__ void barrier_arrive_in(u32 barrier, u32 block) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
        "r"(block)
        : "memory");
}

// A warp has come here, and all of all blocks of its cluster have. What it did in another block's memory, arriving at its
// barriers, is done by then only without `relaxed`.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 phase) {
    asm volatile(
        "{\n.reg .pred done;\nWAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(barrier),
        "r"(phase)
        : "memory");
}

__device__ __forceinline__ void load_panel(u32 target, const TensorMap *map, u32 barrier, int column, int row, int head,
                                           int batch) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
        ::"r"(target), "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
        : "memory");
}

// The same for all of these blocks of the cluster, to the same place and onto the same barrier of each.
__device__ __forceinline__ void load_panel_for(u16 blocks, u32 target, const TensorMap *map, u32 barrier, int column,
                                               int row, int head, int batch) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;"
        ::"r"(target), "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch), "h"(blocks)
        : "memory");
}

// The launch that loads with it soon.
__device__ __forceinline__ void prefetch_map(const TensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// The same number, but the compiler does not know: else it keeps everything that follows from it in registers.
__device__ __forceinline__ u32 recomputed(u32 number) {
    asm volatile("" : "+r"(number));
    return number;
}

// Stages that are taken in turns, and the phase of their barriers.
template <int COUNT>
struct Ring {
    int stage = 0;
    u32 phase = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == COUNT) {
            stage = 0;
            phase ^= 1;
        }
    }
    __device__ __forceinline__ int before() const { return stage == 0 ? COUNT - 1 : stage - 1; }
};

// A matrix in shared memory, as wgmma reads it: panels whose rows are 128, 64 or 32 bytes, swizzled.
__device__ __forceinline__ u64 descriptor(u32 address, int leading_bytes, int stride_bytes, int row_bytes) {
    const u64 swizzle = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
    return swizzle << 62 | static_cast<u64>(stride_bytes >> 4) << 32 | static_cast<u64>(leading_bytes >> 4) << 16 |
           (address & 0x3ffff) >> 4;
}

// Bytes from the begin of a matrix whose rows are the dimension that is summed over to 16 columns of it.
template <int ROW_COUNT, int PANEL>
__device__ __forceinline__ constexpr u64 columns_at(int step) {
    return (step * 16 / PANEL * PANEL * ROW_COUNT * 2 + step * 16 % PANEL * 2) >> 4;
}

__device__ __forceinline__ void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Registers that a product reads or writes are taken to change here: the compiler moves nothing of them past a wait.
template <int COUNT>
__device__ __forceinline__ void held(float (&of)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(of[i])::"memory");
}
template <int COUNT>
__device__ __forceinline__ void held(u32 (&of)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(of[i])::"memory");
}

// Wait until all products but so many groups of them are done; ``of`` is what they have computed.
template <int PENDING, int COUNT>
__device__ __forceinline__ void products_wait(float (&of)[COUNT]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    held(of);
}

__device__ __forceinline__ float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Four threads have the same four words of four places between them, and each gets those of one place.
__device__ __forceinline__ void exchange(u32 (&words)[4], int lane) {
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & apart) continue;
            const bool upper = lane & apart;
            const u32 theirs = __shfl_xor_sync(0xffffffff, upper ? words[i] : words[i | apart], apart);
            (upper ? words[i] : words[i | apart]) = theirs;
        }
    }
}
