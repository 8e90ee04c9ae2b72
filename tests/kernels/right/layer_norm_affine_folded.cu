// problem: layer_norm
// style: mean and variance in two launches; the application is one fused operation x * (r * w) + (b - mean * r * w), the product of the mean kept exact by fmaf
// assay: temp mean float32 (rows)
// assay: temp scale float32 (rows)
// assay: launch statistics grid=(rows) block=(96) args=(x, mean, scale, eps, cols)
// assay: launch apply grid=(rows) block=(96) args=(x, weight, bias, mean, scale, y, cols)
__device__ double add_up(double v)
{
    __shared__ double s[3];
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    return s[0] + s[1] + s[2];
}

__global__ void statistics(const float* x, float* mean, float* scale, float eps, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    double sum = 0.0, squares = 0.0;
    for (int j = threadIdx.x; j < cols; j += 96) sum += in[j];
    const double centre = add_up(sum) / cols;
    for (int j = threadIdx.x; j < cols; j += 96) squares += (in[j] - centre) * (in[j] - centre);
    squares = add_up(squares) / cols;
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = (float)centre;
        scale[blockIdx.x] = (float)rsqrt(squares + eps);
    }
}

__global__ void apply(const float* x, const float* weight, const float* bias, const float* mean, const float* scale,
                      float* y, int cols)
{
    const float m = mean[blockIdx.x], r = scale[blockIdx.x];
    for (int j = threadIdx.x; j < cols; j += 96) {
        const size_t at = (size_t)blockIdx.x * cols + j;
        const float k = r * weight[j], product = m * k, error = fmaf(m, k, -product);
        y[at] = (fmaf(x[at], k, -product) - error) + bias[j];
    }
}
