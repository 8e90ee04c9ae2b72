// problem: matmul
// style: outer products from the last k to the first, no contraction (--fmad=false), even and odd terms in accumulators of their own
// flags: --fmad=false
// assay: launch mm_outer grid=(ceil_div(n, 32), ceil_div(m, 4)) block=(32, 4) args=(a, b, c, m, n, k)
__global__ void mm_outer(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) return;
    float even = 0.0f, odd = 0.0f;
    int l = k - 1;
    for (; l > 0; l -= 2) {
        odd += a[(size_t)row * k + l] * b[(size_t)l * n + col];
        even += a[(size_t)row * k + l - 1] * b[(size_t)(l - 1) * n + col];
    }
    if (l == 0) even += a[(size_t)row * k] * b[col];
    c[(size_t)row * n + col] = even + odd;
}
