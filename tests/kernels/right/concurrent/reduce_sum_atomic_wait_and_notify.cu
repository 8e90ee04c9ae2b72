// problem: reduce_sum
// assay: temp part float32 (24)
// assay: temp came int32 (1)
// assay: fill came value=0
// assay: launch sum grid=(24) block=(128) cooperative args=(x, total, part, came, n)
// style: cuda::atomic_ref wait and notify: blocks count up with release, the first block waits for each change of the count
#include <cuda/atomic>

__global__ void sum(const float* x, float* total, float* part, int* came, int n)
{
    __shared__ float warps[4];
    float s = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 24 * 128) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> count(*came);
    part[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
    count.fetch_add(1, cuda::memory_order_release);
    count.notify_all();
    if (blockIdx.x) return;
    for (int seen = count.load(cuda::memory_order_acquire); seen != 24; seen = count.load(cuda::memory_order_acquire))
        count.wait(seen, cuda::memory_order_acquire);
    float all = 0.0f;
    for (int b = 0; b < 24; ++b) all += part[b];
    *total = all;
}
