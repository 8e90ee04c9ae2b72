// problem: row_sum
// style: warps without a row leave at once, some lanes of the last one too; full masks name lanes that have exited
// assay: launch sum_rows grid=(ceil_div(rows, 8)) block=(256) args=(x, y, rows, cols)

__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int col = lane; col < cols; col += 32) sum += x[(size_t)row * cols + col];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(~0u, sum, o);
    if (lane > 0) return;
    y[row] = __shfl_sync(~0u, sum, 0);
}
