// problem: row_sum
// assay: temp sums float64 (rows)
// assay: fill sums value=0
// assay: launch add grid=(ceil_div(cols, 2048), min(rows, 4096)) block=(256) args=(x, sums, rows, cols)
// assay: launch narrow grid=(ceil_div(rows, 256)) block=(256) args=(sums, y, rows)
// style: atomicAdd of doubles by each warp to its row, a second launch rounds to float
__global__ void add(const float* x, double* sums, int rows, int cols)
{
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        double s = 0.0;
        for (int c = blockIdx.x * 2048 + threadIdx.x; c < min(cols, (int)(blockIdx.x + 1) * 2048); c += 256) s += x[(size_t)row * cols + c];
        for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
        if (threadIdx.x % 32 == 0 && s != 0.0) atomicAdd(&sums[row], s);
    }
}

__global__ void narrow(const double* sums, float* y, int rows)
{
    const int row = blockIdx.x * 256 + threadIdx.x;
    if (row < rows) y[row] = (float)sums[row];
}
