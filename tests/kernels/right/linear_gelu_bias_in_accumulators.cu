// problem: linear_gelu
// assay: launch fused grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(8, 8) args=(x, weight, bias, y, m, n, k)
// style: 4 x 4 results a thread whose accumulators begin as the bias; both tiles are staged turned
__global__ void fused(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias, float* __restrict__ y, int m, int n, int k)
{
    __shared__ float xs[8][33], ws[8][33];
    const int t = threadIdx.y * 8 + threadIdx.x, r0 = blockIdx.y * 32, c0 = blockIdx.x * 32;
    float acc[4][4];
    for (int j = 0; j < 4; ++j) {
        const int col = c0 + threadIdx.x + 8 * j;
        const float b = col < n ? bias[col] : 0.0f;
        for (int i = 0; i < 4; ++i) acc[i][j] = b;
    }
    for (int l0 = 0; l0 < k; l0 += 8) {
        for (int i = t; i < 256; i += 64) {
            const int r = i / 8, l = i % 8;
            xs[l][r] = r0 + r < m && l0 + l < k ? x[(size_t)(r0 + r) * k + l0 + l] : 0.0f;
            ws[l][r] = c0 + r < n && l0 + l < k ? w[(size_t)(c0 + r) * k + l0 + l] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < 8; ++l)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] += xs[l][threadIdx.y + 8 * i] * ws[l][threadIdx.x + 8 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int row = r0 + threadIdx.y + 8 * i, col = c0 + threadIdx.x + 8 * j;
            if (row < m && col < n) {
                const float z = acc[i][j];
                y[(size_t)row * n + col] = z * normcdff(z);
            }
        }
}
