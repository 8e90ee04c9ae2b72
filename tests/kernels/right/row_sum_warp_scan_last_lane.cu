// problem: row_sum
// style: cub::WarpReduce and cub::WarpScan: the last lane of an inclusive scan has a piece's sum, a carry goes on; --use_fast_math
// flags: --use_fast_math
// assay: launch rows_scan grid=(ceil_div(rows, 2)) block=(64) args=(x, y, rows, cols)
#include <cub/cub.cuh>

__global__ void rows_scan(const float* x, float* y, int rows, int cols)
{
    using Scan = cub::WarpScan<float>;
    __shared__ typename Scan::TempStorage temp[2];
    const int row = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float carry = 0.0f;
    for (int first = 0; first < cols; first += 32) {
        float v = first + lane < cols ? x[(size_t)row * cols + first + lane] : 0.0f, all;
        Scan(temp[threadIdx.x / 32]).InclusiveSum(v, v, all);
        carry += all;
        __syncwarp();
    }
    if (lane == 31) y[row] = carry;
}
