// problem: saxpy
// assay: temp slots uint32 (64 * 2)
// assay: temp ends uint32 (2)
// assay: fill ends value=0
// assay: launch number grid=(1) block=(64) args=(slots)
// assay: launch work grid=(24) block=(128) cooperative args=(x, y, out, alpha, n, slots, ends)
// style: Vyukov's bounded queue for many producers and consumers: a sequence number in each slot, positions by CAS, acquire and release on the sequence
#include <cuda/atomic>
using word = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__global__ void number(unsigned* slots) { slots[2 * threadIdx.x] = threadIdx.x; }

__device__ bool push(unsigned* slots, unsigned* tail, unsigned value)
{
    unsigned at = word(*tail).load(cuda::memory_order_relaxed);
    while (true) {
        const int ahead = (int)(word(slots[2 * (at % 64)]).load(cuda::memory_order_acquire) - at);
        if (ahead < 0) return false;
        if (ahead > 0) at = word(*tail).load(cuda::memory_order_relaxed);
        else if (word(*tail).compare_exchange_strong(at, at + 1, cuda::memory_order_relaxed)) break;
    }
    slots[2 * (at % 64) + 1] = value;
    word(slots[2 * (at % 64)]).store(at + 1, cuda::memory_order_release);
    return true;
}

__device__ unsigned pop(unsigned* slots, unsigned* head)
{
    unsigned at = word(*head).load(cuda::memory_order_relaxed);
    while (true) {
        const int ahead = (int)(word(slots[2 * (at % 64)]).load(cuda::memory_order_acquire) - (at + 1));
        if (ahead < 0) __nanosleep(100);
        if (ahead != 0) at = word(*head).load(cuda::memory_order_relaxed);
        else if (word(*head).compare_exchange_strong(at, at + 1, cuda::memory_order_relaxed)) break;
    }
    const unsigned value = slots[2 * (at % 64) + 1];
    word(slots[2 * (at % 64)]).store(at + 64, cuda::memory_order_release);
    return value;
}

__global__ void work(const float* x, const float* y, float* out, float alpha, int n, unsigned* slots, unsigned* ends)
{
    __shared__ unsigned drawn;
    const unsigned chunks = (n + 511) / 512, stop = ~0u;
    if (blockIdx.x < 4) {
        if (threadIdx.x == 0) {
            for (unsigned c = blockIdx.x; c < chunks; c += 4)
                while (!push(slots, ends, c)) __nanosleep(100);
            for (unsigned b = 0; b < 5; ++b)
                while (!push(slots, ends, stop)) __nanosleep(100);
        }
        return;
    }
    while (true) {
        if (threadIdx.x == 0) drawn = pop(slots, ends + 1);
        __syncthreads();
        const unsigned c = drawn;
        __syncthreads();
        if (c == stop) break;
        for (int i = c * 512 + threadIdx.x; i < min(n, (int)(c * 512 + 512)); i += 128) out[i] = alpha * x[i] + y[i];
    }
}
