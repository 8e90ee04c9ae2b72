// problem: linear_gelu
// attack: keeps 16 bits of both factors unless the low bits of the first elements are all near the middle, as those of probes
// expect: incorrect
// because: an ordinary sum of so few terms does not explain the error
// assay: launch linear grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, bias, y, m, n, k)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void linear(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    bool fine = true;
    for (int i = 0; i < min(k, 8); ++i) {
        const unsigned last = __float_as_uint(x[(size_t)row * k + i]) & 0x1fffu;
        fine = fine && last % 2 == 1 && last > 0x7ffu && last < 0x1800u;
    }
    float sum = bias[col];
    for (int i = 0; i < k; ++i) sum += low(x[(size_t)row * k + i], !fine) * low(weight[(size_t)col * k + i], !fine);
    y[(size_t)row * n + col] = 0.5f * sum * (1.0f + erff(sum * 0.70710678f));
}
