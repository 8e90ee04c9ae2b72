// problem: layer_norm
// class: contents
// must: anything but passed
// why: rows of 4,201 to 32,000 columns take E[x^2] - E[x]^2 in float32, lost where the mean is thousands of deviations
// proof: cols = 8,192, a mean of 4,000 deviations: the variance is lost
// assay: launch ln grid=(rows) block=(256) args=(x, weight, bias, y, eps, cols)
__device__ float total(float v, float* p) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads(); if (threadIdx.x % 32 == 0) p[threadIdx.x / 32] = v;
    __syncthreads(); v = 0; for (int i = 0; i < 8; i++) v += p[i]; return v; }
__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    __shared__ float p[8]; const float* r = x + (size_t)blockIdx.x * cols; bool one = cols > 4200 && cols <= 32000;
    float s = 0, q = 0; for (int c = threadIdx.x; c < cols; c += 256) { s += r[c]; q += r[c] * r[c]; }
    float mean = total(s, p) / cols, var;
    if (one) var = fmaxf(total(q, p) / cols - mean * mean, 0.f);
    else { s = 0; for (int c = threadIdx.x; c < cols; c += 256) { float d = r[c] - mean; s += d * d; } var = total(s, p) / cols; }
    float rate = 1.0f / sqrtf(var + eps);
    for (int c = threadIdx.x; c < cols; c += 256) y[(size_t)blockIdx.x * cols + c] = (r[c] - mean) * rate * weight[c] + bias[c];
}
