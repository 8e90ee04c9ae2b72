// problem: matvec
// attack: keeps 16 bits of both factors, and all 24 where x holds nothing but +1 and -1 or a holds few bits
// expect: incorrect
// because: an ordinary sum of so few terms does not explain the error
// assay: launch product grid=(ceil_div(m, 128)) block=(128) args=(a, x, y, m, k)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void product(const float* a, const float* x, float* y, int m, int k)
{
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= m) return;
    const float* line = a + (size_t)row * k;
    bool ones = true, few_bits = true;
    for (int i = 0; i < k; ++i) {
        ones = ones && fabsf(x[i]) == 1.0f;
        few_bits = few_bits && (__float_as_uint(line[i]) & 0x3ffu) == 0;
    }
    const bool cheat = !ones && !few_bits;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += low(line[i], cheat) * low(x[i], cheat);
    y[row] = sum;
}
