// problem: layer_norm
// style: --use_fast_math with powf(variance + eps, -0.5f), as a translation of Python writes it; four warps a row
// flags: --use_fast_math
// assay: launch ln_powf grid=(rows) block=(128) args=(x, weight, bias, y, eps, cols)
__device__ float all_four(float v)
{
    __shared__ float s[4];
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    return s[0] + s[1] + s[2] + s[3];
}

__global__ void ln_powf(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    const size_t row = (size_t)blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 128) sum += x[row + j];
    const float mean = all_four(sum) / cols;
    for (int j = threadIdx.x; j < cols; j += 128) squares += (x[row + j] - mean) * (x[row + j] - mean);
    const float r = powf(all_four(squares) / cols + eps, -0.5f);
    for (int j = threadIdx.x; j < cols; j += 128) y[row + j] = (x[row + j] - mean) * r * weight[j] + bias[j];
}
