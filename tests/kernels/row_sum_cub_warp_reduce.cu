// problem: row_sum
// style: cub::WarpReduce of sixteen lanes, two rows to a warp
// assay: launch row_sum grid=(ceil_div(rows, 8)) block=(128) args=(x, y, rows, cols)

#include <cub/warp/warp_reduce.cuh>

__global__ void row_sum(const float* x, float* y, int rows, int cols)
{
    typedef cub::WarpReduce<float, 16> Reduce;
    __shared__ typename Reduce::TempStorage scratch[8];
    const int group = threadIdx.x / 16, lane = threadIdx.x % 16, row = blockIdx.x * 8 + group;
    float sum = 0.0f;
    if (row < rows)
        for (int i = lane; i < cols; i += 16) sum += x[(size_t)row * cols + i];
    sum = Reduce(scratch[group]).Sum(sum);
    if (lane == 0 && row < rows) y[row] = sum;
}
