// problem: layer_norm
// assay: launch ln_cached grid=(rows) block=(352) shared=(min(cols, 11000) * 4 + 96) args=(x, weight, bias, y, eps, cols, min(cols, 11000))
// style: up to 11,000 elements of the row stay in dynamic shared memory behind 24 words for the warps; the rest is read again
__device__ float across(float v, float* word)
{
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) word[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) v += word[w];
        word[11] = v;
    }
    __syncthreads();
    return word[11];
}

__global__ void __launch_bounds__(352) ln_cached(const float* x, const float* weight, const float* bias, float* y, float eps, int cols, int kept)
{
    extern __shared__ float memory[];
    float* const words = memory;
    float* const row = memory + 24;
    const float* in = x + (size_t)blockIdx.x * cols;
    float s = 0.f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        const float v = in[j];
        if (j < kept) row[j] = v;
        s += v;
    }
    const float mean = across(s, words) / cols;
    s = 0.f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        const float d = (j < kept ? row[j] : in[j]) - mean;
        s += d * d;
    }
    const float scale = 1.0f / sqrtf(across(s, words + 12) / cols + eps);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        const float v = j < kept ? row[j] : in[j];
        y[(size_t)blockIdx.x * cols + j] = fmaf((v - mean) * scale, weight[j], bias[j]);
    }
}
