// problem: rms_norm
// style: sqrtf and / as --prec-sqrt=false and --prec-div=false make them, --ftz=true; a mean by products with 1 / cols
// flags: --prec-sqrt=false --prec-div=false --ftz=true
// assay: launch rms_loose grid=(rows) block=(64) args=(x, weight, y, eps, cols)
__global__ void rms_loose(const float* x, const float* weight, float* y, float eps, int cols)
{
    __shared__ float s[2];
    const size_t row = (size_t)blockIdx.x * cols;
    const float share = 1.0f / cols;
    float mean = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 64) mean += x[row + j] * x[row + j] * share;
    for (int d = 16; d; d /= 2) mean += __shfl_xor_sync(~0u, mean, d);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = mean;
    __syncthreads();
    const float root = sqrtf(s[0] + s[1] + eps);
    for (int j = threadIdx.x; j < cols; j += 64) y[row + j] = x[row + j] / root * weight[j];
}
