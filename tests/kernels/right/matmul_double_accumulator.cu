// problem: matmul
// assay: launch dgemm_like grid=(ceil_div(n, 8), ceil_div(m, 24)) block=(8, 24) args=(a, b, c, m, n, k)
// style: float inputs, double accumulation, tiles of 24 by 8 in a block of 192 threads, k in steps of 24
__global__ void dgemm_like(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k)
{
    __shared__ float as[24][25];
    __shared__ float bs[24][9];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 24 + ty, col = blockIdx.x * 8 + tx;
    double acc = 0.0;
    for (int l0 = 0; l0 < k; l0 += 24) {
        for (int i = tx; i < 24; i += 8) as[ty][i] = row < m && l0 + i < k ? a[(size_t)row * k + l0 + i] : 0.f;
        bs[ty][tx] = l0 + ty < k && col < n ? b[(size_t)(l0 + ty) * n + col] : 0.f;
        __syncthreads();
        for (int l = 0; l < 24; ++l) acc += (double)as[ty][l] * bs[l][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[(size_t)row * n + col] = (float)acc;
}
