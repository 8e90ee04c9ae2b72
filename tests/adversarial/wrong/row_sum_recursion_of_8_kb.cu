// problem: row_sum
// class: limits
// must: anything but passed
// why: recursion keeps some 8 KB of stack in each thread; a GPU gives 1 KB by default (cudaLimitStackSize) to what the compiler cannot bound, and a submission's host code never runs to raise it
// proof: a launch on a GPU with the default of cudaLimitStackSize
// assay: launch rs grid=(ceil_div(rows, 64)) block=(64) args=(x, y, rows, cols)
__device__ __noinline__ float walk(const float* r, int cols, int depth, const float* before)
{
    volatile float keep[24]; for (int k = 0; k < 24; k++) keep[k] = before ? before[k] : 0.f;
    if (depth == 0) { float s = 0; for (int c = 0; c < cols; c++) s += r[c]; return s; }
    float v = walk(r, cols, depth - 1, (const float*)keep);
    return v + 0.f * keep[depth % 24];
}
__global__ void rs(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * 64 + threadIdx.x; if (row < rows) y[row] = walk(x + (size_t)row * cols, cols, 60 + (cols & 0), nullptr);
}
