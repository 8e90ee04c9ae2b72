// problem: reduce_sum
// assay: temp tail int32 (1)
// assay: temp next int32 (41)
// assay: temp granted int32 (41)
// assay: fill tail value=0
// assay: fill next value=0
// assay: fill granted value=0
// assay: fill total value=0
// assay: launch mcs grid=(40) block=(128) args=(x, tail, next, granted, total, n)
// style: a queue lock after Mellor-Crummey and Scott: each block spins on a word of its own; exchange, CAS and acquire/release
#include <cuda/atomic>
using word = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void mcs(const float* x, int* tail, int* next, int* granted, float* total, int n)
{
    __shared__ float warps[4];
    float s = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 40 * 128) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x) return;
    const int me = blockIdx.x + 1;  // 0 is nobody
    const int before = word(*tail).exchange(me, cuda::memory_order_acq_rel);
    if (before) {
        word(next[before]).store(me, cuda::memory_order_release);
        while (!word(granted[me]).load(cuda::memory_order_acquire)) __nanosleep(32);
    }
    *total += warps[0] + warps[1] + warps[2] + warps[3];
    int expected = me;
    if (word(*tail).compare_exchange_strong(expected, 0, cuda::memory_order_acq_rel)) return;
    int after;
    while (!(after = word(next[me]).load(cuda::memory_order_acquire))) __nanosleep(32);
    word(granted[after]).store(1, cuda::memory_order_release);
}
