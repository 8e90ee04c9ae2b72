// problem: layer_norm
// class: shared
// must: passed with a warning | anything but passed
// why: warps of the upper half wait at another __syncthreads() than those of the lower half: allowed in conditional code only if all threads of the block decide alike (CUDA guide)
// proof: CUDA guide, synchronization functions: "otherwise the code execution is likely to hang or produce unintended side effects"
// assay: launch ln grid=(rows) block=(128) args=(x, weight, bias, y, eps, cols)

__device__ float sum_warp(float v)
{
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    __shared__ float part[8], stats[2];
    const float* in = x + (size_t)blockIdx.x * cols;
    const int t = threadIdx.x, w = t >> 5;
    float s = 0.f;
    for (int c = t; c < cols; c += 128) s += in[c];
    s = sum_warp(s);
    if (t % 32 == 0) part[w] = s;
    if (t < 64) {
        __syncthreads();
        if (t == 0) stats[0] = (part[0] + part[1] + part[2] + part[3]) / cols;
        __syncthreads();
    } else {
        __syncthreads();
        __syncthreads();
    }
    const float mean = stats[0];
    float d = 0.f;
    for (int c = t; c < cols; c += 128) {
        const float e = in[c] - mean;
        d = fmaf(e, e, d);
    }
    d = sum_warp(d);
    if (t % 32 == 0) part[4 + w] = d;
    __syncthreads();
    const float r = rsqrtf((part[4] + part[5] + part[6] + part[7]) / cols + eps);
    for (int c = t; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = (in[c] - mean) * r * weight[c] + bias[c];
}
