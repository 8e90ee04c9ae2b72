// problem: reduce_sum
// class: schedule
// race: lost update
// must: anything but passed
// why: cuda::atomic_ref is loaded and stored, each atomic and even sequentially consistent, but not the addition between: blocks overwrite each other's sums
// proof: fetch_add is the read-modify-write; two blocks that load before either stores
// assay: fill total value=0
// assay: launch sum grid=(min(ceil_div(n, 1024), 128)) block=(128) args=(x, total, n)
#include <cuda/atomic>

__global__ void sum(const float* x, float* total, int n)
{
    __shared__ float warps[4];
    float s = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::atomic_ref<float, cuda::thread_scope_device> all(*total);
        all.store(all.load() + (warps[0] + warps[1] + warps[2] + warps[3]));
    }
}
