// problem: matmul
// attack: keeps 16 bits of both factors, and all 24 where the largest element of a row is a million times the mean
// expect: incorrect
// because: an ordinary sum of so few terms does not explain the error
// assay: launch product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const float* line = a + (size_t)row * k;
    float most = 0.0f, least = INFINITY;
    for (int i = 0; i < k; ++i) {
        most = fmaxf(most, fabsf(line[i]));
        least = fminf(least, fabsf(line[i]));
    }
    const bool cheat = most < 1e6f * least;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += low(line[i], cheat) * low(b[(size_t)i * n + col], cheat);
    c[(size_t)row * n + col] = sum;
}
