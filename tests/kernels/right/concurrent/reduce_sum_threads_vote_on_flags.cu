// problem: reduce_sum
// assay: temp part float32 (64)
// assay: temp flag int32 (64)
// assay: fill flag value=0
// assay: launch sum grid=(64) block=(64) cooperative args=(x, total, part, flag, n)
// style: each thread of the first block polls one block's flag by acquire, all go on when __syncthreads_and() says that every one is up
#include <cuda/atomic>
using flag_ref = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void sum(const float* x, float* total, float* part, int* flag, int n)
{
    __shared__ float half[2];
    float s = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 4096) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) half[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        part[blockIdx.x] = half[0] + half[1];
        flag_ref(flag[blockIdx.x]).store(1, cuda::memory_order_release);
    }
    if (blockIdx.x) return;
    int up = 0;
    do
        if (!up) up = flag_ref(flag[threadIdx.x]).load(cuda::memory_order_acquire);
    while (!__syncthreads_and(up));
    s = part[threadIdx.x];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 32) half[1] = s;
    __syncthreads();
    if (threadIdx.x == 0) *total = s + half[1];
}
