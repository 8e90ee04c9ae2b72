// problem: layer_norm
// class: schedule
// race: shuffle
// must: passed with a warning | anything but passed
// why: a row is normalised in place in y: lanes write their elements, exchange sums by shuffles, and then read each other's elements from y in another order; a shuffle orders no memory
// proof: CUDA guide, warp shuffle functions: "do not imply a memory barrier"; __syncwarp() is missing
// assay: launch ln grid=(rows) block=(32) args=(x, weight, bias, y, eps, cols)

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    const int lane = threadIdx.x;
    const float* in = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float s = 0.0f, q = 0.0f;
    for (int c = lane; c < cols; c += 32) s += in[c];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    const float mean = s / cols;
    for (int c = lane; c < cols; c += 32) {
        const float v = in[c] - mean;
        out[c] = v;
        q += v * v;
    }
    for (int d = 16; d; d >>= 1) q += __shfl_xor_sync(~0u, q, d);
    const float r = rsqrtf(q / cols + eps);
    for (int c = 31 - lane; c < cols; c += 32) out[c] = out[c] * r * weight[c] + bias[c];
}
