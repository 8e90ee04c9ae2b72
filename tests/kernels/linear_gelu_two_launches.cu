// problem: linear_gelu
// style: the product into a temporary, then bias and activation in place and a copy
// assay: temp product float32 (m, n)
// assay: launch nn::product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, product, m, n, k)
// assay: launch nn::activate grid=(min(ceil_div(m * n, 256), 65535)) block=(256) args=(product, bias, m * n, n)
// assay: copy product y

namespace nn {

__global__ void product(const float* x, const float* weight, float* out, int m, int n, int k)
{
    __shared__ float xs[16][16], ws[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, weight_row = blockIdx.x * 16 + ty;
    float sum = 0.0f;
    for (int start = 0; start < k; start += 16) {
        xs[ty][tx] = row < m && start + tx < k ? x[(size_t)row * k + start + tx] : 0.0f;
        ws[ty][tx] = weight_row < n && start + tx < k ? weight[(size_t)weight_row * k + start + tx] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            sum += xs[ty][i] * ws[tx][i];
        }
        __syncthreads();
    }
    if (row < m && col < n) {
        out[(size_t)row * n + col] = sum;
    }
}

__global__ void activate(float* values, const float* bias, long long count, int n)
{
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < count; i += (long long)gridDim.x * 256) {
        const float v = values[i] + bias[i % n];
        values[i] = v * normcdff(v);
    }
}

}  // namespace nn
