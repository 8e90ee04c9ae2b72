// problem: layer_norm
// style: the corrected two-pass variance of the textbooks: the sum of deviations squared over n is taken away from their squares; float32, --fmad=false
// flags: --fmad=false
// assay: launch ln_corrected grid=(rows) block=(128) args=(x, weight, bias, y, eps, cols)
__device__ float2 block_sum(float2 v)
{
    __shared__ float2 s[128];
    __syncthreads();
    s[threadIdx.x] = v;
    for (int d = 64; d; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) {
            s[threadIdx.x].x += s[threadIdx.x + d].x;
            s[threadIdx.x].y += s[threadIdx.x + d].y;
        }
    }
    __syncthreads();
    return s[0];
}

__global__ void ln_corrected(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float2 v = {0.0f, 0.0f};
    for (int j = threadIdx.x; j < cols; j += 128) v.x += in[j];
    const float mean = block_sum(v).x / cols;
    v = {0.0f, 0.0f};
    for (int j = threadIdx.x; j < cols; j += 128) {
        const float d = in[j] - mean;
        v.x += d;
        v.y += d * d;
    }
    v = block_sum(v);
    const float rest = v.x / cols, variance = fmaxf(v.y / cols - rest * rest, 0.0f);
    const float scale = rsqrtf(variance + eps);
    for (int j = threadIdx.x; j < cols; j += 128)
        y[(size_t)blockIdx.x * cols + j] = (in[j] - mean - rest) * scale * weight[j] + bias[j];
}
