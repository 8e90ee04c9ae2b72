// problem: matmul
// style: at most 8,400 tiles of 16 rows, twice as many as the range of sizes has
// assay: launch mm grid=(min(ceil_div(m, 16), 8400), ceil_div(n, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    int i = blockIdx.x * 16 + threadIdx.y; float s = 0;
    for (int j = blockIdx.y * 16 + threadIdx.x; j < n; j += gridDim.y * 16) {
        s = 0; if (i < m) { for (int l = 0; l < k; l++) s += a[(size_t)i * k + l] * b[(size_t)l * n + j]; c[(size_t)i * n + j] = s; }
    }
}
