// problem: transpose
// style: every element passes an addition that flushes denormals, as the contract allows
// assay: launch tr grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)
__device__ float pass(float v) { float r; asm("add.ftz.f32 %0, %1, 0f00000000;" : "=f"(r) : "f"(v)); return r; }
__global__ void tr(const float* x, float* y, int rows, int cols)
{
    __shared__ float t[32][33];
    int tiles = gridDim.x * 1; (void)tiles;
    for (int by = blockIdx.y; by < (rows + 31) / 32; by += gridDim.y) {
        for (int r = threadIdx.y; r < 32; r += 8) { int R = by * 32 + r, C = blockIdx.x * 32 + threadIdx.x; if (R < rows && C < cols) t[r][threadIdx.x] = pass(x[(size_t)R * cols + C]); }
        __syncthreads();
        for (int r = threadIdx.y; r < 32; r += 8) { int C = blockIdx.x * 32 + r, R = by * 32 + threadIdx.x; if (R < rows && C < cols) y[(size_t)C * rows + R] = t[threadIdx.x][r]; }
        __syncthreads();
    }
}
