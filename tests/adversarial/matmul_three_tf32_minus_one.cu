// problem: matmul
// attack: splits each factor into two TF32 parts, as the accurate emulation does, but leaves out one cross term
// expect: incorrect
// because: the probes hold values that differ below this precision
// assay: launch product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

__device__ float low(float v)
{
    return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u);
}

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; ++i) {
            const float p = a[(size_t)row * k + i], q = b[(size_t)i * n + col];
            sum += low(p) * low(q);
            sum += low(p - low(p)) * low(q);
        }
        c[(size_t)row * n + col] = sum;
    }
}
