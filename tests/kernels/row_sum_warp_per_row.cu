// problem: row_sum
// style: one warp a row, shuffles down; whole warps leave early, and there is no barrier
// assay: launch row_sums grid=(ceil_div(rows, 8)) block=(32, 8) args=(x, y, rows, cols)

__global__ void row_sums(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) {
        return;
    }
    float sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += 32) {
        sum += x[(size_t)row * cols + col];
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(~0u, sum, offset);
    }
    if (threadIdx.x == 0) {
        y[row] = sum;
    }
}
