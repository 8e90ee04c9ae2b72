// Honest kernels whose order is hard to see: fences, flags, tickets, locks. Nobody may accuse them.
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

// Each block writes, fences and draws a ticket; the last one adds up (the CUDA samples' threadFenceReduction).
__global__ void last_block(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ bool last;
    __shared__ float part[64];
    part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        t[blockIdx.x] = part[0];
        __threadfence();
        last = atomicInc(state, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < gridDim.x) atomicAdd(y, t[threadIdx.x]);
}

// All threads fence, then one draws the ticket behind a barrier; the counter is put back by a plain store.
__global__ void all_fence(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ bool last;
    const int i = blockIdx.x * 64 + threadIdx.x;
    t[i] = 2.0f * x[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(state, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    for (int b = 0; b < gridDim.x; ++b) y[threadIdx.x] += t[b * 64 + threadIdx.x];
    if (threadIdx.x == 0) *state = 0;
}

// A chain of blocks: each waits for the flag of the one before (decoupled look-back, without the looking back).
__global__ void chained_scan(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ float before;
    if (threadIdx.x == 0) {
        if (blockIdx.x > 0)
            while (atomicAdd(&state[blockIdx.x - 1], 0) == 0) {}
        __threadfence();
        before = blockIdx.x > 0 ? t[blockIdx.x - 1] : 0.0f;
        t[blockIdx.x] = before + x[blockIdx.x];
        __threadfence();
        atomicExch(&state[blockIdx.x], 1);
    }
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = before;
}

// The same with a volatile flag, and with a flag that is stored plainly behind the fence.
__global__ void volatile_flag(const float* x, float* y, float* t, unsigned* state)
{
    volatile unsigned* flags = state;
    if (threadIdx.x == 0) {
        if (blockIdx.x > 0)
            while (flags[blockIdx.x - 1] == 0) {}
        __threadfence();
        t[blockIdx.x] = (blockIdx.x > 0 ? t[blockIdx.x - 1] : 0.0f) + x[blockIdx.x];
        __threadfence();
        if (blockIdx.x % 2) state[blockIdx.x] = 1;
        else flags[blockIdx.x] = 1;
        y[blockIdx.x] = t[blockIdx.x];
    }
}

// Acquire and release written out.
__global__ void acquire_release(const float* x, float* y, float* t, unsigned* state)
{
    if (threadIdx.x != 0) return;
    unsigned seen = blockIdx.x == 0;
    while (!seen) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(&state[blockIdx.x - 1]) : "memory");
    t[blockIdx.x] = (blockIdx.x ? t[blockIdx.x - 1] : 0.0f) + x[blockIdx.x];
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(&state[blockIdx.x]), "r"(1) : "memory");
    y[blockIdx.x] = x[blockIdx.x];
}

// A spin lock that is let go with a plain store, taken by one thread of each warp.
__global__ void spin_lock(const float* x, float* y, float* t, unsigned* state)
{
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(state, 0, 1) != 0) {}
        __threadfence();
        y[0] += x[threadIdx.x];
        __threadfence();
        *state = 0;
    }
}

// Compare-and-swap loops that begin with a plain read, in shared and in global memory; and a hint before an atomic.
__global__ void swap_loops(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ unsigned most, sum;
    if (threadIdx.x == 0) most = sum = 0;
    __syncthreads();
    const unsigned mine = (unsigned)(fabsf(x[threadIdx.x]) * 1000.0f);
    if (mine > most) atomicMax(&most, mine);
    unsigned old = sum, seen;
    do {
        seen = old;
        old = atomicCAS(&sum, seen, seen + mine);
    } while (old != seen);
    old = state[8];
    do {
        seen = old;
        old = atomicCAS(&state[8], seen, seen + mine);
    } while (old != seen);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = most + sum;
}

// Producers arrive and go on, consumers wait (PTX: bar.arrive, bar.sync), two buffers in turn.
__global__ void named_barriers(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ float stage[2][32];
    const int lane = threadIdx.x % 32;
    for (int round = 0; round < 4; ++round) {
        const int full = 1 + round % 2, empty = 3 + round % 2;
        if (threadIdx.x < 32) {
            if (round > 1) asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
            stage[round % 2][lane] = x[round * 32 + lane];
            asm volatile("bar.arrive %0, 64;" ::"r"(full) : "memory");
        } else {
            asm volatile("bar.sync %0, 64;" ::"r"(full) : "memory");
            t[blockIdx.x * 64 + lane] = stage[round % 2][31 - lane];
            if (round < 2) asm volatile("bar.arrive %0, 64;" ::"r"(empty) : "memory");
        }
    }
    if (threadIdx.x >= 32) y[blockIdx.x * 32 + lane] = t[blockIdx.x * 64 + lane];
}

// Halves of a warp on their own ways, tiles of cooperative groups, lanes that have left.
__global__ void parts_of_warps(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ float s[64];
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[threadIdx.x] = x[threadIdx.x];
    tile.sync();
    float sum = s[threadIdx.x ^ 7];
    tile.sync();
    if (threadIdx.x % 32 < 16) {
        s[threadIdx.x] = sum;
        __syncwarp(0xffff);
        sum += s[threadIdx.x ^ 8];
    }
    cg::this_thread_block().sync();
    if (threadIdx.x >= 48) return;
    s[threadIdx.x] = sum;
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = s[47 - threadIdx.x];
}

// A pipeline of copies in two stages.
__global__ void pipeline(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ float stage[2][64];
    float sum = 0.0f;
    __pipeline_memcpy_async(&stage[0][threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    for (int round = 0; round < 4; ++round) {
        if (round < 3) __pipeline_memcpy_async(&stage[(round + 1) % 2][threadIdx.x], &x[(round % 3) * 64 + threadIdx.x], 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += stage[round % 2][threadIdx.x ^ 33];
        __syncthreads();
    }
    y[blockIdx.x * 64 + threadIdx.x] = sum;
}

// Neighbouring halves and bytes of one word, by different threads.
__global__ void small_items(const float* x, float* y, float* t, unsigned* state)
{
    __shared__ unsigned short halves[64];
    __shared__ unsigned char bytes[64];
    halves[threadIdx.x] = threadIdx.x;
    bytes[63 - threadIdx.x] = threadIdx.x;
    float mine = halves[threadIdx.x] + bytes[63 - threadIdx.x];
    ((unsigned char*)t)[blockIdx.x * 64 + threadIdx.x] = 1;
    y[blockIdx.x * 64 + threadIdx.x] = mine + ((unsigned char*)t)[blockIdx.x * 64 + threadIdx.x];
}
