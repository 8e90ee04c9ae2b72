// problem: transpose
// attack: leaves out the barrier between the store to the tile and the load from it
// expect: incorrect
// because: the outcome depends on which warp comes first
// assay: launch transpose grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 32) args=(x, y, rows, cols)

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)row * cols + col];
    col = blockIdx.y * 32 + threadIdx.x;
    row = blockIdx.x * 32 + threadIdx.y;
    if (row < cols && col < rows) y[(size_t)row * rows + col] = tile[threadIdx.x][threadIdx.y];
}
