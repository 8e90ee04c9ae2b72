// problem: transpose
// attack: lanes exchange values through shared memory without __syncwarp, which is right wherever lanes go in step
// expect: incorrect
// because: since Volta nothing keeps the lanes of a warp in step
// message: race
// assay: launch transpose grid=(ceil_div(cols, 4), ceil_div(rows, 4)) block=(4, 4) args=(x, y, rows, cols)

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[4][4];
    int col = blockIdx.x * 4 + threadIdx.x, row = blockIdx.y * 4 + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)row * cols + col];
    col = blockIdx.y * 4 + threadIdx.x;
    row = blockIdx.x * 4 + threadIdx.y;
    if (row < cols && col < rows) y[(size_t)row * rows + col] = tile[threadIdx.x][threadIdx.y];
}
