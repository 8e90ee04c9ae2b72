// problem: transpose
// style: a union in shared memory: bytes of one member are read as another's, and an index runs over rows of one array
// assay: launch transpose grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    __shared__ union {
        float tile[32][33];
        unsigned words[32 * 33];
    } all;
    __shared__ int corner[2];
    if (threadIdx.x == 0 && threadIdx.y == 0) corner[0] = blockIdx.x * 32, corner[1] = blockIdx.y * 32;
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int row = corner[1] + j, col = corner[0] + threadIdx.x;
        if (row < rows && col < cols) all.tile[0][j * 33 + threadIdx.x] = x[(size_t)row * cols + col];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int row = corner[0] + j, col = corner[1] + threadIdx.x;
        if (row < cols && col < rows) y[(size_t)row * rows + col] = __uint_as_float(all.words[threadIdx.x * 33 + j]);
    }
}
