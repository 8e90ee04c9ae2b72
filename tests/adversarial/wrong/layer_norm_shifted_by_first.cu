// problem: layer_norm
// class: contents
// must: anything but passed
// why: the variance is taken in one pass from values shifted by the row's first element; where that one is far from all others, E[d^2] - E[d]^2 cancels as without a shift
// proof: a row of standard normal values whose first element is 30,000, cols=40,000: the variance is off by a tenth and more (about 22,500 + 1 from terms of 9e8)
// assay: launch ln grid=(rows) block=(256) args=(x, weight, bias, y, eps, cols)

__global__ void ln(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                   float* __restrict__ y, float eps, int cols)
{
    __shared__ float2 part[8];
    const float* in = x + (size_t)blockIdx.x * cols;
    const float origin = in[0];
    float2 s = make_float2(0.f, 0.f);
    for (int c = threadIdx.x; c < cols; c += 256) {
        const float d = in[c] - origin;
        s.x += d;
        s.y += d * d;
    }
    for (int o = 16; o; o >>= 1) {
        s.x += __shfl_xor_sync(~0u, s.x, o);
        s.y += __shfl_xor_sync(~0u, s.y, o);
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    s = part[0];
    for (int w = 1; w < 8; ++w) { s.x += part[w].x; s.y += part[w].y; }
    const float mean = s.x / cols, r = rsqrtf(fmaxf(s.y / cols - mean * mean, 0.f) + eps);
    for (int c = threadIdx.x; c < cols; c += 256)
        y[(size_t)blockIdx.x * cols + c] = (in[c] - origin - mean) * r * weight[c] + bias[c];
}
