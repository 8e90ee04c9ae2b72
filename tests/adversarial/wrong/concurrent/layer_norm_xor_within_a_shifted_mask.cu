// problem: layer_norm
// class: schedule
// race: mask
// must: passed with a warning | anything but passed
// why: half-warps have a row each, and compute the mask of a half as 0xffff << lane / 16: 0 or 1 places instead of 0 or 16, so lanes 17 to 31 are not in the mask they pass, and rows with a ragged end wait for the wrong lanes
// proof: PTX shfl.sync: undefined if the executing thread is not in membermask; the shift should be lane & 16
// assay: launch ln grid=(ceil_div(rows, 8)) block=(128) args=(x, weight, bias, y, eps, rows, cols)

__device__ float half_sum(float v, unsigned mask)
{
    for (int d = 8; d; d >>= 1) v += __shfl_xor_sync(mask, v, d, 16);
    return v;
}

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    const int lane = threadIdx.x & 31, l = lane & 15, row = blockIdx.x * 8 + threadIdx.x / 16;
    const unsigned mask = 0xffffu << lane / 16;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float s = 0.0f, q = 0.0f;
    for (int c = l; c < cols; c += 16) s += in[c];
    const float mean = half_sum(s, mask) / cols;
    for (int c = l; c < cols; c += 16) q += (in[c] - mean) * (in[c] - mean);
    const float r = rsqrtf(half_sum(q, mask) / cols + eps);
    for (int c = l; c < cols; c += 16) y[(size_t)row * cols + c] = (in[c] - mean) * r * weight[c] + bias[c];
}
