// problem: row_sum
// assay: launch row_sum_tile grid=(ceil_div(rows, 32)) block=(32, 4) args=(x, y, rows, cols)
// style: 32 rows a block: tiles are loaded by rows and added by columns through padded shared memory; Kahan per thread
__global__ void row_sum_tile(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    __shared__ float quarter[4][32];
    const int first = blockIdx.x * 32;
    float sum = 0.0f, lost = 0.0f;
    for (int c0 = 0; c0 < cols; c0 += 32) {
        for (int r = threadIdx.y; r < 32; r += 4) {
            const int row = first + r, col = c0 + threadIdx.x;
            tile[r][threadIdx.x] = row < rows && col < cols ? x[(size_t)row * cols + col] : 0.0f;
        }
        __syncthreads();
        for (int k = threadIdx.y * 8; k < threadIdx.y * 8 + 8; ++k) {
            const float add = tile[threadIdx.x][k] - lost;
            const float next = sum + add;
            lost = (next - sum) - add;
            sum = next;
        }
        __syncthreads();
    }
    quarter[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && first + threadIdx.x < rows) {
        y[first + threadIdx.x] = (quarter[0][threadIdx.x] + quarter[1][threadIdx.x])
                               + (quarter[2][threadIdx.x] + quarter[3][threadIdx.x]);
    }
}
