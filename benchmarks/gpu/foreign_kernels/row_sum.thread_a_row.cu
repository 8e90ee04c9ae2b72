// expected: passed
// Slow: one thread for each row, whose reads do not coalesce.
// assay: launch row_sum grid=(ceil_div(rows, 64)) block=(64) args=(x, out, rows, dim)

extern "C" __global__ void row_sum(const float* x, float* out, int rows, int dim)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < dim; ++i) sum += x[row * dim + i];
    out[row] = sum;
}
