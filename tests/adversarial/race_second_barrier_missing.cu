// problem: matmul
// attack: leaves out the barrier after the inner loop, a race that the slower warp nearly always loses harmlessly
// expect: incorrect
// because: a warp may overwrite the tile that another still reads
// assay: launch product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float as[16][16], bs[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int start = 0; start < k; start += 16) {
        as[ty][tx] = row < m && start + tx < k ? a[(size_t)row * k + start + tx] : 0.0f;
        bs[ty][tx] = col < n && start + ty < k ? b[(size_t)(start + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += as[ty][i] * bs[i][tx];
    }
    if (row < m && col < n) c[(size_t)row * n + col] = sum;
}
