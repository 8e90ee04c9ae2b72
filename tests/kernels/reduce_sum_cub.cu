// problem: reduce_sum
// style: cub::BlockReduce by raking, then one block for what the others left
// assay: temp partial float32 (min(ceil_div(n, 512), 64))
// assay: launch sums grid=(min(ceil_div(n, 512), 64)) block=(256) args=(x, partial, n)
// assay: launch sums grid=(1) block=(256) args=(partial, total, min(ceil_div(n, 512), 64))

#include <cub/block/block_reduce.cuh>

__global__ void sums(const float* x, float* out, int n)
{
    typedef cub::BlockReduce<float, 256, cub::BLOCK_REDUCE_RAKING> Reduce;
    __shared__ typename Reduce::TempStorage scratch;
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
    sum = Reduce(scratch).Sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
