// problem: gelu
// assay: temp half float32 (n)
// assay: temp flags uint32 (ceil_div(n, 256) * 2)
// assay: temp ticket uint32 (1)
// assay: fill flags value=0
// assay: fill ticket value=0
// assay: launch relay grid=(3 * ceil_div(n, 256)) block=(128) args=(x, y, half, flags, ticket, n)
// style: write-to-read causality: one block stores, the second only acquires and releases, the third reads what the first stored
#include <cuda/atomic>
using flag = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__global__ void relay(const float* x, float* y, float* half, unsigned* flags, unsigned* ticket, int n)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = flag(*ticket).fetch_add(1u, cuda::memory_order_relaxed);
    __syncthreads();
    const unsigned tile = drawn / 3, role = drawn % 3;
    flag first(flags[2 * tile]), second(flags[2 * tile + 1]);
    if (role == 0) {
        for (int i = tile * 256 + threadIdx.x; i < min(n, (int)(tile + 1) * 256); i += 128) half[i] = normcdff(x[i]);
        __syncthreads();
        if (threadIdx.x == 0) first.store(1u, cuda::memory_order_release);
    } else if (role == 1) {
        if (threadIdx.x == 0) {
            while (!first.load(cuda::memory_order_acquire)) __nanosleep(20);
            second.store(1u, cuda::memory_order_release);
        }
    } else {
        if (threadIdx.x == 0)
            while (!second.load(cuda::memory_order_acquire)) __nanosleep(20);
        __syncthreads();
        for (int i = tile * 256 + threadIdx.x; i < min(n, (int)(tile + 1) * 256); i += 128) y[i] = x[i] * half[i];
    }
}
