// problem: softmax
// style: cub::BlockReduce for the row's maximum and its sum, broadcast through shared memory
// assay: launch softmax grid=(rows) block=(128) args=(x, y, cols)

#include <cub/block/block_reduce.cuh>

struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

__global__ void softmax(const float* x, float* y, int cols)
{
    typedef cub::BlockReduce<float, 128> Reduce;
    __shared__ typename Reduce::TempStorage scratch;
    __shared__ float common[2];
    const float* row = x + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 128) top = fmaxf(top, row[i]);
    top = Reduce(scratch).Reduce(top, Larger());
    if (threadIdx.x == 0) common[0] = top;
    __syncthreads();
    top = common[0];
    for (int i = threadIdx.x; i < cols; i += 128) sum += expf(row[i] - top);
    sum = Reduce(scratch).Sum(sum);
    if (threadIdx.x == 0) common[1] = sum;
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += 128) y[(size_t)blockIdx.x * cols + i] = expf(row[i] - top) / common[1];
}
