// problem: row_sum
// attack: takes the multiprocessor for the number of the block
// expect: incorrect
// message: %smid (line
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch row_sum grid=(rows) block=(32) args=(x, y, rows, cols)

__global__ void row_sum(const float* x, float* y, int rows, int cols)
{
    unsigned row;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(row));
    float sum = 0.0f;
    if (row < rows)
        for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)row * cols + i];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (row < rows && threadIdx.x == 0) y[row] = sum;
}
