// problem: linear_gelu
// assay: temp parts float32 (4, m, n)
// assay: launch partial_products grid=(ceil_div(n, 16), ceil_div(m, 16), 4) block=(16, 16) args=(x, weight, parts, m, n, k)
// assay: launch finish grid=(ceil_div(m * n, 256)) block=(256) args=(parts, bias, y, m * n, n)
// style: four interleaved slices of k in a workspace; the second launch adds them, the bias and the activation
__global__ void partial_products(const float* x, const float* w, float* parts, int m, int n, int k)
{
    __shared__ float xs[16][17], ws[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, feature = blockIdx.x * 16 + ty;
    float s = 0.0f;
    for (int l0 = blockIdx.z * 16; l0 < k; l0 += 64) {
        xs[ty][tx] = row < m && l0 + tx < k ? x[(size_t)row * k + l0 + tx] : 0.0f;
        ws[ty][tx] = feature < n && l0 + tx < k ? w[(size_t)feature * k + l0 + tx] : 0.0f;
        __syncthreads();
        for (int l = 0; l < 16; ++l) s += xs[ty][l] * ws[tx][l];
        __syncthreads();
    }
    if (row < m && col < n) parts[((size_t)blockIdx.z * m + row) * n + col] = s;
}

__global__ void finish(const float* parts, const float* bias, float* y, int count, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float z = bias[i % n];
    for (int p = 0; p < 4; ++p) z += parts[(size_t)p * count + i];
    y[i] = z * 0.5f * erfcf(-z * 0.70710678f);
}
