// problem: row_sum
// assay: temp ones float32 (cols)
// assay: fill ones value=1
// assay: launch gemv grid=(ceil_div(rows, 4)) block=(64, 4) args=(x, ones, y, rows, cols)
// style: as a product with a vector of ones that a fill made; two warps a row meet in shared memory by atomicAdd
__global__ void gemv(const float* a, const float* v, float* y, int rows, int cols)
{
    __shared__ float sums[4];
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (threadIdx.x == 0) sums[threadIdx.y] = 0.0f;
    __syncthreads();
    if (row < rows) {
        float s = 0.0f;
        for (int c = threadIdx.x; c < cols; c += 64) s = fmaf(a[(size_t)row * cols + c], v[c], s);
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        if (threadIdx.x % 32 == 0) atomicAdd_block(&sums[threadIdx.y], s);
    }
    __syncthreads();
    if (row < rows && threadIdx.x == 0) y[row] = sums[threadIdx.y];
}
