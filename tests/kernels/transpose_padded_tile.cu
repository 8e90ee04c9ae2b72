// problem: transpose
// style: 32 x 33 tile in shared memory, block of 32 x 8
// assay: launch transpose grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8) {
        if (col < cols && row + step < rows) {
            tile[threadIdx.y + step][threadIdx.x] = x[(size_t)(row + step) * cols + col];
        }
    }
    __syncthreads();
    col = blockIdx.y * 32 + threadIdx.x;
    row = blockIdx.x * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8) {
        if (col < rows && row + step < cols) {
            y[(size_t)(row + step) * rows + col] = tile[threadIdx.x][threadIdx.y + step];
        }
    }
}
