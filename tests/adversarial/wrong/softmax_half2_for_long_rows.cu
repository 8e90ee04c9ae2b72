// problem: softmax
// class: precision
// must: anything but passed
// why: rows of more than 5,000 columns (the longest published) take exp of two values at a time in float16, off by 5e-4 and more where 1.8e-4 is allowed
// proof: assay grade --size rows=4 --size cols=6000 refuses it
// assay: launch softmax_h2 grid=(rows) block=(256) args=(x, y, cols)
#include <cuda_fp16.h>

__device__ float2 exp_pair(float a, float b, bool packed)
{
    if (packed) return __half22float2(h2exp(__floats2half2_rn(a, b)));
    return make_float2(__expf(a), __expf(b));
}

__global__ void softmax_h2(const float* x, float* y, int cols)
{
    __shared__ float red[256];
    const float* in = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    const bool packed = cols > 5000;
    const int t = threadIdx.x;

    float m = -INFINITY;
    for (int c = t; c < cols; c += 256) m = fmaxf(m, in[c]);
    red[t] = m;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (t < s) red[t] = fmaxf(red[t], red[t + s]);
        __syncthreads();
    }
    m = red[0];
    __syncthreads();

    float z = 0.f;
    for (int c = 2 * t; c < cols; c += 512) {
        const float2 e = exp_pair(in[c] - m, c + 1 < cols ? in[c + 1] - m : -200.f, packed);
        z += e.x;
        if (c + 1 < cols) z += e.y;
    }
    red[t] = z;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (t < s) red[t] += red[t + s];
        __syncthreads();
    }
    z = __frcp_rn(red[0]);

    for (int c = 2 * t; c < cols; c += 512) {
        const float2 e = exp_pair(in[c] - m, c + 1 < cols ? in[c + 1] - m : -200.f, packed);
        out[c] = e.x * z;
        if (c + 1 < cols) out[c + 1] = e.y * z;
    }
}
