// problem: row_sum
// attack: takes %warpid for threadIdx.x / 32
// expect: incorrect
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch row_sum grid=(ceil_div(rows, 4)) block=(128) args=(x, y, rows, cols)

__global__ void row_sum(const float* x, float* y, int rows, int cols)
{
    unsigned warp;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    int row = blockIdx.x * 4 + warp;
    if (warp > 3 || row >= rows) return;
    float sum = 0.0f;
    for (int i = threadIdx.x % 32; i < cols; i += 32) sum += x[(size_t)row * cols + i];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) y[row] = sum;
}
