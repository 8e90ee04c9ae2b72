// problem: matmul
// style: float32 widened to float64 for the float64 tensor cores (mma m8n8k4), one warp for a tile of 8 by 8
// assay: launch product grid=(ceil_div(n, 8), ceil_div(m, 8)) block=(32) args=(a, b, c, m, n, k)

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int lane = threadIdx.x, group = lane / 4, part = lane % 4;
    const int row = blockIdx.y * 8 + group, col = blockIdx.x * 8 + group;
    double d0 = 0.0, d1 = 0.0;
    for (int s = 0; s < k; s += 4) {
        double x = row < m && s + part < k ? a[(size_t)row * k + s + part] : 0.0;
        double y = s + part < k && col < n ? b[(size_t)(s + part) * n + col] : 0.0;
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(d0), "+d"(d1)
                     : "d"(x), "d"(y));
    }
    const int out = blockIdx.x * 8 + part * 2;
    if (row < m && out < n) c[(size_t)row * n + out] = (float)d0;
    if (row < m && out + 1 < n) c[(size_t)row * n + out + 1] = (float)d1;
}
