// problem: matmul
// style: a 16 x 16 tile with Kahan's compensation over the tiles' partial sums, those in blocks of sixteen fused operations
// assay: launch mm_kahan grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void mm_kahan(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float s[16][17], t[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f, lost = 0.0f;
    for (int first = 0; first < k; first += 16) {
        const int l = first + threadIdx.x, r = first + threadIdx.y;
        s[threadIdx.y][threadIdx.x] = row < m && l < k ? a[(size_t)row * k + l] : 0.0f;
        t[threadIdx.y][threadIdx.x] = r < k && col < n ? b[(size_t)r * n + col] : 0.0f;
        __syncthreads();
        float part = 0.0f;
        for (int e = 0; e < 16; ++e) part = fmaf(s[threadIdx.y][e], t[e][threadIdx.x], part);
        const float v = part - lost, next = sum + v;
        lost = (next - sum) - v;
        sum = next;
        __syncthreads();
    }
    if (row < m && col < n) c[(size_t)row * n + col] = sum;
}
