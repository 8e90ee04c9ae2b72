// problem: reduce_sum
// class: schedule
// race: lock
// must: anything but passed
// why: a chain from the last block to the first: each block waits for the one with the next number, which a GPU starts later, so when the first ones fill it nobody who can go on is there
// proof: blocks are not promised to run in any order or together; at n = 16777216 there are 65536 blocks, all but one of which spin
// assay: temp flag int32 (ceil_div(n, 256) + 1)
// assay: temp sum float32 (ceil_div(n, 256) + 1)
// assay: fill flag value=0
// assay: launch chain grid=(ceil_div(n, 256)) block=(256) args=(x, total, flag, sum, n)
#include <cuda/atomic>

__global__ void chain(const float* x, float* total, int* flag, float* sum, int n)
{
    __shared__ float parts[8];
    const int i = blockIdx.x * 256 + threadIdx.x;
    float s = i < n ? x[i] : 0.0f;
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < 8; ++w) s += parts[w];
    if (blockIdx.x + 1 < gridDim.x) {
        while (!cuda::atomic_ref<int, cuda::thread_scope_device>(flag[blockIdx.x + 1]).load(cuda::memory_order_acquire)) { }
        s += sum[blockIdx.x + 1];
    }
    sum[blockIdx.x] = s;
    cuda::atomic_ref<int, cuda::thread_scope_device>(flag[blockIdx.x]).store(1, cuda::memory_order_release);
    if (blockIdx.x == 0) *total = s;
}
