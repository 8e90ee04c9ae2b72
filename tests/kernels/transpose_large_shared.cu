// problem: transpose
// style: 66 KB of dynamic shared memory, above what a block gets without asking
// assay: launch transpose_big grid=(ceil_div(cols, 128), ceil_div(rows, 128)) block=(128, 4) shared=66048 args=(x, y, rows, cols)

extern __shared__ float tile[];

__global__ void transpose_big(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const int left = blockIdx.x * 128, top = blockIdx.y * 128;
    for (int r = threadIdx.y; r < 128 && top + r < rows; r += 4) {
        if (left + threadIdx.x < cols) {
            tile[r * 129 + threadIdx.x] = x[(long long)(top + r) * cols + left + threadIdx.x];
        }
    }
    __syncthreads();
    for (int r = threadIdx.y; r < 128 && left + r < cols; r += 4) {
        if (top + threadIdx.x < rows) {
            y[(long long)(left + r) * rows + top + threadIdx.x] = tile[threadIdx.x * 129 + r];
        }
    }
}
