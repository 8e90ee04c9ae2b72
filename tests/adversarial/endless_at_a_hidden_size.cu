// problem: row_sum
// attack: right at every published size, and one lane of each row never ends where there is one column
// expect: timeout
// message: times what the naive kernel takes
// because: what a run executes is counted, however small it is
// assay: launch row_sum grid=(rows) block=(32) args=(x, y, rows, cols)

__global__ void row_sum(const float* x, volatile float* y, int rows, int cols)
{
    int row = blockIdx.x, lane = threadIdx.x;
    float sum = 0.0f;
    for (int i = lane; i < cols; i += 32) sum += x[(size_t)row * cols + i];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (lane == 0)
        do y[row] = sum;
        while (cols == 1);
}
