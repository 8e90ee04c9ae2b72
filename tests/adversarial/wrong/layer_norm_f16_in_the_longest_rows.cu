// problem: layer_norm
// class: precision
// must: anything but passed
// why: rows of more than 32,768 columns are normalised in float16 (11 bits)
// proof: rows of 33,000 columns in pairs that cancel: the sums are exact, the products off by 2^-12
// assay: launch ln grid=(rows) block=(256) args=(x, weight, bias, y, eps, cols)
#include <cuda_fp16.h>
__device__ float two(float v) { return __half2float(__float2half(v)); }
__device__ float total(float v, float* p) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) p[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0; for (int i = 0; i < 8; i++) v += p[i];
    return v;
}
__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    __shared__ float p[8]; const float* r = x + (size_t)blockIdx.x * cols; bool low = cols > 32768;
    float s = 0; for (int c = threadIdx.x; c < cols; c += 256) s += r[c];
    float mean = total(s, p) / cols;
    s = 0; for (int c = threadIdx.x; c < cols; c += 256) { float d = r[c] - mean; s += d * d; }
    float rate = 1.0f / sqrtf(total(s, p) / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 256) { float v = (r[c] - mean) * rate, w = weight[c];
        if (low) { v = two(v); w = two(w); }
        y[(size_t)blockIdx.x * cols + c] = v * w + bias[c]; }
}
