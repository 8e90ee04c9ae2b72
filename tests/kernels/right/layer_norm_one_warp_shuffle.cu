// problem: layer_norm
// assay: launch ln_warp grid=(ceil_div(rows, 8)) block=(32, 8) args=(x, weight, bias, y, eps, rows, cols)
// style: a warp a row, two passes, Kahan in each lane, rsqrtf
__device__ __forceinline__ float lane_sum(float v)
{
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

__global__ void ln_warp(const float* x, const float* w, const float* b, float* y, float eps, int rows, int cols)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float s = 0.f, c = 0.f;
    for (int j = threadIdx.x; j < cols; j += 32) {
        const float v = in[j] - c, t = s + v;
        c = (t - s) - v;
        s = t;
    }
    const float mean = lane_sum(s) / cols;
    float q = 0.f;
    for (int j = threadIdx.x; j < cols; j += 32) {
        const float d = in[j] - mean;
        q = fmaf(d, d, q);
    }
    const float r = rsqrtf(lane_sum(q) / cols + eps);
    for (int j = threadIdx.x; j < cols; j += 32) y[(size_t)row * cols + j] = (in[j] - mean) * r * w[j] + b[j];
}
