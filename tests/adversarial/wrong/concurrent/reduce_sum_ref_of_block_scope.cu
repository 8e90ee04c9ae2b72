// problem: reduce_sum
// class: schedule
// race: scope
// must: anything but passed
// why: the total of all blocks is a cuda::atomic_ref of thread_scope_block: fetch_add is atomic for threads of one block, not between blocks
// proof: libcu++, thread scopes: a data race where the scopes of two threads' operations do not include both
// assay: fill total value=0
// assay: launch sum grid=(min(ceil_div(n, 512), 64)) block=(64) args=(x, total, n)
#include <cuda/atomic>

__global__ void sum(const float* x, float* total, int n)
{
    float s = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    cuda::atomic_ref<float, cuda::thread_scope_block> all(*total);
    if (threadIdx.x % 32 == 0) all.fetch_add(s, cuda::memory_order_relaxed);
}
