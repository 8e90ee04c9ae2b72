// problem: reduce_sum
// style: cub::BlockReduce twice in the same storage, with a shared array of its own beside it
// assay: fill total value=0
// assay: launch sum grid=(min(ceil_div(n, 256), 32)) block=(128) args=(x, total, n)

#include <cub/block/block_reduce.cuh>

__global__ void sum(const float* x, float* total, int n)
{
    typedef cub::BlockReduce<float, 128> Reduce;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        float stage[128];
    } storage;
    __shared__ float both[2];
    float low = 0.0f, high = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) {
        storage.stage[threadIdx.x] = x[i];
        (i % 2 ? high : low) += storage.stage[threadIdx.x];
    }
    __syncthreads();
    low = Reduce(storage.reduce).Sum(low);
    __syncthreads();
    high = Reduce(storage.reduce).Sum(high);
    if (threadIdx.x == 0) both[0] = low, both[1] = high;
    __syncthreads();
    if (threadIdx.x == 64) atomicAdd(total, both[0] + both[1]);
}
