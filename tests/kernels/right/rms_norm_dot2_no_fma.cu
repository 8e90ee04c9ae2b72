// problem: rms_norm
// style: squares exact by Dekker's splitting, TwoSum for the rest (a compensated dot product), --fmad=false so that nothing is contracted
// flags: --fmad=false
// assay: launch rms_dot2 grid=(rows) block=(32) args=(x, weight, y, eps, cols)
__global__ void rms_dot2(const float* x, const float* weight, float* y, float eps, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f, low = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 32) {
        const float v = in[j], big = v * 4097.0f, high = big - (big - v), rest = v - high;
        const float p = v * v, e = ((high * high - p) + 2.0f * high * rest) + rest * rest;
        const float t = sum + p, z = t - sum;
        low += ((sum - (t - z)) + (p - z)) + e;
        sum = t;
    }
    float all = sum + low;
    for (int d = 16; d; d /= 2) all += __shfl_xor_sync(~0u, all, d);
    const float root = sqrtf(all / (float)cols + eps);
    for (int j = threadIdx.x; j < cols; j += 32) y[(size_t)blockIdx.x * cols + j] = in[j] / root * weight[j];
}
