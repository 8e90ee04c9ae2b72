// problem: matmul
// style: a register block of 2 x 2 with fused operations over blocks of 64 terms whose sums are joined pairwise (blocked summation)
// assay: launch mm_blocked grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void mm_blocked(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int r0 = blockIdx.y * 32 + threadIdx.y, c0 = blockIdx.x * 32 + threadIdx.x;
    const int r1 = min(r0 + 16, m - 1), c1 = min(c0 + 16, n - 1), ra = min(r0, m - 1), ca = min(c0, n - 1);
    float stack[12][4];
    int depth = 0, blocks = 0;
    for (int first = 0; first < k; first += 64) {
        float v[4] = {};
        for (int l = first; l < min(k, first + 64); ++l) {
            const float p = a[(size_t)ra * k + l], q = a[(size_t)r1 * k + l];
            const float s = b[(size_t)l * n + ca], t = b[(size_t)l * n + c1];
            v[0] = fmaf(p, s, v[0]);
            v[1] = fmaf(p, t, v[1]);
            v[2] = fmaf(q, s, v[2]);
            v[3] = fmaf(q, t, v[3]);
        }
        for (int b2 = ++blocks; b2 % 2 == 0; b2 /= 2) {
            --depth;
            for (int e = 0; e < 4; ++e) v[e] += stack[depth][e];
        }
        for (int e = 0; e < 4; ++e) stack[depth][e] = v[e];
        ++depth;
    }
    for (int e = 0; e < 4; ++e) {
        float sum = 0.0f;
        for (int d = depth - 1; d >= 0; --d) sum += stack[d][e];
        const int row = r0 + e / 2 * 16, col = c0 + e % 2 * 16;
        if (row < m && col < n) c[(size_t)row * n + col] = sum;
    }
}
