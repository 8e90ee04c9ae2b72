// problem: row_sum
// assay: launch row_sum_thrust grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, y, rows, cols)
// style: device-side Thrust: thrust::reduce with thrust::seq over each lane's contiguous piece, in double
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>

__global__ void row_sum_thrust(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    const int each = (cols + 31) / 32;
    const float* const begin = x + (size_t)row * cols;
    const float* const from = begin + min(cols, (int)threadIdx.x * each);
    const float* const to = begin + min(cols, ((int)threadIdx.x + 1) * each);
    double s = thrust::reduce(thrust::seq, from, to, 0.0);
    for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
    if (threadIdx.x == 0) y[row] = static_cast<float>(s);
}
