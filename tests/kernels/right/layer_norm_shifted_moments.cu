// problem: layer_norm
// assay: launch ln_shift grid=(rows) block=(128) args=(x, weight, bias, y, eps, cols)
// style: one pass with a shift: sums of x - x[0] and of its square in double, so that far means do no harm
__global__ void ln_shift(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    __shared__ double s1[128], s2[128];
    const float* in = x + (size_t)blockIdx.x * cols;
    const double shift = in[0];
    double a = 0, b = 0;
    for (int j = threadIdx.x; j < cols; j += 128) {
        const double d = in[j] - shift;
        a += d;
        b += d * d;
    }
    s1[threadIdx.x] = a;
    s2[threadIdx.x] = b;
    for (int h = 64; h; h >>= 1) {
        __syncthreads();
        if (threadIdx.x < h) {
            s1[threadIdx.x] += s1[threadIdx.x + h];
            s2[threadIdx.x] += s2[threadIdx.x + h];
        }
    }
    __syncthreads();
    const double off = s1[0] / cols;
    const double variance = fmax(0.0, s2[0] / cols - off * off);
    const double r = 1.0 / sqrt(variance + eps), mean = shift + off;
    for (int j = threadIdx.x; j < cols; j += 128)
        y[(size_t)blockIdx.x * cols + j] = float((in[j] - mean) * r * weight[j] + bias[j]);
}
