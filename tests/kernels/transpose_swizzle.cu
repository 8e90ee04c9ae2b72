// problem: transpose
// style: no padding: columns of the tile are swizzled with exclusive or
// assay: launch transpose_xor grid=(ceil_div(rows, 32), ceil_div(cols, 32)) block=(32, 32) args=(x, y, rows, cols)

__global__ __launch_bounds__(1024) void transpose_xor(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[1024];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx;
    if (row < rows && col < cols) {
        tile[ty * 32 + (tx ^ ty)] = x[(size_t)row * cols + col];
    }
    __syncthreads();
    const int out_row = blockIdx.y * 32 + ty, out_col = blockIdx.x * 32 + tx;
    if (out_row < cols && out_col < rows) {
        y[(size_t)out_row * rows + out_col] = tile[tx * 32 + (ty ^ tx)];
    }
}
