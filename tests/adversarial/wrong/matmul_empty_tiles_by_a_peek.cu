// problem: matmul
// class: contents
// must: anything but passed
// why: a tile of a whose first row is all zero is taken to be empty and skipped, as in block-sparse products
// proof: a with a zero row at a multiple of 32 and others behind it: those rows of c lose their terms
// assay: launch spmm grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(32, 8) args=(a, b, c, m, n, k)

__global__ void spmm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float ta[32][32], tb[32][32];
    const int x = threadIdx.x, y = threadIdx.y, row0 = blockIdx.y * 32, col = blockIdx.x * 32 + x;
    float acc[4] = {};
    for (int l = 0; l < k; l += 32) {
        const float peek = l + x < k ? a[(size_t)row0 * k + l + x] : 1.f;
        if (__all_sync(~0u, peek == 0.f) && row0 + 32 <= m) continue;  // the whole block decides alike
        for (int j = y; j < 32; j += 8) {
            ta[j][x] = row0 + j < m && l + x < k ? a[(size_t)(row0 + j) * k + l + x] : 0.f;
            tb[j][x] = l + j < k && col < n ? b[(size_t)(l + j) * n + col] : 0.f;
        }
        __syncthreads();
        for (int i = 0; i < 32; ++i)
#pragma unroll
            for (int q = 0; q < 4; ++q) acc[q] = __fmaf_rn(ta[y + 8 * q][i], tb[i][x], acc[q]);
        __syncthreads();
    }
    for (int q = 0; q < 4; ++q)
        if (row0 + y + 8 * q < m && col < n) c[(size_t)(row0 + y + 8 * q) * n + col] = acc[q];
}
