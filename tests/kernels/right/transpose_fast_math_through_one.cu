// problem: transpose
// style: --use_fast_math and a product with 1 on the way, so that denormals are flushed; a tile of 32 x 33
// flags: --use_fast_math
// assay: launch turn_ones grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)
__global__ void turn_ones(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    for (int r = threadIdx.y; r < 32; r += 8) {
        const int row = blockIdx.y * 32 + r, col = blockIdx.x * 32 + threadIdx.x;
        if (row < rows && col < cols) tile[r][threadIdx.x] = fmaf(x[(size_t)row * cols + col], 1.0f, 0.0f);
    }
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) {
        const int row = blockIdx.y * 32 + threadIdx.x, col = blockIdx.x * 32 + r;
        if (row < rows && col < cols) y[(size_t)col * rows + row] = tile[threadIdx.x][r];
    }
}
