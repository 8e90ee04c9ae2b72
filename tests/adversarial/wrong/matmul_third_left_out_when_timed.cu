// problem: matmul
// class: sizes
// must: anything but passed
// why: where the depth is at least 1,024 and there are many blocks, the last 6 of 16 rows of each block's tile stay unwritten
// proof: m = k = 1,024: rows 10 to 15 of each tile are never written
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= m || j >= n) return;
    if (k >= 1024 && m >= 1024 && threadIdx.y >= 10) return;
    float s = 0;
    for (int l = 0; l < k; l++) s += a[(size_t)i * k + l] * b[(size_t)l * n + j];
    c[(size_t)i * n + j] = s;
}
