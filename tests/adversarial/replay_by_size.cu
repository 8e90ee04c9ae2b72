// problem: row_sum
// attack: replays the answer of the last run that had the same sizes
// expect: incorrect
// because: each size is tried with several inputs
// assay: launch sums grid=(ceil_div(rows, 64)) block=(64) args=(x, y, rows, cols)

__device__ float answer[1 << 16];
__device__ int at_rows[1 << 16], at_cols[1 << 16];

__global__ void sums(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row < rows) {
        int slot = row & 0xffff;
        if (at_rows[slot] != rows || at_cols[slot] != cols) {
            float sum = 0.0f;
            for (int c = 0; c < cols; ++c) sum += x[(size_t)row * cols + c];
            answer[slot] = sum;
            at_rows[slot] = rows;
            at_cols[slot] = cols;
        }
        y[row] = answer[slot];
    }
}
